// Lua to JSON. The walk runs in one protected call, as forcing a lazy table may raise; what it owns (the keys
// to sort) lives outside of it.
#include "script/convert.h"

#include <endian.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "script/boxed.h"
#include "script/convert_internal.h"
#include "script/merge_sort.h"
#include "script/native_quantity.h"
#include "script/own.h"
#include "script/sandbox.h"
#include "script/value_path.h"

struct key {
    const char *text; // a string that the table holds
    size_t len;
    uint64_t prefix; // its first bytes, so that most comparisons are one of numbers
};

struct encoder {
    lua_State *L;
    struct json_writer *w;
    struct err *e;
    int result;
    size_t elements; // of the list that is counted
    const struct value_path *start;
    struct key *keys; // those of all open objects, the innermost last
    size_t key_count;
    size_t key_cap;
    const void *array; // the metatables' identities
    const void *lazy;
    const void *open[CONVERT_DEPTH_MAX]; // the tables around the value
    int depth;
    size_t work; // since the last look: values written, and their text
    size_t compared;
};

enum { WORK_STEP = 64, WORK_BYTES = 256 }; // so many bytes of text count as a value
enum { PART_BYTES = 1 << 20 };             // of a text, between two looks at the budget
enum { KEYS_MAX = 8 << 20 };               // those of the open tables, and half as many for sorting them

static int fail(struct encoder *enc, enum err_code code, const struct value_path *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int fail(struct encoder *enc, enum err_code code, const struct value_path *path, const char *fmt, ...)
{
    char where[VALUE_PATH_TEXT_MAX];
    char what[ERR_TEXT_MAX - VALUE_PATH_TEXT_MAX - 8];
    value_path_format(where, path);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return err_set(enc->e, code, where[0] != 0 ? "%s: %s" : "%s%s", where, what);
}

// Most text is ASCII: looked at eight bytes at a time.
static bool is_utf8(const char *s, size_t n)
{
    size_t i = 0;
    for (uint64_t word; i + sizeof(word) <= n; i += sizeof(word)) {
        memcpy(&word, s + i, sizeof(word));
        if ((word & 0x8080808080808080ULL) != 0)
            return str_is_utf8(s, n);
    }
    for (; i < n; i++) {
        if ((unsigned char)s[i] >= 0x80)
            return str_is_utf8(s, n);
    }
    return true;
}

// Large texts take long.
static bool check_utf8(struct encoder *enc, const char *s, size_t n)
{
    while (n > PART_BYTES) {
        size_t part = str_utf8_cut(s, n, PART_BYTES);
        if (!is_utf8(s, part))
            return false;
        s += part;
        n -= part;
        sandbox_poll(enc->L, 0);
    }
    return is_utf8(s, n);
}

static int write_value(struct encoder *enc, const struct value_path *path);

// The walk may be long (tables that are shared many times).
static void count_work(struct encoder *enc, size_t work)
{
    enc->work += work;
    if (enc->work < WORK_STEP)
        return;
    sandbox_poll(enc->L, enc->work);
    enc->work = 0;
}

// --- what kind of table it is ---

struct shape {
    size_t names;    // string keys
    size_t elements; // keys that are whole numbers from 1
    size_t last;     // the greatest of them
    // Of the keys that can not be: which is told must not depend on the order of the hash.
    int odd;               // the least type, or LUA_TNIL when there is none
    lua_Number odd_number; // the least, when that type is LUA_TNUMBER
};

static void note_odd_key(struct shape *s, lua_State *L, int idx)
{
    int type = lua_type(L, idx);
    lua_Number n = type == LUA_TNUMBER ? lua_tonumber(L, idx) : 0;
    if (s->odd != LUA_TNIL && (type > s->odd || (type == s->odd && n >= s->odd_number)))
        return;
    s->odd = type;
    s->odd_number = n;
}

static int odd_key(struct encoder *enc, const struct value_path *path, const struct shape *s)
{
    if (s->odd == LUA_TNUMBER)
        return fail(enc, ERR_INVALID, path,
                    "has the key %.14g: a list counts from 1 without gaps, an object has text keys (write "
                    "[\"%.14g\"])",
                    s->odd_number, s->odd_number);
    return fail(enc, ERR_INVALID, path, "has a key of type %s: only text (or 1..n in a list) can be a key",
                s->odd == LUA_TLIGHTUSERDATA ? "k8s.null" : lua_typename(enc->L, s->odd));
}

static uint64_t prefix_of(const char *text, size_t len)
{
    unsigned char first[sizeof(uint64_t)] = {0};
    uint64_t prefix;
    memcpy(first, text, len < sizeof(first) ? len : sizeof(first));
    memcpy(&prefix, first, sizeof(prefix));
    return be64toh(prefix);
}

// Room for so many keys.
static int reserve_keys(struct encoder *enc, size_t count)
{
    size_t cap = enc->key_cap > 0 ? enc->key_cap : 64;
    while (cap < count)
        cap *= 2;
    size_t more = cap - enc->key_cap;
    if (more == 0)
        return 0;
    if (cap > KEYS_MAX || more * sizeof(*enc->keys) > sandbox_memory_left(enc->L))
        return -ERR_LIMIT;
    sandbox_memory_add(enc->L, more * sizeof(*enc->keys));
    enc->key_cap = cap;
    enc->keys = xreallocarray(enc->keys, cap, sizeof(*enc->keys));
    return 0;
}

static int add_key(struct encoder *enc, const char *text, size_t len)
{
    if (reserve_keys(enc, enc->key_count + 1) < 0)
        return -ERR_LIMIT;
    count_work(enc, 1);
    enc->keys[enc->key_count++] = (struct key){text, len, prefix_of(text, len)};
    return 0;
}

// Counts the keys of the table at the top and adds the text ones to enc->keys.
static int measure(struct encoder *enc, const struct value_path *path, struct shape *ret)
{
    lua_State *L = enc->L;
    struct shape s = {0};
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (lua_type(L, -2) == LUA_TSTRING) {
            size_t len;
            const char *text = lua_tolstring(L, -2, &len);
            if (add_key(enc, text, len) < 0)
                return fail(enc, ERR_LIMIT, path, "has more keys than there is memory for");
            s.names++;
        } else {
            lua_Number n = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;
            count_work(enc, 1);
            bool element = n >= 1 && n <= 0x1p53 && n == floor(n);
            if (!element)
                note_odd_key(&s, L, -2);
            s.elements += element;
            if (element && (size_t)n > s.last)
                s.last = (size_t)n;
        }
        lua_pop(L, 1);
    }
    *ret = s;
    return s.odd != LUA_TNIL ? odd_key(enc, path, &s) : 0;
}

static int compare_keys(const struct key *x, const struct key *y)
{
    if (x->prefix != y->prefix)
        return x->prefix < y->prefix ? -1 : 1;
    int r = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return r != 0 ? r : (x->len > y->len) - (x->len < y->len);
}

// Names the first of the text keys, the last `names` of enc->keys.
static int mixed_keys(struct encoder *enc, const struct value_path *path, size_t names)
{
    const struct key *first = &enc->keys[enc->key_count - names];
    for (const struct key *k = first + 1; k < enc->keys + enc->key_count; k++)
        first = compare_keys(k, first) < 0 ? k : first;
    const char *name = str_is_utf8(first->text, first->len) ? first->text : "?";
    return fail(enc, ERR_INVALID, path,
                "is a list and also has the key \"%.60s\": make it a list (1..n) or an object (text keys)",
                name);
}

static int gap(struct encoder *enc, const struct value_path *path, const struct shape *s)
{
    lua_State *L = enc->L;
    size_t first = 1;
    for (; first <= s->elements; first++) {
        lua_rawgeti(L, -1, (int)first);
        bool empty = lua_isnil(L, -1);
        lua_pop(L, 1);
        if (empty)
            break;
    }
    struct value_path at = {.parent = path, .index = first};
    return fail(enc, ERR_INVALID, &at,
                "is nil, but the list goes on to [%zu]: leave no gaps (k8s.null writes a null; text keys "
                "make an object)",
                s->last);
}

// --- containers ---

static int write_array(struct encoder *enc, const struct value_path *path, size_t count)
{
    jw_array(enc->w);
    for (size_t i = 1; i <= count; i++) {
        struct value_path at = {.parent = path, .index = i};
        lua_rawgeti(enc->L, -1, (int)i);
        int r = write_value(enc, &at);
        if (r < 0)
            return r;
        lua_pop(enc->L, 1);
    }
    jw_array_end(enc->w);
    return 0;
}

static bool is_before(void *ud, const void *a, const void *b)
{
    struct encoder *enc = ud;
    if (++enc->compared % WORK_STEP == 0)
        sandbox_poll(enc->L, 0); // what it charges must not depend on the order of the hash
    return compare_keys(a, b) < 0;
}

// Sorts the last keys.
static int sort_keys(struct encoder *enc, size_t count)
{
    if (reserve_keys(enc, enc->key_count + count / 2 + 1) < 0)
        return -ERR_LIMIT;
    struct key *end = enc->keys + enc->key_count;
    struct merge_sort by_text = {sizeof(*end), is_before, enc, (char *)end};
    merge_sort(&by_text, (char *)(end - count), count);
    return 0;
}

// Adds the names whose null was read and that have no value now: the metatable of the table at the top knows
// them.
static int collect_nulls(struct encoder *enc)
{
    lua_State *L = enc->L;
    int r = 0;
    if (!lua_getmetatable(L, -1))
        return 0;
    convert_push_nulls(L); // takes the metatable
    if (lua_istable(L, -1)) {
        lua_pushnil(L);
        while (r == 0 && lua_next(L, -2)) {
            lua_pop(L, 1);
            lua_pushvalue(L, -1);
            lua_rawget(L, -4);
            size_t len;
            const char *text = lua_tolstring(L, -2, &len);
            if (lua_isnil(L, -1))
                r = add_key(enc, text, len);
            lua_pop(L, 1);
        }
        if (r < 0)
            lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return r;
}

static int write_member(struct encoder *enc, const struct value_path *path, const struct key *k)
{
    struct value_path at = {.parent = path, .key = k->text, .key_len = k->len};
    if (!check_utf8(enc, k->text, k->len))
        return fail(enc, ERR_INVALID, &at, "the key is not valid UTF-8");
    jw_keyn(enc->w, k->text, k->len);
    lua_pushlstring(enc->L, k->text, k->len);
    lua_rawget(enc->L, -2);
    if (lua_isnil(enc->L, -1))
        jw_null(enc->w); // remembered
    else {
        int r = write_value(enc, &at);
        if (r < 0)
            return r;
    }
    lua_pop(enc->L, 1);
    return 0;
}

// The text keys from `start` on are the table's.
static int write_object(struct encoder *enc, const struct value_path *path, size_t start,
                        const void *metatable)
{
    int r = metatable != NULL ? collect_nulls(enc) : 0;
    size_t count = enc->key_count - start;
    if (r < 0 || sort_keys(enc, count) < 0)
        return fail(enc, ERR_LIMIT, path, "has more keys than there is memory for");
    jw_object(enc->w);
    for (size_t i = 0; i < count; i++) {
        struct key k = enc->keys[start + i]; // a copy: the array may move
        r = write_member(enc, path, &k);
        if (r < 0)
            return r;
    }
    jw_object_end(enc->w);
    return 0;
}

static const void *metatable_of(lua_State *L)
{
    if (!lua_getmetatable(L, -1))
        return NULL;
    const void *p = lua_topointer(L, -1);
    lua_pop(L, 1);
    return p;
}

// Around the table at the top: no cycle, not too deep, and still room in the output.
static int enter(struct encoder *enc, const struct value_path *path)
{
    const void *self = lua_topointer(enc->L, -1);
    for (int i = 0; i < enc->depth; i++) {
        if (enc->open[i] == self)
            return fail(enc, ERR_INVALID, path, "the table contains itself");
    }
    if (enc->depth == CONVERT_DEPTH_MAX)
        return fail(enc, ERR_LIMIT, path, "is nested deeper than %d levels", CONVERT_DEPTH_MAX);
    if (enc->w->failed)
        return fail(enc, ERR_LIMIT, path, "the text is longer than %zu bytes", enc->w->out->max);
    luaL_checkstack(enc->L, 8, "value nested too deep");
    enc->open[enc->depth++] = self;
    return 0;
}

static int write_table(struct encoder *enc, const struct value_path *path)
{
    size_t start = enc->key_count;
    const void *metatable = metatable_of(enc->L);
    int r = enter(enc, path);
    if (r < 0)
        return r;
    if (metatable == enc->lazy) {
        convert_force(enc->L, -1);
        metatable = metatable_of(enc->L);
    }
    struct shape s = {0};
    r = measure(enc, path, &s);
    if (r < 0)
        return r;
    bool array = s.elements > 0 || metatable == enc->array;
    if (array && s.names > 0)
        return mixed_keys(enc, path, s.names);
    if (s.last != s.elements)
        return gap(enc, path, &s);
    r = array ? write_array(enc, path, s.elements) : write_object(enc, path, start, metatable);
    enc->key_count = start;
    enc->depth--;
    return r;
}

// --- scalars ---

static int write_number(struct encoder *enc, const struct value_path *path)
{
    lua_Number n = lua_tonumber(enc->L, -1);
    if (isnan(n) || isinf(n))
        return fail(enc, ERR_INVALID, path, "is %s, which JSON has no number for",
                    isnan(n) ? "NaN (0/0)" : "infinite");
    if (n == floor(n) && fabs(n) < 0x1p63)
        jw_int(enc->w, (int64_t)n);
    else
        jw_double(enc->w, n);
    return 0;
}

static int write_string(struct encoder *enc, const struct value_path *path)
{
    size_t len;
    const char *s = lua_tolstring(enc->L, -1, &len);
    if (!check_utf8(enc, s, len))
        return fail(enc, ERR_INVALID, path, "the text is not valid UTF-8 (bytes go through tidelock.base64)");
    if (enc->w->failed) // large texts take long also when they are dropped
        return fail(enc, ERR_LIMIT, path, "the text is longer than %zu bytes", enc->w->out->max);
    jw_strn(enc->w, s, len);
    count_work(enc, len / WORK_BYTES);
    return 0;
}

static int write_userdata(struct encoder *enc, const struct value_path *path)
{
    const char *quantity = native_quantity_text(enc->L, -1);
    if (quantity != NULL) {
        jw_str(enc->w, quantity);
        return 0;
    }
    const struct boxed *b = boxed_get(enc->L, -1);
    if (b == NULL)
        return fail(enc, ERR_INVALID, path,
                    "is a userdata: only text, numbers, booleans and tables can be JSON");
    if (b->negative)
        jw_int(enc->w, (int64_t)-b->magnitude);
    else
        jw_uint(enc->w, b->magnitude);
    return 0;
}

// The value at the top, which stays there. After an error the stack is left as it is: convert_write resets
// it.
static int write_value(struct encoder *enc, const struct value_path *path)
{
    lua_State *L = enc->L;
    count_work(enc, 1);
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        jw_null(enc->w);
        return 0;
    case LUA_TBOOLEAN:
        jw_bool(enc->w, lua_toboolean(L, -1));
        return 0;
    case LUA_TNUMBER:
        return write_number(enc, path);
    case LUA_TSTRING:
        return write_string(enc, path);
    case LUA_TTABLE:
        return write_table(enc, path);
    case LUA_TUSERDATA:
        return write_userdata(enc, path);
    default:
        break;
    }
    if (!convert_is_null(L, -1))
        return fail(enc, ERR_INVALID, path, "is a %s: only text, numbers, booleans and tables can be JSON",
                    luaL_typename(L, -1));
    jw_null(enc->w);
    return 0;
}

static void write_protected(lua_State *L, void *ud)
{
    struct encoder *enc = ud;
    enc->result = write_value(enc, enc->start);
    lua_settop(L, 1);
}

static const void *identity(lua_State *L)
{
    const void *p = lua_topointer(L, -1);
    lua_pop(L, 1);
    return p;
}

static void encoder_init(struct encoder *enc, lua_State *L, struct err *e)
{
    *enc = (struct encoder){.L = L, .e = e};
    convert_push_array_metatable(L);
    enc->array = identity(L);
    convert_push_lazy_metatable(L);
    enc->lazy = identity(L);
}

static void encoder_free(void *p)
{
    struct encoder *enc = p;
    sandbox_memory_sub(enc->L, enc->key_cap * sizeof(*enc->keys));
    free(enc->keys);
    free(enc);
}

// The encoder is held until it is let go of by own_pop.
static struct encoder *encoder_hold(lua_State *L, const struct value_path *path, struct err *e)
{
    struct encoder *enc = xmalloc(sizeof(*enc));
    encoder_init(enc, L, e);
    enc->start = path;
    own_push(enc, encoder_free);
    return enc;
}

// Calls fn, which leaves its result in the encoder, with the value at idx.
static int encoder_run(struct encoder *enc, int idx, void (*fn)(lua_State *L, void *ud))
{
    lua_State *L = enc->L;
    int r = convert_protected(L, idx, fn, enc);
    if (r == 0)
        r = enc->result;
    else
        r = fail(enc, ERR_LIMIT, enc->start, "%s",
                 lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "failed");
    lua_pop(L, 1);
    return r;
}

int convert_write_at(lua_State *L, int idx, struct json_writer *w, const struct value_path *path,
                     struct err *e)
{
    struct encoder *enc = encoder_hold(L, path, e);
    enc->w = w;
    int r = encoder_run(enc, idx, write_protected);
    if (r == 0 && w->failed)
        r = fail(enc, ERR_LIMIT, path, "the text is longer than %zu bytes", w->out->max);
    own_pop();
    return r;
}

static void count_protected(lua_State *L, void *ud)
{
    struct encoder *enc = ud;
    struct shape s;
    int r = measure(enc, enc->start, &s);
    if (r == 0 && s.names > 0 && s.elements > 0)
        r = mixed_keys(enc, enc->start, s.names);
    else if (r == 0 && s.names > 0)
        r = fail(enc, ERR_INVALID, enc->start, "is an object, but must be a list: { first, second }");
    else if (r == 0 && s.last != s.elements)
        r = gap(enc, enc->start, &s);
    enc->result = r;
    enc->elements = s.elements;
    lua_settop(L, 1);
}

int convert_list_count(lua_State *L, const struct value_path *path, size_t *ret, struct err *e)
{
    struct encoder *enc = encoder_hold(L, path, e);
    int r = encoder_run(enc, -1, count_protected);
    if (r == 0)
        *ret = enc->elements;
    own_pop();
    return r;
}

int convert_write(lua_State *L, int idx, struct json_writer *w, const char *path, struct err *e)
{
    struct value_path start = {.key = path, .key_len = path != NULL ? strlen(path) : 0};
    return convert_write_at(L, idx, w, path != NULL && path[0] != 0 ? &start : NULL, e);
}
