#include "data/json_write.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strset.h"

void jw_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

// Most of what is written is short and fits: that costs no call.
static inline void put(struct json_writer *w, const void *text, size_t n)
{
    struct buf *out = w->out;
    if (out->failed || out->cap == 0 || n >= out->cap - out->len) {
        if (buf_add(out, text, n) < 0)
            w->failed = true;
        return;
    }
    memcpy(out->data + out->len, text, n);
    out->len += n;
    out->data[out->len] = 0;
}

static void put_char(struct json_writer *w, char c)
{
    put(w, &c, 1);
}

static void begin_value(struct json_writer *w)
{
    if (w->comma)
        put_char(w, ',');
    w->comma = true;
}

static void open_container(struct json_writer *w, char c)
{
    begin_value(w);
    put_char(w, c);
    w->comma = false;
}

static void close_container(struct json_writer *w, char c)
{
    put_char(w, c);
    w->comma = true;
}

void jw_object(struct json_writer *w)
{
    open_container(w, '{');
}

void jw_object_end(struct json_writer *w)
{
    close_container(w, '}');
}

void jw_array(struct json_writer *w)
{
    open_container(w, '[');
}

void jw_array_end(struct json_writer *w)
{
    close_container(w, ']');
}

static void put_escaped(struct json_writer *w, uint32_t code)
{
    static const char names[][2] = {{'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'},
                                    {'\t', 't'}, {'"', '"'},  {'\\', '\\'}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (code == (uint32_t)names[i][0]) {
            put(w, (char[]){'\\', names[i][1]}, 2);
            return;
        }
    }
    static const char hex[] = "0123456789abcdef";
    char text[] = {'\\', 'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};
    put(w, text, sizeof(text));
}

// What stands for itself and takes one byte.
static const bool is_plain[256] = {[' '] = true, ['!'] = true, ['#' ... '['] = true, [']' ... '~'] = true};

static bool is_escaped(uint32_t code)
{
    return code < 0x20 || code == '"' || code == '\\' || (code >= 0x7f && code <= 0x9f) || code == 0xfffe ||
           code == 0xffff;
}

static void put_quoted(struct json_writer *w, const char *s, size_t n)
{
    const char *p = s;
    const char *end = s + n;
    put_char(w, '"');
    while (p < end && !w->failed) {
        const char *run = p;
        while (p < end && is_plain[(unsigned char)*p])
            p++;
        if (p > run)
            put(w, run, (size_t)(p - run));
        if (p == end)
            break;
        uint32_t code;
        size_t len = str_utf8_char(p, (size_t)(end - p), &code);
        if (len == 0)
            put(w, "\xef\xbf\xbd", 3);
        else if (is_escaped(code))
            put_escaped(w, code);
        else
            put(w, p, len);
        p += len > 0 ? len : 1;
    }
    put_char(w, '"');
}

void jw_key(struct json_writer *w, const char *key)
{
    jw_keyn(w, key, strlen(key));
}

void jw_keyn(struct json_writer *w, const char *key, size_t n)
{
    begin_value(w);
    put_quoted(w, key, n);
    put_char(w, ':');
    w->comma = false;
}

void jw_str(struct json_writer *w, const char *s)
{
    if (s == NULL)
        jw_null(w);
    else
        jw_strn(w, s, strlen(s));
}

void jw_strn(struct json_writer *w, const char *s, size_t n)
{
    begin_value(w);
    put_quoted(w, s, n);
}

static void write_integer(struct json_writer *w, bool negative, uint64_t v)
{
    char text[24];
    char *p = text + sizeof(text);
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    if (negative)
        *--p = '-';
    begin_value(w);
    put(w, p, (size_t)(text + sizeof(text) - p));
}

void jw_int(struct json_writer *w, int64_t v)
{
    write_integer(w, v < 0, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void jw_uint(struct json_writer *w, uint64_t v)
{
    write_integer(w, false, v);
}

// Shortest decimal that reads back as v. Some YAML readers take "1e+21" for a string, hence "1.0e+21".
static size_t print_double(char out[40], double v)
{
    char text[32];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, v);
        if (strtod(text, NULL) == v)
            break;
    }
    const char *exponent = strchr(text, 'e');
    if (exponent == NULL || strchr(text, '.') != NULL)
        return (size_t)snprintf(out, 40, "%s", text);
    return (size_t)snprintf(out, 40, "%.*s.0%s", (int)(exponent - text), text, exponent);
}

void jw_double(struct json_writer *w, double v)
{
    if (!isfinite(v)) {
        w->failed = true;
        jw_null(w); // keeps the text well-formed
        return;
    }
    if (fabs(v) < 0x1p53 && v == floor(v)) {
        jw_int(w, (int64_t)v);
        return;
    }
    char text[40];
    begin_value(w);
    put(w, text, print_double(text, v));
}

void jw_bool(struct json_writer *w, bool v)
{
    begin_value(w);
    put(w, v ? "true" : "false", v ? 4 : 5);
}

void jw_null(struct json_writer *w)
{
    begin_value(w);
    put(w, "null", 4);
}

static void write_number(struct json_writer *w, const json *v)
{
    yyjson_val *node = (yyjson_val *)v;
    if (yyjson_is_uint(node))
        jw_uint(w, yyjson_get_uint(node));
    else if (yyjson_is_sint(node))
        jw_int(w, yyjson_get_sint(node));
    else
        jw_double(w, yyjson_get_real(node));
}

void jw_value(struct json_writer *w, const json *v)
{
    switch (yyjson_get_type((yyjson_val *)v)) {
    case YYJSON_TYPE_OBJ:
        jw_object(w);
        for (struct json_iter i = json_iter(v); json_next(&i);) {
            jw_keyn(w, i.key, i.key_len);
            jw_value(w, i.value);
        }
        jw_object_end(w);
        break;
    case YYJSON_TYPE_ARR:
        jw_array(w);
        for (struct json_iter i = json_iter(v); json_next(&i);)
            jw_value(w, i.value);
        jw_array_end(w);
        break;
    case YYJSON_TYPE_STR:
        jw_strn(w, json_str(v), json_str_len(v));
        break;
    case YYJSON_TYPE_NUM:
        write_number(w, v);
        break;
    case YYJSON_TYPE_BOOL:
        jw_bool(w, json_true(v));
        break;
    default:
        jw_null(w);
    }
}

void jw_raw(struct json_writer *w, const char *text, size_t n)
{
    begin_value(w);
    put(w, text, n);
}

void jw_member_str(struct json_writer *w, const char *key, const char *s)
{
    if (s == NULL)
        return;
    jw_key(w, key);
    jw_str(w, s);
}

void jw_member_int(struct json_writer *w, const char *key, int64_t v)
{
    jw_key(w, key);
    jw_int(w, v);
}

void jw_member_bool(struct json_writer *w, const char *key, bool v)
{
    jw_key(w, key);
    jw_bool(w, v);
}

void jw_member(struct json_writer *w, const char *key, const json *v)
{
    if (v == NULL)
        return;
    jw_key(w, key);
    jw_value(w, v);
}

void jw_members_without(struct json_writer *w, const json *object, const char *key)
{
    for (struct json_iter i = json_iter(object); json_next(&i);) {
        if (i.key_len == strlen(key) && memcmp(i.key, key, i.key_len) == 0)
            continue;
        jw_keyn(w, i.key, i.key_len);
        jw_value(w, i.value);
    }
}

int json_print(const json *v, size_t max, char **ret, size_t *ret_len, struct err *e)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, max);
    jw_init(&w, &out);
    jw_value(&w, v);
    if (w.failed) {
        buf_fini(&out);
        return err_set(e, ERR_LIMIT, "JSON: the text is longer than %zu bytes", max);
    }
    *ret = buf_take(&out, ret_len);
    return 0;
}

// The text between the quotes is counted in characters, as the YAML reader does.
bool json_is_long_key(const char *key, size_t n)
{
    if (n + 2 <= JSON_SIMPLE_KEY_MAX / 6)
        return false; // no escape is longer than six
    struct buf out;
    struct json_writer w;
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    put_quoted(&w, key, n);
    size_t count = 0;
    for (size_t i = 0; i < out.len; i++)
        count += ((unsigned char)out.data[i] & 0xc0) != 0x80;
    buf_fini(&out);
    return count > JSON_SIMPLE_KEY_MAX;
}

bool json_has_long_key(const json *v)
{
    for (struct json_iter i = json_iter(v); json_next(&i);) {
        if ((i.key != NULL && json_is_long_key(i.key, i.key_len)) || json_has_long_key(i.value))
            return true;
    }
    return false;
}
