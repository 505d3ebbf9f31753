#include "apiserver/patch_body.h"

#include <stdlib.h>
#include <string.h>

#include "base/strset.h"

struct tree *patch_body_merge(struct arena *a, struct tree *target, const struct tree *patch)
{
    if (!tree_is_map(patch))
        return tree_copy(a, patch);
    if (!tree_is_map(target))
        target = tree_map(a);
    for (size_t i = 0; i < tree_count(patch); i++) {
        const struct tree_item *it = &patch->box.items[i];
        if (tree_is_null(it->value)) {
            tree_remove(target, it->key);
            continue;
        }
        struct tree *old = tree_getn(target, it->key, it->key_len);
        tree_setn(a, target, it->key, it->key_len, patch_body_merge(a, old, it->value));
    }
    return target;
}

// ---- JSON patch

// The next segment of a JSON pointer, unescaped; *at moves behind it. NULL at the end.
static const char *next_segment(struct arena *a, const char **at)
{
    if (**at != '/')
        return NULL;
    const char *from = *at + 1;
    size_t n = strcspn(from, "/");
    *at = from + n;
    char *out = arena_zalloc(a, n + 1), *put = out;
    for (size_t i = 0; i < n; i++) {
        if (from[i] == '~' && i + 1 < n && (from[i + 1] == '0' || from[i + 1] == '1'))
            *put++ = from[++i] == '0' ? '~' : '/';
        else
            *put++ = from[i];
    }
    return out;
}

static bool list_index(const char *segment, size_t count, size_t *ret)
{
    char *end;
    if (segment[0] < '0' || segment[0] > '9' || (segment[0] == '0' && segment[1] != '\0'))
        return false;
    unsigned long long i = strtoull(segment, &end, 10);
    if (*end != '\0' || i >= count)
        return false;
    *ret = (size_t)i;
    return true;
}

static struct tree *step(struct tree *at, const char *segment)
{
    size_t i;
    if (tree_is_list(at))
        return list_index(segment, tree_count(at), &i) ? tree_at(at, i) : NULL;
    return tree_get(at, segment);
}

// The container of the path's last segment, and that segment; NULL: the way does not exist.
static struct tree *find_parent(struct arena *a, struct tree *root, const char *path, const char **ret_last)
{
    struct tree *at = root;
    const char *segment = next_segment(a, &path);
    while (at != NULL && segment != NULL && *path != '\0') {
        at = step(at, segment);
        segment = next_segment(a, &path);
    }
    *ret_last = segment;
    return segment == NULL ? NULL : at;
}

static struct tree *find(struct arena *a, struct tree *root, const char *path)
{
    if (*path == '\0')
        return root;
    const char *last;
    struct tree *parent = find_parent(a, root, path, &last);
    return parent == NULL ? NULL : step(parent, last);
}

static bool put(struct arena *a, struct tree **root, const char *path, struct tree *value, bool replace)
{
    const char *last;
    if (*path == '\0') {
        *root = value;
        return true;
    }
    struct tree *parent = find_parent(a, *root, path, &last);
    if (parent == NULL || (replace && step(parent, last) == NULL))
        return false;
    if (tree_is_map(parent)) {
        tree_set(a, parent, last, value);
        return true;
    }
    size_t i, count = tree_count(parent);
    if (!tree_is_list(parent))
        return false;
    if (replace) {
        if (!list_index(last, count, &i))
            return false;
        parent->box.items[i].value = value;
        return true;
    }
    if (strcmp(last, "-") == 0)
        i = count;
    else if (!list_index(last, count + 1, &i))
        return false;
    tree_insert_at(a, parent, i, value);
    return true;
}

static bool take(struct arena *a, struct tree *root, const char *path)
{
    const char *last;
    struct tree *parent = find_parent(a, root, path, &last);
    if (parent == NULL || step(parent, last) == NULL)
        return false;
    size_t i;
    if (tree_is_map(parent))
        tree_remove(parent, last);
    else if (list_index(last, tree_count(parent), &i))
        tree_remove_at(parent, i);
    return true;
}

// Copies may double a value each time: what all of them copy is bounded.
enum { COPIED_NODES_MAX = 200000 };

static size_t count_nodes(const struct tree *t)
{
    size_t n = 1;
    for (size_t i = 0; i < tree_count(t); i++)
        n += count_nodes(t->box.items[i].value);
    return n;
}

static int copy_or_move(struct arena *a, struct tree **root, const char *from, const char *path, bool move,
                        size_t *copied, bool *ret_done, struct err *e)
{
    struct tree *source = from == NULL ? NULL : find(a, *root, from);
    *copied += source == NULL ? 0 : count_nodes(source);
    if (*copied > COPIED_NODES_MAX)
        return err_set(e, ERR_INVALID, "the patch copies more than %d values", COPIED_NODES_MAX);
    struct tree *value = tree_copy(a, source);
    *ret_done = source != NULL && (!move || take(a, *root, from)) && put(a, root, path, value, false);
    return 0;
}

static int run_operation(struct arena *a, struct tree **root, const struct tree *op, size_t *copied,
                         struct err *e)
{
    const char *name = tree_get_str(op, "op"), *path = tree_get_str(op, "path");
    struct tree *value = tree_copy(a, tree_get(op, "value"));
    bool done = false;
    if (name == NULL || path == NULL || (*path != '\0' && *path != '/'))
        return err_set(e, ERR_INVALID, "an operation needs op and path, a JSON pointer");
    if (str_eq(name, "copy") || str_eq(name, "move")) {
        int r = copy_or_move(a, root, tree_get_str(op, "from"), path, str_eq(name, "move"), copied, &done, e);
        if (r < 0)
            return r;
    } else if (str_eq(name, "remove")) {
        done = take(a, *root, path);
    } else if (str_eq(name, "test")) {
        struct tree *live = find(a, *root, path);
        done = tree_equal(live, value) || (tree_is_null(live) && tree_is_null(value));
    } else if (str_eq(name, "add") || str_eq(name, "replace")) {
        done = put(a, root, path, value == NULL ? tree_null(a) : value, str_eq(name, "replace"));
    }
    return done ? 0 : err_set(e, ERR_INVALID, "%s %s can not be done", name, path);
}

int patch_body_json(struct arena *a, struct tree **target, const struct tree *patch, struct err *e)
{
    if (!tree_is_list(patch))
        return err_set(e, ERR_BAD_REQUEST,
                       "error decoding patch: json: cannot unmarshal object into Go value of type "
                       "[]handlers.jsonPatchOp");
    if (tree_count(patch) > PATCH_BODY_OPERATIONS_MAX)
        return err_set(e, ERR_TOO_LARGE, "The allowed maximum operations in a JSON patch is %d, got %zu",
                       PATCH_BODY_OPERATIONS_MAX, tree_count(patch));
    size_t copied = 0;
    for (size_t i = 0; i < tree_count(patch); i++) {
        int r = run_operation(a, target, tree_at(patch, i), &copied, e);
        if (r < 0)
            return r;
    }
    return 0;
}
