#include "run/apply/conflict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/strset.h"
#include "data/json_write.h"

enum { VALUE_MAX = 120 };

static const json *find(const json *node, const char *path);

// Does the item have all of `k=v,k2="v2"` (or, for `="v"`, is it that value)? n bytes.
static bool is_item(const json *item, const char *keys, size_t n)
{
    struct json_doc *doc;
    const char *end = keys + n;
    while (keys < end) {
        const char *equals = memchr(keys, '=', (size_t)(end - keys));
        if (equals == NULL)
            return false;
        const char *stop = equals + 1;
        for (bool quoted = false; stop < end && (quoted || *stop != ','); stop++)
            quoted ^= *stop == '"' && stop[-1] != '\\';
        if (json_parse(equals + 1, (size_t)(stop - equals - 1), &doc, NULL) < 0)
            return false;
        const json *have = equals == keys ? item : json_getn(item, keys, (size_t)(equals - keys));
        bool same = have != NULL && json_equal(have, json_root(doc));
        json_doc_free(doc);
        if (!same)
            return false;
        keys = stop < end ? stop + 1 : end;
    }
    return true;
}

static const char *end_of_item(const char *path)
{
    bool quoted = false;
    for (; *path != '\0' && (quoted || *path != ']'); path++)
        quoted ^= *path == '"' && path[-1] != '\\';
    return path;
}

static const json *find_item(const json *list, const char *path)
{
    const char *end = end_of_item(path + 1);
    if (*end == '\0')
        return NULL;
    if (path[1] >= '0' && path[1] <= '9')
        return find(json_at(list, strtoul(path + 1, NULL, 10)), end + 1);
    for (struct json_iter i = json_iter(list); json_next(&i);)
        if (is_item(i.value, path + 1, (size_t)(end - path - 1)))
            return find(i.value, end + 1);
    return NULL;
}

// Names may hold dots: each member that could begin the rest is tried.
static const json *find(const json *node, const char *path)
{
    if (node == NULL || *path == '\0')
        return node;
    if (*path == '[')
        return json_is_array(node) ? find_item(node, path) : NULL;
    if (*path != '.' || !json_is_object(node))
        return NULL;
    for (struct json_iter i = json_iter(node); json_next(&i);) {
        const char *rest = path + 1 + i.key_len;
        if (strncmp(path + 1, i.key, i.key_len) != 0 || (*rest != '\0' && *rest != '.' && *rest != '['))
            continue;
        const json *found = find(i.value, rest);
        if (found != NULL)
            return found;
    }
    return NULL;
}

const json *conflict_find(const json *object, const char *path)
{
    return find(object, path);
}

struct conflict conflict_read(const json *status)
{
    struct conflict c = {0};
    for (struct json_iter i = json_iter(json_path(status, "details", "causes", NULL)); json_next(&i);) {
        const char *message = json_get_str(i.value, "message"), *path = json_get_str(i.value, "field");
        const char *name = message == NULL ? NULL : strchr(message, '"');
        size_t n = name == NULL ? 0 : strcspn(name + 1, "\"");
        if (!str_eq(json_get_str(i.value, "reason"), "FieldManagerConflict") || n == 0 ||
            n >= sizeof c.manager)
            continue;
        memcpy(c.manager, name + 1, n);
        snprintf(c.path, sizeof c.path, "%s", path == NULL ? "" : path);
        break;
    }
    return c;
}

struct conflict conflict_guess(const json *object, const char *ours, const char *subresource,
                               const char *path)
{
    struct conflict c = {0};
    const char *newest = "";
    snprintf(c.path, sizeof c.path, ".%.250s", path);
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL));
         json_next(&i);) {
        const char *manager = json_get_str(i.value, "manager"), *time = json_get_str(i.value, "time");
        const char *sub = json_get_str(i.value, "subresource");
        bool about = (sub == NULL || !str_eq(sub, "status")) == (subresource == NULL);
        if (manager == NULL || time == NULL || !about || str_eq(manager, ours) || strcmp(time, newest) < 0)
            continue;
        newest = time;
        snprintf(c.manager, sizeof c.manager, "%s", manager);
    }
    return c;
}

static char *value_text(const json *v, bool secret)
{
    struct buf text;
    struct json_writer w;
    if (secret)
        return xstrdup("(not shown)");
    if (v == NULL)
        return xstrdup("nothing");
    buf_init(&text, 1 << 20);
    jw_init(&w, &text);
    jw_value(&w, v);
    char *s = buf_take(&text, NULL);
    size_t n = str_utf8_cut(s, strlen(s), VALUE_MAX);
    if (s[n] == '\0')
        return s;
    char *cut = xasprintf("%.*s...", (int)n, s);
    free(s);
    return cut;
}

char *conflict_text(const struct conflict *c, const json *theirs, const char *ours, const json *wanted,
                    bool secret)
{
    char *a = value_text(theirs, secret), *b = value_text(wanted, secret);
    char *text = xasprintf(
        "field %s flips: %s%s%s sets it to %s, this script (manager \"%s\") to %s: leave the "
        "field out of the script or stop the other from writing it; until then it is set "
        "again less and less often",
        c->path, c->manager[0] == '\0' ? "" : "manager \"", c->manager[0] == '\0' ? "somebody" : c->manager,
        c->manager[0] == '\0' ? "" : "\"", a, ours, b);
    free(a);
    free(b);
    return text;
}
