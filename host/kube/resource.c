#include "kube/resource.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"

enum { INTERN_MAX = 40000 };

struct interned {
    UT_hash_handle hh;
    char text[];
};

static pthread_mutex_t intern_lock = PTHREAD_MUTEX_INITIALIZER;
static struct interned *interned;

const char *resource_intern(const char *text)
{
    struct interned *x;
    size_t n = strlen(text);
    pthread_mutex_lock(&intern_lock);
    HASH_FIND(hh, interned, text, n, x);
    if (x == NULL && HASH_COUNT(interned) < INTERN_MAX) {
        x = xcalloc(1, sizeof(*x) + n + 1);
        memcpy(x->text, text, n);
        HASH_ADD_KEYPTR(hh, interned, x->text, n, x);
    }
    pthread_mutex_unlock(&intern_lock);
    return x == NULL ? NULL : x->text;
}

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static void add_encoded(struct buf *out, const char *s, const char *also_plain)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (is_unreserved(c) || strchr(also_plain, c) != NULL) {
            buf_add_char(out, *s);
        } else {
            char enc[3] = {'%', hex[c >> 4], hex[c & 15]};
            buf_add(out, enc, sizeof(enc));
        }
    }
}

static void add_segment(struct buf *out, const char *s)
{
    buf_add_char(out, '/');
    add_encoded(out, s, ":@");
}

static bool is_set(const char *s)
{
    return s != NULL && *s != '\0';
}

void resource_path(const struct resource *r, const char *ns, const char *name, const char *subresource,
                   const char *query, struct buf *out)
{
    buf_add_str(out, r->gvk->group[0] == '\0' ? "/api" : "/apis");
    if (r->gvk->group[0] != '\0')
        add_segment(out, r->gvk->group);
    add_segment(out, r->gvk->version);
    if (r->namespaced && is_set(ns)) {
        buf_add_str(out, "/namespaces");
        add_segment(out, ns);
    }
    add_segment(out, r->plural);
    if (is_set(name))
        add_segment(out, name);
    if (is_set(subresource))
        add_segment(out, subresource);
    if (is_set(query)) {
        buf_add_char(out, '?');
        buf_add_str(out, query);
    }
}

void resource_query_add(struct buf *query, const char *key, const char *value)
{
    if (query->len > 0)
        buf_add_char(query, '&');
    add_encoded(query, key, "");
    buf_add_char(query, '=');
    add_encoded(query, value, "");
}

bool resource_name_ok(const char *name)
{
    if (!is_set(name) || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    return strpbrk(name, "/%") == NULL;
}
