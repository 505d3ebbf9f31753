// Writing JSON as a stream into a buffer. The form is safe for both JSON readers and the YAML reader that the
// API server uses for server-side apply: '/' is not escaped; code points from U+0080 are raw UTF-8 except
// U+007F..U+009F, U+FFFE and U+FFFF, which go as \uXXXX; invalid UTF-8 becomes U+FFFD. Integral doubles below
// 2^53 print as integers; NaN and infinities set `failed`. One owner.
#ifndef DATA_JSON_WRITE_H
#define DATA_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "data/json.h"

struct json_writer {
    struct buf *out;
    bool comma;  // the next member or element needs one before it
    bool failed; // the buffer's cap was reached, or a value can not be JSON
};

void jw_init(struct json_writer *w, struct buf *out);
void jw_object(struct json_writer *w); // {
void jw_object_end(struct json_writer *w);
void jw_array(struct json_writer *w); // [
void jw_array_end(struct json_writer *w);
void jw_key(struct json_writer *w, const char *key);
void jw_keyn(struct json_writer *w, const char *key, size_t n);
void jw_str(struct json_writer *w, const char *s); // NULL writes null
void jw_strn(struct json_writer *w, const char *s, size_t n);
void jw_int(struct json_writer *w, int64_t v);
void jw_uint(struct json_writer *w, uint64_t v);
void jw_double(struct json_writer *w, double v); // shortest text that reads back as v
void jw_bool(struct json_writer *w, bool v);
void jw_null(struct json_writer *w);
void jw_value(struct json_writer *w, const json *v);            // a whole node; NULL writes null
void jw_raw(struct json_writer *w, const char *text, size_t n); // one complete JSON value, as it is
// key and value in one; nothing when s is NULL
void jw_member_str(struct json_writer *w, const char *key, const char *s);
void jw_member_int(struct json_writer *w, const char *key, int64_t v);
void jw_member_bool(struct json_writer *w, const char *key, bool v);
void jw_member(struct json_writer *w, const char *key, const json *v); // nothing when v is NULL
// The members of an object but for one, into an object that was begun.
void jw_members_without(struct json_writer *w, const json *object, const char *key);

// A whole node as text with a cap: 0 or -ERR_LIMIT. *ret is freed by the caller.
int json_print(const json *v, size_t max, char **ret, size_t *ret_len /* may be NULL */, struct err *e);

// The YAML reader that an apply body meets refuses a key of more than so many characters, quotes and escapes
// counted.
enum { JSON_SIMPLE_KEY_MAX = 1024 };
// Has some object within v such a key? It is written as it is; who sends an apply refuses it first.
bool json_has_long_key(const json *v);
bool json_is_long_key(const char *key, size_t n);

#endif
