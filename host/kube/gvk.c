#include "kube/gvk.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"

enum {
    GVK_MAX = 20000,
    GVK_ASKED_MAX = GVK_MAX / 2, // that scripts have made up: the rest is for what servers name
    GROUP_MAX = 253,             // a DNS subdomain
    LABEL_MAX = 63,              // a DNS label: version and kind
    GVK_TEXT_MAX = GROUP_MAX + 2 * LABEL_MAX + 3,
};

struct interned {
    struct gvk gvk;
    UT_hash_handle hh; // by gvk.text
    char store[];
};

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct interned *table;

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// A DNS label: lower-case letters, digits, inner '-'; with `kind`, letters of both cases and a capital first.
static bool label_ok(const char *s, size_t n, bool kind)
{
    if (n == 0 || n > LABEL_MAX || s[0] == '-' || s[n - 1] == '-')
        return false;
    if (kind ? !(s[0] >= 'A' && s[0] <= 'Z') : !is_lower(s[0]))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool upper = s[i] >= 'A' && s[i] <= 'Z';
        if (!is_lower(s[i]) && !is_digit(s[i]) && s[i] != '-' && !(kind && upper))
            return false;
    }
    return true;
}

static bool group_ok(const char *s, size_t n)
{
    if (n == 0 || n > GROUP_MAX)
        return false;
    char before = '.';
    for (size_t i = 0; i < n; i++) {
        bool alnum = is_lower(s[i]) || is_digit(s[i]);
        if (!alnum && s[i] != '-' && s[i] != '.')
            return false;
        if (!alnum && before == '.') // empty part, or one that starts with '-'
            return false;
        if (s[i] == '.' && before == '-')
            return false;
        before = s[i];
    }
    return is_lower(before) || is_digit(before);
}

// Core versions look like v1, v2beta1: a lone "apps" before the kind is a group whose version was forgotten.
static bool core_version_ok(const char *s, size_t n)
{
    return label_ok(s, n, false) && n >= 2 && s[0] == 'v' && is_digit(s[1]);
}

struct parts {
    const char *group, *version, *kind;
    size_t group_len, version_len, kind_len;
};

static int split(const char *text, struct parts *p, struct err *e)
{
    const char *at[3] = {text};
    size_t len[3] = {0}, n = 1;
    for (const char *s = text; *s != '\0'; s++) {
        if (*s != '/') {
            len[n - 1]++;
            continue;
        }
        if (n == 3)
            return err_set(e, ERR_INVALID, "kind \"%.200s\" has too many parts: write group/version/Kind",
                           text);
        at[n++] = s + 1;
    }
    if (n == 1)
        return err_set(e, ERR_INVALID,
                       "kind \"%.200s\" has no version: write group/version/Kind, for core kinds v1/Kind",
                       text);
    p->group = n == 3 ? at[0] : "";
    p->group_len = n == 3 ? len[0] : 0;
    p->version = at[n - 2];
    p->version_len = len[n - 2];
    p->kind = at[n - 1];
    p->kind_len = len[n - 1];
    if (n == 3 && len[0] == 0)
        return err_set(e, ERR_INVALID, "kind \"%.200s\" has an empty group: core kinds are written v1/Kind",
                       text);
    return 0;
}

static int check(const char *text, struct parts *p, struct err *e)
{
    int rc = split(text, p, e);
    if (rc < 0)
        return rc;
    if (p->group_len > 0 && !group_ok(p->group, p->group_len))
        return err_set(e, ERR_INVALID,
                       "kind \"%.200s\": group must be a DNS name such as apps or cache.example.com", text);
    if (p->group_len == 0 && !core_version_ok(p->version, p->version_len))
        return err_set(e, ERR_INVALID,
                       "kind \"%.200s\": \"%.*s\" is no version of the core group: write group/version/Kind",
                       text, (int)(p->version_len > LABEL_MAX ? LABEL_MAX : p->version_len), p->version);
    if (!label_ok(p->version, p->version_len, false))
        return err_set(e, ERR_INVALID,
                       "kind \"%.200s\": the version must be a DNS label such as v1 or v1beta1", text);
    if (!label_ok(p->kind, p->kind_len, true))
        return err_set(
            e, ERR_INVALID,
            "kind \"%.200s\": the kind's name starts with a capital and has letters and digits only, "
            "such as Pod (not the plural pods)",
            text);
    return 0;
}

static char *put(char **at, const char *s, size_t n)
{
    char *start = *at;
    memcpy(start, s, n);
    start[n] = '\0';
    *at += n + 1;
    return start;
}

static struct interned *make(const char *text, const struct parts *p)
{
    size_t n = strlen(text), api_len = n - p->kind_len - 1;
    struct interned *x = xcalloc(1, sizeof(*x) + 2 * n + 5);
    char *at = x->store;
    x->gvk = (struct gvk){
        .group = put(&at, p->group, p->group_len),
        .version = put(&at, p->version, p->version_len),
        .kind = put(&at, p->kind, p->kind_len),
        .api_version = put(&at, text, api_len),
    };
    x->gvk.text = xstrdup(text);
    return x;
}

static const struct gvk *find(const char *text)
{
    struct interned *x;
    pthread_rwlock_rdlock(&table_lock);
    HASH_FIND_STR(table, text, x);
    pthread_rwlock_unlock(&table_lock);
    return x == NULL ? NULL : &x->gvk;
}

static const struct gvk *intern(const char *text, const struct parts *p, size_t max, struct err *e)
{
    struct interned *x;
    pthread_rwlock_wrlock(&table_lock);
    HASH_FIND_STR(table, text, x);
    if (x == NULL && HASH_COUNT(table) < max) {
        x = make(text, p);
        HASH_ADD_KEYPTR(hh, table, x->gvk.text, strlen(x->gvk.text), x);
    }
    pthread_rwlock_unlock(&table_lock);
    if (x == NULL) {
        err_set(e, ERR_LIMIT, "kind \"%s\": more than %zu kinds are in use", text, max);
        return NULL;
    }
    return &x->gvk;
}

static const struct gvk *parse(const char *text, size_t max, struct err *e)
{
    if (text == NULL) {
        err_set(e, ERR_INVALID, "no kind given: write group/version/Kind");
        return NULL;
    }
    const struct gvk *known = find(text);
    if (known != NULL)
        return known;
    struct parts p = {0};
    if (check(text, &p, e) < 0)
        return NULL;
    return intern(text, &p, max, e);
}

const struct gvk *gvk_parse(const char *text, struct err *e)
{
    return parse(text, GVK_MAX, e);
}

const struct gvk *gvk_parse_asked(const char *text, struct err *e)
{
    return parse(text, GVK_ASKED_MAX, e);
}

static const struct gvk *join(const char *api_version, const char *kind, size_t max, struct err *e)
{
    if (api_version == NULL || *api_version == '\0' || kind == NULL || *kind == '\0') {
        err_set(e, ERR_INVALID, "apiVersion and kind are both required");
        return NULL;
    }
    if (strchr(kind, '/') != NULL) {
        err_set(e, ERR_INVALID, "kind \"%.200s\" must not hold '/'", kind);
        return NULL;
    }
    char text[GVK_TEXT_MAX + 1];
    int n = snprintf(text, sizeof(text), "%s/%s", api_version, kind);
    if (n < 0 || (size_t)n >= sizeof(text)) {
        err_set(e, ERR_INVALID, "apiVersion \"%.100s\" with kind \"%.100s\" is too long", api_version, kind);
        return NULL;
    }
    return parse(text, max, e);
}

const struct gvk *gvk_of(const char *api_version, const char *kind, struct err *e)
{
    return join(api_version, kind, GVK_MAX, e);
}

const struct gvk *gvk_of_asked(const char *api_version, const char *kind, struct err *e)
{
    return join(api_version, kind, GVK_ASKED_MAX, e);
}

bool gvk_same_group_kind(const struct gvk *a, const struct gvk *b)
{
    return a == b || (strcmp(a->group, b->group) == 0 && strcmp(a->kind, b->kind) == 0);
}
