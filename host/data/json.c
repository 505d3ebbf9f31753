#include "data/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"

struct json_doc {
    yyjson_doc *doc;
    size_t max, used, peak; // bytes of the document
};

// Before each block of it; keeps malloc's alignment.
struct block {
    size_t size;
    char pad[8];
};

// yyjson keeps all nodes in one array, in document order, and each container knows where it ends: the depth
// is found in one pass with the open containers' ends on a stack of fixed size.
static bool too_deep(yyjson_val *root, size_t count)
{
    const yyjson_val *ends[JSON_DEPTH_MAX];
    size_t depth = 0;
    yyjson_val *end = root + count;
    for (yyjson_val *v = root; v < end; v++) {
        while (depth > 0 && v >= ends[depth - 1])
            depth--;
        if (!yyjson_is_ctn(v))
            continue;
        if (depth == JSON_DEPTH_MAX)
            return true;
        ends[depth++] = unsafe_yyjson_get_next(v);
    }
    return false;
}

static int parse_error(const char *text, size_t n, const yyjson_read_err *why, struct err *e)
{
    if (why->code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return err_set(e, ERR_LIMIT, "JSON: no memory for a document of %zu bytes", n);
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < why->pos && i < n; i++) {
        column++;
        if (text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return err_set(e, ERR_PARSE, "JSON: line %zu column %zu: %s", line, column, why->msg);
}

// A new block, or `old` with another size. NULL: there is no memory, or it would be more than the document
// may take.
static void *resize_block(void *ctx, void *old, size_t had, size_t size)
{
    struct json_doc *d = ctx;
    struct block *b = old != NULL ? (struct block *)old - 1 : NULL;
    size_t used = d->used - had + size + (old == NULL ? sizeof(*b) : 0);
    if (size > SIZE_MAX / 2)
        return NULL;
    if (used > d->peak)
        d->peak = used;
    if (used > d->max || (b = realloc(b, sizeof(*b) + size)) == NULL)
        return NULL;
    b->size = size;
    d->used = used;
    return b + 1;
}

static void *take_block(void *ctx, size_t size)
{
    return resize_block(ctx, NULL, 0, size);
}

static void free_block(void *ctx, void *p)
{
    struct json_doc *d = ctx;
    struct block *b = (struct block *)p - 1;
    d->used -= b->size + sizeof(*b);
    free(b);
}

int json_parse_within(const char *text, size_t n, size_t max, struct json_doc **ret, size_t *ret_memory,
                      struct err *e)
{
    yyjson_read_err why = {0};
    struct json_doc *d = xmalloc(sizeof(*d));
    *d = (struct json_doc){.max = max, .used = sizeof(*d), .peak = sizeof(*d)};
    const yyjson_alc alc = {take_block, resize_block, free_block, d};
    d->doc = yyjson_read_opts((char *)text, n, YYJSON_READ_NOFLAG, &alc, &why);
    *ret_memory = d->peak;
    int r = 0;
    if (d->doc == NULL)
        r = parse_error(text, n, &why, e);
    else if (too_deep(d->doc->root, d->doc->val_read))
        r = err_set(e, ERR_LIMIT, "JSON: nested deeper than %d levels", JSON_DEPTH_MAX);
    if (r < 0)
        json_doc_free(d);
    else
        *ret = d;
    return r;
}

int json_parse(const char *text, size_t n, struct json_doc **ret, struct err *e)
{
    size_t memory;
    return json_parse_within(text, n, SIZE_MAX, ret, &memory, e);
}

void json_doc_free(struct json_doc *d)
{
    if (d == NULL)
        return;
    yyjson_doc_free(d->doc);
    free(d);
}

const json *json_root(const struct json_doc *d)
{
    return d != NULL ? yyjson_doc_get_root(d->doc) : NULL;
}

bool json_true(const json *v)
{
    return yyjson_is_true((yyjson_val *)v);
}

// A number as sign and magnitude when it is integral and within INT64_MIN..UINT64_MAX.
static bool exact_integer(const json *v, bool *negative, uint64_t *magnitude)
{
    yyjson_val *node = (yyjson_val *)v;
    if (yyjson_is_uint(node)) {
        *negative = false;
        *magnitude = yyjson_get_uint(node);
        return true;
    }
    if (yyjson_is_sint(node)) {
        int64_t i = yyjson_get_sint(node);
        *negative = i < 0;
        *magnitude = i < 0 ? -(uint64_t)i : (uint64_t)i;
        return true;
    }
    double d = yyjson_get_real(node);
    if (!yyjson_is_real(node) || d != floor(d) || d < -0x1p63 || d >= 0x1p64)
        return false;
    *negative = d < 0;
    *magnitude = (uint64_t)fabs(d);
    return true;
}

int json_int(const json *v, int64_t *ret)
{
    bool negative;
    uint64_t magnitude;
    if (!exact_integer(v, &negative, &magnitude))
        return -ERR_INVALID;
    // -2^63 as a double may have been an integer beyond the range.
    bool has_min = negative && yyjson_is_sint((yyjson_val *)v);
    if (magnitude > (uint64_t)INT64_MAX + has_min)
        return -ERR_INVALID;
    *ret = (int64_t)(negative ? -magnitude : magnitude);
    return 0;
}

int64_t json_get_int(const json *object, const char *key, int64_t absent)
{
    int64_t v = absent;
    json_int(json_get(object, key), &v);
    return v;
}

const json *json_path(const json *v, ...)
{
    va_list ap;
    va_start(ap, v);
    const char *key;
    while (v != NULL && (key = va_arg(ap, const char *)) != NULL)
        v = json_get(v, key);
    va_end(ap);
    return v;
}

const json *json_dotted(const json *v, const char *path)
{
    while (v != NULL) {
        size_t n = strcspn(path, ".");
        v = json_getn(v, path, n);
        if (path[n] == 0)
            break;
        path += n + 1;
    }
    return v;
}

struct json_iter json_iter(const json *container)
{
    struct json_iter it = {.container = container, .left = json_count(container)};
    if (it.left > 0)
        it.cursor = unsafe_yyjson_get_first((yyjson_val *)container);
    return it;
}

bool json_next(struct json_iter *it)
{
    if (it->left == 0)
        return false;
    it->index = it->value != NULL ? it->index + 1 : 0;
    it->left--;
    json *node = it->cursor;
    if (json_is_object(it->container)) {
        it->key_node = node;
        it->key = yyjson_get_str(node);
        it->key_len = yyjson_get_len(node);
        node++;
    }
    it->value = node;
    it->cursor = unsafe_yyjson_get_next(node);
    return true;
}

// Members of an object by key: sorted, and of members with the same key only the first one, which is the one
// that json_get finds. Freed by the caller.
struct members {
    const json **keys; // the value is the node behind
    size_t count;
};

static int compare_keys(const json *a, const json *b)
{
    size_t n = json_str_len(a);
    size_t m = json_str_len(b);
    return n != m ? (n < m ? -1 : 1) : memcmp(json_str(a), json_str(b), n);
}

static int compare_members(const void *a, const void *b)
{
    const json *x = *(const json *const *)a;
    const json *y = *(const json *const *)b;
    int r = compare_keys(x, y);
    return r != 0 ? r : (x > y) - (x < y);
}

static struct members members_sorted(const json *object)
{
    struct members m = {.keys = xreallocarray(NULL, json_count(object), sizeof(*m.keys))};
    size_t n = 0;
    for (struct json_iter i = json_iter(object); json_next(&i);)
        m.keys[n++] = i.key_node;
    if (n > 1)
        qsort(m.keys, n, sizeof(*m.keys), compare_members);
    for (size_t i = 0; i < n; i++) {
        if (m.count == 0 || compare_keys(m.keys[m.count - 1], m.keys[i]) != 0)
            m.keys[m.count++] = m.keys[i];
    }
    return m;
}

static bool members_have(const struct members *m, const json *key)
{
    size_t low = 0;
    size_t high = m->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int r = compare_keys(m->keys[middle], key);
        if (r == 0)
            return m->keys[middle] == key;
        if (r < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static bool same_key_order(const json *a, const json *b)
{
    if (json_count(a) != json_count(b))
        return false;
    struct json_iter j = json_iter(b);
    for (struct json_iter i = json_iter(a); json_next(&i) && json_next(&j);) {
        if (compare_keys(i.key_node, j.key_node) != 0)
            return false;
    }
    return true;
}

// Every value is compared at most once, whatever way is taken: twice a level would be exponential in the
// depth.
static bool equal_in_order(const json *a, const json *b)
{
    struct members first = {0};
    bool equal = true;
    struct json_iter j = json_iter(b);
    for (struct json_iter i = json_iter(a); equal && json_next(&i) && json_next(&j);) {
        if (json_equal(i.value, j.value))
            continue;
        // A difference counts unless an earlier member hides this one.
        if (first.keys == NULL) {
            if (json_getn(a, i.key, i.key_len) == i.value) {
                equal = false;
                break;
            }
            first = members_sorted(a);
        }
        equal = !members_have(&first, i.key_node);
    }
    free(first.keys);
    return equal;
}

static bool equal_by_key(const json *a, const json *b)
{
    struct members x = members_sorted(a);
    struct members y = members_sorted(b);
    bool equal = x.count == y.count;
    for (size_t i = 0; equal && i < x.count; i++)
        equal = compare_keys(x.keys[i], y.keys[i]) == 0;
    for (size_t i = 0; equal && i < x.count; i++)
        equal = json_equal(x.keys[i] + 1, y.keys[i] + 1);
    free(x.keys);
    free(y.keys);
    return equal;
}

static bool equal_arrays(const json *a, const json *b)
{
    if (json_count(a) != json_count(b))
        return false;
    struct json_iter j = json_iter(b);
    for (struct json_iter i = json_iter(a); json_next(&i) && json_next(&j);) {
        if (!json_equal(i.value, j.value))
            return false;
    }
    return true;
}

static bool equal_numbers(const json *a, const json *b)
{
    bool a_negative, b_negative;
    uint64_t x, y;
    bool a_exact = exact_integer(a, &a_negative, &x);
    bool b_exact = exact_integer(b, &b_negative, &y);
    if (a_exact || b_exact)
        return a_exact && b_exact && x == y && (a_negative == b_negative || x == 0);
    return yyjson_get_real((yyjson_val *)a) == yyjson_get_real((yyjson_val *)b);
}

bool json_equal(const json *a, const json *b)
{
    if (a == b || a == NULL || b == NULL)
        return a == b;
    yyjson_type type = yyjson_get_type((yyjson_val *)a);
    if (type != yyjson_get_type((yyjson_val *)b))
        return false;
    switch (type) {
    case YYJSON_TYPE_OBJ:
        return same_key_order(a, b) ? equal_in_order(a, b) : equal_by_key(a, b);
    case YYJSON_TYPE_ARR:
        return equal_arrays(a, b);
    case YYJSON_TYPE_NUM:
        return equal_numbers(a, b);
    case YYJSON_TYPE_STR:
        return json_str_len(a) == json_str_len(b) && memcmp(json_str(a), json_str(b), json_str_len(a)) == 0;
    case YYJSON_TYPE_BOOL:
        return json_true(a) == json_true(b);
    default:
        return true; // null
    }
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15ULL;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ULL;
    return h ^ h >> 32;
}

static uint64_t hash_number(const json *v)
{
    bool negative;
    uint64_t magnitude;
    if (exact_integer(v, &negative, &magnitude))
        return mix(negative ? 3 : 2, magnitude);
    double d = yyjson_get_real((yyjson_val *)v);
    uint64_t bits;
    memcpy(&bits, &d, sizeof(bits));
    return mix(4, bits);
}

static uint64_t hash_text(const json *v)
{
    return hash_fnv1a(HASH_FNV_START, json_str(v), json_str_len(v));
}

// Is there a member with the same key before this one? For small objects.
static bool is_repeated(const json *object, const json *key)
{
    for (struct json_iter i = json_iter(object); json_next(&i) && i.key_node != key;) {
        if (compare_keys(i.key_node, key) == 0)
            return true;
    }
    return false;
}

// Members are added up, which does not depend on their order.
static uint64_t hash_object(const json *v)
{
    enum { SMALL = 12 };
    uint64_t sum = 0;
    if (json_count(v) <= SMALL) {
        for (struct json_iter i = json_iter(v); json_next(&i);) {
            if (!is_repeated(v, i.key_node))
                sum += mix(hash_text(i.key_node), json_hash(i.value));
        }
        return mix(6, sum);
    }
    struct members m = members_sorted(v);
    for (size_t i = 0; i < m.count; i++)
        sum += mix(hash_text(m.keys[i]), json_hash(m.keys[i] + 1));
    free(m.keys);
    return mix(6, sum);
}

uint64_t json_hash(const json *v)
{
    if (v == NULL)
        return 0;
    switch (yyjson_get_type((yyjson_val *)v)) {
    case YYJSON_TYPE_OBJ:
        return hash_object(v);
    case YYJSON_TYPE_ARR: {
        uint64_t h = 7;
        for (struct json_iter i = json_iter(v); json_next(&i);)
            h = mix(h, json_hash(i.value));
        return h;
    }
    case YYJSON_TYPE_NUM:
        return hash_number(v);
    case YYJSON_TYPE_STR:
        return mix(5, hash_text(v));
    case YYJSON_TYPE_BOOL:
        return mix(8, json_true(v));
    default:
        return mix(9, 0); // null
    }
}
