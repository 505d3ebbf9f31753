// A small mutable tree of JSON values, for merging and patching inside one request. Nodes live in an arena.
// Members of a map are kept sorted by key, so that look-ups are binary searches, two maps can be walked side
// by side, and equal values print as equal bytes. A node may stand in several trees at once: change only what
// tree_copy gave.
#ifndef APISERVER_TREE_H
#define APISERVER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apiserver/arena.h"
#include "data/json.h"
#include "data/json_write.h"

enum tree_type { TREE_NULL, TREE_BOOL, TREE_INT, TREE_UINT, TREE_DOUBLE, TREE_STRING, TREE_LIST, TREE_MAP };

struct tree;

struct tree_item {
    const char *key; // NULL in lists; NUL-terminated
    size_t key_len;
    struct tree *value;
};

struct tree {
    enum tree_type type;
    union {
        bool flag;
        int64_t num;
        uint64_t unum; // only above INT64_MAX
        double dbl;
        struct {
            const char *bytes; // NUL-terminated
            size_t len;
        } str;
        struct {
            struct tree_item *items;
            size_t count;
            size_t cap;
        } box; // lists and maps
    };
};

struct tree *tree_from_json(struct arena *a,
                            const json *node); // NULL gives NULL; of equal keys the last counts
struct tree *tree_parse(struct arena *a, const char *text, size_t n, struct err *e); // NULL on failure
struct tree *tree_copy(struct arena *a, const struct tree *t);                       // deep; NULL gives NULL
void tree_write(struct json_writer *w, const struct tree *t);
char *tree_print(struct arena *a, const struct tree *t);     // compact JSON
bool tree_equal(const struct tree *a, const struct tree *b); // numbers by value; NULL equals NULL only

struct tree *tree_map(struct arena *a);
struct tree *tree_list(struct arena *a);
struct tree *tree_null(struct arena *a);
struct tree *tree_int(struct arena *a, int64_t v);
struct tree *tree_str(struct arena *a, const char *s); // copies
struct tree *tree_strn(struct arena *a, const char *s, size_t n);

// Readers take NULL and other types and then answer NULL, 0 or false.
bool tree_is_map(const struct tree *t);
bool tree_is_list(const struct tree *t);
bool tree_is_null(const struct tree *t); // null or absent
size_t tree_count(const struct tree *t);
struct tree *tree_get(const struct tree *map, const char *key);
struct tree *tree_getn(const struct tree *map, const char *key, size_t n);
const char *tree_get_str(const struct tree *map, const char *key);
struct tree *tree_path(const struct tree *t, ...) __attribute__((sentinel));
struct tree *tree_at(const struct tree *list, size_t i);
const char *tree_text(const struct tree *t); // of a string

void tree_set(struct arena *a, struct tree *map, const char *key, struct tree *value); // NULL value removes
void tree_setn(struct arena *a, struct tree *map, const char *key, size_t n, struct tree *value);
void tree_set_str(struct arena *a, struct tree *map, const char *key, const char *s); // NULL removes
void tree_remove(struct tree *map, const char *key);
void tree_add(struct arena *a, struct tree *list, struct tree *value);
void tree_insert_at(struct arena *a, struct tree *list, size_t i, struct tree *value);
void tree_remove_at(struct tree *list, size_t i);
// The member as a map, made (or made new, if it is something else) when needed.
struct tree *tree_need_map(struct arena *a, struct tree *map, const char *key);

#endif
