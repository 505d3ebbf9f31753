// Field selectors; declared in selector.h.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "kube/selector.h"

enum { FIELD_SELECTOR_TEXT_MAX = 64 * 1024 };

struct field_term {
    char *path;
    char *value;
    bool not ;
};

struct field_selector {
    struct field_term *items; // sorted by path, value
    size_t count;
    char *text;
};

// "\\", "\," and "\=" stand for the second character, as the API has it.
static int unescape(const char *s, size_t n, char **ret, struct err *e)
{
    char *out = xmalloc(n + 1);
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\') {
            if (i + 1 == n || strchr("\\,=", s[i + 1]) == NULL) {
                free(out);
                return err_set(e, ERR_INVALID,
                               "field selector: \"%.*s\" has a '\\' that is not before '\\', ',' or '='",
                               n > 100 ? 100 : (int)n, s);
            }
            i++;
        }
        out[len++] = s[i];
    }
    out[len] = 0;
    *ret = out;
    return 0;
}

static void add_escaped(struct buf *b, const char *s)
{
    for (; *s != 0; s++) {
        if (strchr("\\,=", *s) != NULL)
            buf_add_char(b, '\\');
        buf_add_char(b, *s);
    }
}

// Bytes up to the first of the unescaped characters in `stop` (or n).
static size_t span_to(const char *s, size_t n, const char *stop)
{
    size_t i = 0;
    while (i < n && strchr(stop, s[i]) == NULL)
        i += s[i] == '\\' && i + 1 < n ? 2 : 1;
    return i < n ? i : n;
}

static void trim(const char **s, size_t *n)
{
    while (*n > 0 && **s == ' ')
        (*s)++, (*n)--;
    while (*n > 0 && (*s)[*n - 1] == ' ')
        (*n)--;
}

static int parse_term(const char *s, size_t n, struct field_term *ret, struct err *e)
{
    size_t eq = span_to(s, n, "=");
    if (eq == n)
        return err_set(e, ERR_INVALID,
                       "field selector: \"%.*s\" is not of the form path=value or path!=value",
                       n > 100 ? 100 : (int)n, s);
    const char *path = s;
    size_t path_len = eq;
    ret->not = eq > 0 && s[eq - 1] == '!';
    if (ret->not )
        path_len--;
    trim(&path, &path_len);
    if (path_len == 0)
        return err_set(e, ERR_INVALID, "field selector: \"%.*s\" has no path before the operator",
                       n > 100 ? 100 : (int)n, s);
    size_t value = eq + 1;
    if (!ret->not &&value < n && s[value] == '=')
        value++;
    if (span_to(s + value, n - value, "=") != n - value)
        return err_set(e, ERR_INVALID,
                       "field selector: \"%.*s\" has a second '=': write \"\\=\" inside a value",
                       n > 100 ? 100 : (int)n, s);
    int r = unescape(s + value, n - value, &ret->value, e);
    if (r == 0)
        ret->path = xstrndup(path, path_len);
    return r;
}

static int compare_terms(const void *a, const void *b)
{
    const struct field_term *x = a;
    const struct field_term *y = b;
    int c = strcmp(x->path, y->path);
    if (c == 0)
        c = strcmp(x->value, y->value);
    return c != 0 ? c : (int)x->not -(int)y->not ;
}

static void canonicalize(struct field_selector *s)
{
    struct buf b;
    if (s->count > 1)
        qsort(s->items, s->count, sizeof(s->items[0]), compare_terms);
    buf_init(&b, 4 * FIELD_SELECTOR_TEXT_MAX);
    for (size_t i = 0; i < s->count; i++) {
        buf_addf(&b, "%s%s%s", i > 0 ? "," : "", s->items[i].path, s->items[i].not ? "!=" : "=");
        add_escaped(&b, s->items[i].value);
    }
    s->text = buf_take(&b, NULL);
}

static int parse_all(const char *text, struct field_selector *s, struct err *e)
{
    size_t left = strlen(text);
    for (;;) {
        size_t n = span_to(text, left, ",");
        const char *term = text;
        size_t len = n;
        trim(&term, &len);
        if (len > 0) {
            struct field_term parsed = {0};
            int r = parse_term(term, len, &parsed, e);
            if (r < 0)
                return r;
            s->items = xreallocarray(s->items, s->count + 1, sizeof(s->items[0]));
            s->items[s->count++] = parsed;
        }
        if (n == left)
            return 0;
        text += n + 1;
        left -= n + 1;
    }
}

int field_selector_parse(const char *text, struct field_selector **ret, struct err *e)
{
    if (strlen(text) > FIELD_SELECTOR_TEXT_MAX)
        return err_set(e, ERR_INVALID, "the field selector is longer than %d bytes", FIELD_SELECTOR_TEXT_MAX);
    struct field_selector *s = xcalloc(1, sizeof(*s));
    int r = parse_all(text, s, e);
    if (r < 0) {
        field_selector_free(s);
        return r;
    }
    canonicalize(s);
    *ret = s;
    return 0;
}

void field_selector_free(struct field_selector *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].path);
        free(s->items[i].value);
    }
    free(s->items);
    free(s->text);
    free(s);
}

const char *field_text(const json *object, const char *path, char text[FIELD_TEXT_MAX])
{
    const json *v = json_dotted(object, path);
    int64_t n;
    if (json_is_string(v))
        return strlen(json_str(v)) == json_str_len(v) ? json_str(v) : NULL; // no selector's value has a NUL
    if (json_is_bool(v))
        return json_true(v) ? "true" : "false";
    if (json_int(v, &n) != 0)
        return NULL;
    snprintf(text, FIELD_TEXT_MAX, "%" PRId64, n);
    return text;
}

// Is it also what a field is that is left out? That is the zero value ("" or, of a boolean, "false").
static bool is_zero(const char *value)
{
    return value[0] == 0 || strcmp(value, "false") == 0;
}

// The server compares a field's text.
static bool term_equals(const struct field_term *t, const json *object)
{
    char text[FIELD_TEXT_MAX];
    if (json_is_null(json_dotted(object, t->path)))
        return is_zero(t->value);
    return str_eq(field_text(object, t->path, text), t->value);
}

bool field_selector_equality(const struct field_selector *s, const char **ret_path, const char **ret_value)
{
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        const struct field_term *t = &s->items[i];
        if (t->not || is_zero(t->value))
            continue;
        *ret_path = t->path;
        *ret_value = t->value;
        return true;
    }
    return false;
}

bool field_selector_matches(const struct field_selector *s, const json *object)
{
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        if (term_equals(&s->items[i], object) == s->items[i].not )
            return false;
    }
    return true;
}

const char *field_selector_text(const struct field_selector *s)
{
    return s->text;
}
