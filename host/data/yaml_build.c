#include "data/yaml_build.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash_table.h"
#include "data/json.h"

enum {
    DEPTH_MAX = JSON_DEPTH_MAX,
    EXPAND_MAX = 16 << 20, // bytes copied for anchors, aliases and merges, in the whole stream
    NODES_STEP = 64,       // nodes and merged members between two questions whether to go on
    NODE_COST = 64,        // of a key or an anchor beside its bytes: its place in the hash, malloc's own
};

// A key that a mapping has, as JSON text with its quotes.
struct key {
    UT_hash_handle hh;
    size_t line;
    char text[];
};

// A value of "<<", as JSON text: its members are added when the mapping ends, unless the mapping has them
// itself.
struct merge {
    STAILQ_ENTRY(merge) link;
    struct yaml_place at;
    size_t len;
    char text[];
};

struct yaml_anchor {
    UT_hash_handle hh;
    char *name;
    char *text; // JSON of the whole node
    size_t len;
    size_t height; // levels within it
};

// An open sequence or mapping.
struct yaml_frame {
    bool is_mapping;
    bool has_key;  // of a mapping: the next node is a value
    bool is_merge; // of a mapping: ... and goes to merges
    bool comma;    // before the merge value
    size_t start;  // where its text begins
    size_t height;
    char *anchor;
    struct key *keys;
    STAILQ_HEAD(, merge) merges;
    size_t held; // by keys and merges
};

static int refuse(struct yaml_builder *b, enum err_code code, struct yaml_place at, const char *what)
{
    return err_set(b->e, code, "YAML: line %zu column %zu: %s", at.line, at.column, what);
}

static int spend(struct yaml_builder *b, size_t n, struct yaml_place at)
{
    b->expanded += n;
    if (b->expanded > EXPAND_MAX)
        return refuse(b, ERR_LIMIT, at,
                      "anchors and aliases make too much text: write it out, or leave some out");
    return 0;
}

// A buffer may have one byte more than its text at most.
static size_t in_use(const struct yaml_builder *b)
{
    return b->held + b->out.cap + b->key.cap + 2;
}

size_t yaml_build_left(const struct yaml_builder *b)
{
    return in_use(b) < b->max ? b->max - in_use(b) : 0;
}

static size_t grown(const struct buf *b, size_t left, size_t max)
{
    return left < max && b->cap + left < max ? b->cap + left : max;
}

int yaml_build_hold(struct yaml_builder *b, size_t n, struct yaml_place at)
{
    b->held += n;
    if (in_use(b) > b->peak)
        b->peak = in_use(b);
    if (in_use(b) > b->max)
        return refuse(b, ERR_LIMIT, at, "the documents take too much memory");
    size_t left = yaml_build_left(b);
    b->out.max = grown(&b->out, left, b->text_max);
    b->key.max = grown(&b->key, left, b->text_max);
    return 0;
}

bool yaml_limits_end(const struct yaml_limits *l, unsigned *nodes)
{
    if (++*nodes < NODES_STEP || l->is_over == NULL)
        return false;
    *nodes = 0;
    return l->is_over(l->ud, NODES_STEP);
}

int yaml_build_go_on(struct yaml_builder *b)
{
    return yaml_limits_end(b->limits, &b->nodes) ? err_set(b->e, ERR_CANCELED, "YAML: given up") : 0;
}

static void frame_fini(struct yaml_builder *b, struct yaml_frame *f)
{
    b->held -= f->held;
    struct key *k, *next;
    HASH_ITER (hh, f->keys, k, next) {
        HASH_DEL(f->keys, k);
        free(k);
    }
    struct merge *m;
    while ((m = STAILQ_FIRST(&f->merges)) != NULL) {
        STAILQ_REMOVE_HEAD(&f->merges, link);
        free(m);
    }
    free(f->anchor);
}

static void anchors_clear(struct yaml_builder *b)
{
    b->held -= b->anchors_held;
    b->anchors_held = 0;
    struct yaml_anchor *a, *next;
    HASH_ITER (hh, b->anchors, a, next) {
        HASH_DEL(b->anchors, a);
        free(a->name);
        free(a->text);
        free(a);
    }
}

void yaml_build_init(struct yaml_builder *b, size_t text_max, const struct yaml_limits *limits, struct err *e)
{
    *b = (struct yaml_builder){.e = e,
                               .text_max = text_max,
                               .max = limits->memory,
                               .limits = limits,
                               .held = DEPTH_MAX * sizeof(*b->frames)};
    b->peak = b->held;
    size_t left = yaml_build_left(b);
    buf_init(&b->out, left < text_max ? left : text_max);
    buf_init(&b->key, left < text_max ? left : text_max);
    b->frames = xreallocarray(NULL, DEPTH_MAX, sizeof(*b->frames));
    jw_init(&b->w, &b->out);
}

void yaml_build_fini(struct yaml_builder *b)
{
    while (b->depth > 0)
        frame_fini(b, &b->frames[--b->depth]);
    free(b->frames);
    anchors_clear(b);
    buf_fini(&b->key);
    buf_fini(&b->out);
}

void yaml_build_begin(struct yaml_builder *b)
{
    ASSERT(b->depth == 0);
    anchors_clear(b);
    buf_reset(&b->out);
    jw_init(&b->w, &b->out);
}

static struct yaml_frame *top(const struct yaml_builder *b)
{
    return b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
}

bool yaml_build_wants_key(const struct yaml_builder *b)
{
    const struct yaml_frame *f = top(b);
    return f != NULL && f->is_mapping && !f->has_key;
}

void yaml_build_merge(struct yaml_builder *b)
{
    ASSERT(yaml_build_wants_key(b));
    top(b)->has_key = true;
    top(b)->is_merge = true;
}

// ---- values ----

// A name may be given again.
static int anchor_set(struct yaml_builder *b, const char *name, const char *text, size_t n, size_t height,
                      struct yaml_place at)
{
    size_t cost = n + strlen(name) + sizeof(struct yaml_anchor) + NODE_COST;
    int err = spend(b, n, at);
    if (err == 0)
        err = yaml_build_hold(b, cost, at);
    if (err < 0)
        return err;
    b->anchors_held += cost; // also that of an earlier one of the name, which is freed
    struct yaml_anchor *a;
    HASH_FIND_STR(b->anchors, name, a);
    if (a == NULL) {
        a = xcalloc(1, sizeof(*a));
        a->name = xstrdup(name);
        HASH_ADD_KEYPTR(hh, b->anchors, a->name, strlen(a->name), a);
    }
    free(a->text);
    a->text = xmemdup(text, n);
    a->len = n;
    a->height = height;
    return 0;
}

// Takes the value of "<<" out of the text again.
static int merge_take(struct yaml_builder *b, struct yaml_frame *f, size_t start, struct yaml_place at)
{
    size_t len = b->out.len - start;
    int err = spend(b, len, at);
    if (err == 0)
        err = yaml_build_hold(b, sizeof(struct merge) + len, at);
    if (err < 0)
        return err;
    f->held += sizeof(struct merge) + len;
    struct merge *m = xmalloc(sizeof(*m) + len);
    m->at = at;
    m->len = len;
    memcpy(m->text, b->out.data + start, len);
    STAILQ_INSERT_TAIL(&f->merges, m, link);
    b->out.len = start;
    b->out.data[start] = 0;
    b->w.comma = f->comma;
    return 0;
}

// Before a value's text: its comma, so that the text from the place returned on is the value alone.
static size_t value_begin(struct yaml_builder *b, struct yaml_place at)
{
    struct yaml_frame *f = top(b);
    if (f == NULL)
        b->line = at.line;
    if (f != NULL && f->is_merge) {
        f->comma = b->w.comma;
        b->w.comma = false;
    }
    if (b->w.comma)
        buf_add_char(&b->out, ',');
    b->w.comma = false;
    return b->out.len;
}

// A buffer is at its end: that of the text, or of the memory.
static int too_long(struct yaml_builder *b, const struct buf *full, struct yaml_place at, const char *what)
{
    if (full->max < b->text_max)
        b->peak = b->max + 1;
    return refuse(b, ERR_LIMIT, at, what);
}

static int value_end(struct yaml_builder *b, const char *anchor, size_t start, size_t height,
                     struct yaml_place at)
{
    if (b->w.failed || b->out.failed)
        return too_long(b, &b->out, at, "the text is too long");
    int held = yaml_build_hold(b, 0, at);
    if (held < 0)
        return held;
    if (anchor != NULL) {
        int err = anchor_set(b, anchor, b->out.data + start, b->out.len - start, height, at);
        if (err < 0)
            return err;
    }
    struct yaml_frame *f = top(b);
    if (f == NULL)
        return 0;
    if (f->height < height)
        f->height = height;
    f->has_key = false;
    if (!f->is_merge)
        return 0;
    f->is_merge = false;
    return merge_take(b, f, start, at);
}

int yaml_build_open(struct yaml_builder *b, bool is_mapping, const char *anchor, struct yaml_place at)
{
    if (yaml_build_wants_key(b))
        return refuse(b, ERR_PARSE, at, "a key must be a string, not a list or a map");
    if (b->depth == DEPTH_MAX)
        return refuse(b, ERR_LIMIT, at, "nested too deep");
    size_t start = value_begin(b, at);
    struct yaml_frame *f = &b->frames[b->depth++];
    *f = (struct yaml_frame){.is_mapping = is_mapping, .start = start};
    f->anchor = xstrdup(anchor);
    STAILQ_INIT(&f->merges);
    if (is_mapping)
        jw_object(&b->w);
    else
        jw_array(&b->w);
    return 0;
}

// ---- keys ----

// Adds the key whose JSON text is in b->key to the open mapping; *ret_old is the one that was there already,
// or NULL.
static int key_add(struct yaml_builder *b, size_t line, struct yaml_place at, struct key **ret_old)
{
    struct yaml_frame *f = top(b);
    const struct buf *text = &b->key;
    HASH_FIND(hh, f->keys, text->data, text->len, *ret_old);
    if (*ret_old != NULL)
        return 0;
    size_t cost = sizeof(struct key) + text->len + NODE_COST;
    int err = yaml_build_hold(b, cost, at);
    if (err < 0)
        return err;
    f->held += cost;
    struct key *k = xmalloc(sizeof(*k) + text->len + 1);
    k->line = line;
    memcpy(k->text, text->data, text->len + 1);
    HASH_ADD_KEYPTR(hh, f->keys, k->text, text->len, k);
    return 0;
}

static void key_write(struct yaml_builder *b)
{
    jw_raw(&b->w, b->key.data, b->key.len);
    buf_add_char(&b->out, ':');
    b->w.comma = false;
}

// A key is a string whatever it looks like: 012 is "10", yes is "true".
static int key_from_text(struct yaml_builder *b, const char *text, size_t n, struct yaml_place at)
{
    if (text[0] == '{' || text[0] == '[')
        return refuse(b, ERR_PARSE, at, "a key must be a string, not a list or a map");
    if (text[0] == 'n')
        return refuse(b, ERR_PARSE, at, "a key must be a string, not null");
    const char *quote = text[0] == '"' ? "" : "\"";
    buf_reset(&b->key);
    buf_add_str(&b->key, quote);
    buf_add(&b->key, text, n);
    buf_add_str(&b->key, quote);
    if (b->key.failed)
        return too_long(b, &b->key, at, "the key is too long");
    struct key *old;
    int err = key_add(b, at.line, at, &old);
    if (err < 0)
        return err;
    if (old != NULL)
        return err_set(b->e, ERR_PARSE,
                       "YAML: line %zu column %zu: the key %.80s is there already, in line %zu", at.line,
                       at.column, b->key.data, old->line);
    key_write(b);
    top(b)->has_key = true;
    return 0;
}

static int merge_members(struct yaml_builder *b, const json *object, struct yaml_place at)
{
    for (struct json_iter i = json_iter(object); json_next(&i);) {
        struct json_writer key;
        int err = yaml_build_go_on(b);
        if (err < 0)
            return err;
        buf_reset(&b->key);
        jw_init(&key, &b->key);
        jw_strn(&key, i.key, i.key_len);
        if (b->key.failed)
            return too_long(b, &b->key, at, "the key is too long");
        struct key *old;
        err = key_add(b, 0, at, &old);
        if (err < 0)
            return err;
        if (old != NULL)
            continue;
        key_write(b);
        jw_value(&b->w, i.value);
    }
    return 0;
}

static int merge_apply(struct yaml_builder *b, const struct merge *m)
{
    static const char what[] = "the value of << must be a map or a list of maps";
    struct json_doc *doc;
    size_t memory = 0;
    int err = spend(b, m->len, m->at);
    if (err == 0)
        err = json_parse_within(m->text, m->len, yaml_build_left(b), &doc, &memory, b->e);
    if (in_use(b) + memory > b->peak)
        b->peak = in_use(b) + memory;
    if (err < 0)
        return err;
    b->held += memory;
    const json *root = json_root(doc);
    if (json_is_object(root))
        err = merge_members(b, root, m->at);
    else if (!json_is_array(root))
        err = refuse(b, ERR_PARSE, m->at, what);
    for (struct json_iter i = json_iter(json_is_array(root) ? root : NULL); err == 0 && json_next(&i);) {
        if (json_is_object(i.value))
            err = merge_members(b, i.value, m->at);
        else
            err = refuse(b, ERR_PARSE, m->at, what);
    }
    json_doc_free(doc);
    b->held -= memory;
    return err;
}

// ---- nodes ----

int yaml_build_close(struct yaml_builder *b, struct yaml_place at)
{
    struct yaml_frame *f = top(b);
    int err = 0;
    struct merge *m;
    STAILQ_FOREACH (m, &f->merges, link) {
        if (err == 0)
            err = merge_apply(b, m);
    }
    if (f->is_mapping)
        jw_object_end(&b->w);
    else
        jw_array_end(&b->w);
    struct yaml_frame done = *f;
    b->depth--;
    if (err == 0)
        err = value_end(b, done.anchor, done.start, done.height + 1, at);
    frame_fini(b, &done);
    return err;
}

int yaml_build_scalar(struct yaml_builder *b, const char *text, size_t n, const char *anchor,
                      struct yaml_place at)
{
    if (yaml_build_wants_key(b)) {
        int err = key_from_text(b, text, n, at);
        return err == 0 && anchor != NULL ? anchor_set(b, anchor, text, n, 0, at) : err;
    }
    size_t start = value_begin(b, at);
    jw_raw(&b->w, text, n);
    return value_end(b, anchor, start, 0, at);
}

int yaml_build_alias(struct yaml_builder *b, const char *name, struct yaml_place at)
{
    struct yaml_anchor *a;
    HASH_FIND_STR(b->anchors, name, a);
    if (a == NULL)
        return err_set(b->e, ERR_PARSE,
                       "YAML: line %zu column %zu: no finished node before it has the anchor &%.80s", at.line,
                       at.column, name);
    int err = spend(b, a->len, at);
    if (err < 0)
        return err;
    if (yaml_build_wants_key(b))
        return key_from_text(b, a->text, a->len, at);
    if (b->depth + a->height > DEPTH_MAX)
        return refuse(b, ERR_LIMIT, at, "nested too deep");
    size_t start = value_begin(b, at);
    jw_raw(&b->w, a->text, a->len);
    return value_end(b, NULL, start, a->height, at);
}
