#include "base/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash_table.h"
#include "base/strset.h"

enum { LABELS_MAX = 6, SERIES_MAX = 10000, VALUE_MAX_BYTES = 512 };

static const double default_buckets[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

struct series {
    struct metric *family;
    UT_hash_handle hh;
    char *key; // the label values one after another, each with its NUL
    size_t key_len;
    bool removed;              // under the family's lock: not shown, and from zero when it is asked for again
    _Atomic double value;      // of a histogram: the sum
    _Atomic uint64_t *buckets; // of a histogram: each on its own, the last is +Inf
};

struct metric {
    TAILQ_ENTRY(metric) link;
    const struct metric_def *def;
    struct strset labels;
    const double *bounds;
    size_t bound_count;
    pthread_mutex_t lock;
    struct series *series;
};

struct render_hook {
    SLIST_ENTRY(render_hook) link;
    void (*fn)(void *ud);
    void *ud;
};

struct metrics {
    pthread_mutex_t lock;
    TAILQ_HEAD(, metric) families;
    SLIST_HEAD(, render_hook) hooks;
};

struct metrics *metrics_new(void)
{
    struct metrics *m = xcalloc(1, sizeof(*m));
    pthread_mutex_init(&m->lock, NULL);
    TAILQ_INIT(&m->families);
    SLIST_INIT(&m->hooks);
    return m;
}

static void family_free(struct metric *f)
{
    struct series *s, *next;
    HASH_ITER (hh, f->series, s, next) {
        HASH_DEL(f->series, s);
        free(s->buckets);
        free(s->key);
        free(s);
    }
    strset_fini(&f->labels);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void metrics_free(struct metrics *m)
{
    if (m == NULL)
        return;
    struct metric *f;
    while ((f = TAILQ_FIRST(&m->families)) != NULL) {
        TAILQ_REMOVE(&m->families, f, link);
        family_free(f);
    }
    struct render_hook *hook;
    while ((hook = SLIST_FIRST(&m->hooks)) != NULL) {
        SLIST_REMOVE_HEAD(&m->hooks, link);
        free(hook);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static struct metric *family_find(struct metrics *m, const char *name)
{
    struct metric *f;
    TAILQ_FOREACH (f, &m->families, link) {
        if (strcmp(f->def->name, name) == 0)
            return f;
    }
    return NULL;
}

static struct metric *family_new(const struct metric_def *def)
{
    struct metric *f = xcalloc(1, sizeof(*f));
    f->def = def;
    strset_init(&f->labels);
    strset_add_split(&f->labels, def->labels != NULL ? def->labels : "", ',');
    ASSERT(f->labels.count <= LABELS_MAX);
    f->bounds = def->buckets != NULL ? def->buckets : default_buckets;
    f->bound_count =
        def->buckets != NULL ? def->bucket_count : sizeof(default_buckets) / sizeof(default_buckets[0]);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

struct metric *metrics_add(struct metrics *m, const struct metric_def *def)
{
    pthread_mutex_lock(&m->lock);
    struct metric *f = family_find(m, def->name);
    bool fresh = f == NULL;
    if (fresh) {
        f = family_new(def);
        TAILQ_INSERT_TAIL(&m->families, f, link);
    }
    pthread_mutex_unlock(&m->lock);
    ASSERT(f->def->type == def->type);
    if (fresh && f->labels.count == 0)
        metric_series(f); // shown as 0 from the start
    return f;
}

// ---- series ----

// Label values must be UTF-8, or a scraper refuses the whole text; what is not becomes '?'.
static void add_label_value(struct buf *key, const char *value)
{
    size_t n = str_utf8_cut(value, strlen(value), VALUE_MAX_BYTES);
    if (str_is_utf8(value, n)) { // as good as always
        buf_add(key, value, n);
        buf_add_char(key, 0);
        return;
    }
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t len = str_utf8_char(value + i, n - i, &code);
        buf_add(key, len > 0 ? value + i : "?", len > 0 ? len : 1);
        i += len > 0 ? len : 1;
    }
    buf_add_char(key, 0);
}

static void series_reset(struct series *s)
{
    atomic_store(&s->value, 0);
    for (size_t i = 0; s->buckets != NULL && i <= s->family->bound_count; i++)
        atomic_store(&s->buckets[i], 0);
}

// The lock is held.
static struct series *series_add_new(struct metric *f, const struct buf *key)
{
    struct series *s = xcalloc(1, sizeof(*s));
    s->family = f;
    s->key = xmemdup(key->data, key->len);
    s->key_len = key->len;
    if (f->def->type == METRIC_HISTOGRAM)
        s->buckets = xcalloc(f->bound_count + 1, sizeof(*s->buckets));
    HASH_ADD_KEYPTR(hh, f->series, s->key, s->key_len, s);
    return s;
}

static struct series *series_find(struct metric *f, const struct buf *key)
{
    struct series *s;
    HASH_FIND(hh, f->series, key->data, key->len, s);
    return s;
}

struct series *metric_series(struct metric *f, ...)
{
    struct buf key;
    buf_init(&key, LABELS_MAX * (VALUE_MAX_BYTES + 1));
    va_list ap;
    va_start(ap, f);
    for (size_t i = 0; i < f->labels.count; i++) {
        const char *value = va_arg(ap, const char *);
        add_label_value(&key, value != NULL ? value : "");
    }
    va_end(ap);
    buf_reserve(&key, 0); // data is not NULL, also without labels

    pthread_mutex_lock(&f->lock);
    struct series *s = series_find(f, &key);
    if (s == NULL && HASH_COUNT(f->series) >= SERIES_MAX) {
        buf_reset(&key);
        for (size_t i = 0; i < f->labels.count; i++)
            add_label_value(&key, "other");
        s = series_find(f, &key);
    }
    if (s == NULL)
        s = series_add_new(f, &key);
    if (s->removed) {
        s->removed = false;
        series_reset(s);
    }
    pthread_mutex_unlock(&f->lock);
    buf_fini(&key);
    return s;
}

// The memory stays: some thread may still hold the series.
void metric_remove(struct metric *f, const char *first_label_value)
{
    pthread_mutex_lock(&f->lock);
    for (struct series *s = f->series; s != NULL; s = s->hh.next) {
        if (f->labels.count > 0 && strcmp(s->key, first_label_value) == 0)
            s->removed = true;
    }
    pthread_mutex_unlock(&f->lock);
}

void series_inc(struct series *s)
{
    series_add(s, 1);
}

void series_add(struct series *s, double v)
{
    double old = atomic_load_explicit(&s->value, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&s->value, &old, old + v)) {
    }
}

void series_set(struct series *s, double v)
{
    atomic_store(&s->value, v);
}

void series_observe(struct series *s, double v)
{
    const struct metric *f = s->family;
    ASSERT(f->def->type == METRIC_HISTOGRAM);
    size_t i = 0;
    while (i < f->bound_count && !(v <= f->bounds[i]))
        i++;
    atomic_fetch_add(&s->buckets[i], 1);
    series_add(s, v);
}

double series_value(const struct series *s)
{
    if (s->buckets == NULL)
        return atomic_load(&s->value);
    uint64_t count = 0;
    for (size_t i = 0; i <= s->family->bound_count; i++)
        count += atomic_load(&s->buckets[i]);
    return (double)count;
}

// ---- the text ----

void metrics_on_render(struct metrics *m, void (*fn)(void *ud), void *ud)
{
    struct render_hook *hook = xcalloc(1, sizeof(*hook));
    hook->fn = fn;
    hook->ud = ud;
    pthread_mutex_lock(&m->lock);
    SLIST_INSERT_HEAD(&m->hooks, hook, link);
    pthread_mutex_unlock(&m->lock);
}

static void add_escaped(struct buf *out, const char *s, bool quotes)
{
    for (; *s != 0; s++) {
        if (*s == '\n')
            buf_add_str(out, "\\n");
        else if (*s == '\\' || (quotes && *s == '"'))
            buf_addf(out, "\\%c", *s);
        else
            buf_add_char(out, *s);
    }
}

static void add_number(struct buf *out, double v)
{
    if (isnan(v)) {
        buf_add_str(out, "NaN");
    } else if (isinf(v)) {
        buf_add_str(out, v > 0 ? "+Inf" : "-Inf");
    } else if (v == floor(v) && fabs(v) < 1e15) {
        buf_addf(out, "%.0f", v);
    } else {
        char text[32];
        for (int precision = 6; precision <= 17; precision++) {
            snprintf(text, sizeof(text), "%.*g", precision, v);
            if (strtod(text, NULL) == v)
                break;
        }
        buf_add_str(out, text);
    }
}

// name{label="value",...,le="bound"} ; bound NULL: none
static void add_name(struct buf *out, const struct series *s, const char *suffix, const double *bound)
{
    const struct metric *f = s->family;
    buf_addf(out, "%s%s", f->def->name, suffix);
    if (f->labels.count == 0 && bound == NULL) {
        buf_add_char(out, ' ');
        return;
    }
    buf_add_char(out, '{');
    const char *value = s->key;
    for (size_t i = 0; i < f->labels.count; i++) {
        buf_addf(out, "%s%s=\"", i > 0 ? "," : "", f->labels.items[i]);
        add_escaped(out, value, true);
        buf_add_char(out, '"');
        value += strlen(value) + 1;
    }
    if (bound != NULL) {
        buf_addf(out, "%sle=\"", f->labels.count > 0 ? "," : "");
        add_number(out, *bound);
        buf_add_char(out, '"');
    }
    buf_add_str(out, "} ");
}

static void add_histogram(struct buf *out, const struct series *s)
{
    const struct metric *f = s->family;
    uint64_t count = 0;
    for (size_t i = 0; i <= f->bound_count; i++) {
        count += atomic_load(&s->buckets[i]);
        double bound = i < f->bound_count ? f->bounds[i] : INFINITY;
        add_name(out, s, "_bucket", &bound);
        buf_addf(out, "%llu\n", (unsigned long long)count);
    }
    add_name(out, s, "_sum", NULL);
    add_number(out, atomic_load(&s->value));
    buf_add_char(out, '\n');
    add_name(out, s, "_count", NULL);
    buf_addf(out, "%llu\n", (unsigned long long)count); // the +Inf bucket's number, also while others observe
}

static int compare_series(const void *a, const void *b)
{
    const struct series *x = *(const struct series *const *)a;
    const struct series *y = *(const struct series *const *)b;
    size_t n = x->key_len < y->key_len ? x->key_len : y->key_len;
    int r = memcmp(x->key, y->key, n);
    return r != 0 ? r : (x->key_len > y->key_len) - (x->key_len < y->key_len);
}

// The family's shown series in order; freed by the caller.
static struct series **family_sorted(struct metric *f, size_t *ret_count)
{
    size_t n = 0;
    pthread_mutex_lock(&f->lock);
    struct series **all = xreallocarray(NULL, HASH_COUNT(f->series), sizeof(struct series *));
    for (struct series *s = f->series; s != NULL; s = s->hh.next) {
        if (!s->removed)
            all[n++] = s;
    }
    pthread_mutex_unlock(&f->lock);
    if (n > 1)
        qsort(all, n, sizeof(struct series *), compare_series);
    *ret_count = n;
    return all;
}

static void render_family(struct metric *f, struct buf *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    size_t n;
    struct series **all = family_sorted(f, &n);
    if (n > 0) {
        buf_addf(out, "# HELP %s ", f->def->name);
        add_escaped(out, f->def->help, false);
        buf_addf(out, "\n# TYPE %s %s\n", f->def->name, types[f->def->type]);
    }
    for (size_t i = 0; i < n; i++) {
        if (f->def->type == METRIC_HISTOGRAM) {
            add_histogram(out, all[i]);
            continue;
        }
        add_name(out, all[i], "", NULL);
        add_number(out, atomic_load(&all[i]->value));
        buf_add_char(out, '\n');
    }
    free(all);
}

// Hooks and families are only ever added, so what was read under the lock stays good without it.
void metrics_render(struct metrics *m, struct buf *out)
{
    pthread_mutex_lock(&m->lock);
    struct render_hook *hook = SLIST_FIRST(&m->hooks);
    pthread_mutex_unlock(&m->lock);
    for (; hook != NULL; hook = SLIST_NEXT(hook, link))
        hook->fn(hook->ud);

    pthread_mutex_lock(&m->lock);
    struct metric *f = TAILQ_FIRST(&m->families);
    pthread_mutex_unlock(&m->lock);
    while (f != NULL) {
        render_family(f, out);
        pthread_mutex_lock(&m->lock);
        f = TAILQ_NEXT(f, link);
        pthread_mutex_unlock(&m->lock);
    }
}
