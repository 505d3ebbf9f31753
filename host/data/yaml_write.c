// The other direction of data/yaml.h: JSON as YAML that people read.
#include <string.h>

#include "base/strset.h"
#include "data/json.h"
#include "data/json_write.h"
#include "data/yaml.h"
#include "data/yaml_build.h"
#include "data/yaml_scalar.h"

static void add_indent(struct buf *out, int indent)
{
    for (int i = 0; i < indent; i++)
        buf_add(out, "  ", 2);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.';
}

// May it stand without quotes? A narrow choice: what is not surely a string to every reader is quoted.
static bool is_plain(const char *s, size_t n)
{
    if (n == 0 || n > 512 || !is_word_char(s[0]) || s[n - 1] == ' ' || s[n - 1] == ':')
        return false;
    if (strncmp(s, "...", 3) == 0) // at the margin it would end the document
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ':' && s[i + 1] == ' ')
            return false;
        if (!is_word_char(s[i]) && (s[i] == 0 || strchr("-+=@()~ ,;:", s[i]) == NULL))
            return false;
    }
    return yaml_scalar_resolve(s, n).type == SCALAR_STRING &&
           !(s[0] >= '0' && s[0] <= '9' && strchr(s, ':') != NULL);
}

// May it be written as lines below a '|'?
static bool is_block(const char *s, size_t n)
{
    if (n == 0 || memchr(s, '\n', n) == NULL || s[0] == ' ' || s[0] == '\t' || s[0] == '\n')
        return false;
    size_t len;
    for (size_t i = 0; i < n; i += len) {
        uint32_t code;
        len = str_utf8_char(s + i, n - i, &code);
        if (len == 0 || (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0))
            return false;
        if (code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe || code == 0xffff)
            return false;
    }
    return true;
}

static void add_block(struct buf *out, const char *s, size_t n, int indent)
{
    bool ends = s[n - 1] == '\n';
    bool more = ends && (n == 1 || s[n - 2] == '\n');
    buf_add_str(out, more ? "|+\n" : ends ? "|\n" : "|-\n");
    const char *end = s + n;
    while (s < end) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        const char *stop = eol != NULL ? eol : end;
        if (stop > s) {
            add_indent(out, indent);
            buf_add(out, s, (size_t)(stop - s));
        }
        buf_add_char(out, '\n');
        s = stop + 1;
    }
}

static void add_quoted(struct buf *out, const char *s, size_t n)
{
    struct json_writer w; // its form of a string is YAML's, too
    jw_init(&w, out);
    jw_strn(&w, s, n);
}

struct writer {
    struct buf *out;
    const struct yaml_limits *limits;
    unsigned nodes; // since limits->is_over was asked
    bool is_over;
};

static void add_value(struct writer *w, const json *v, int indent, bool in_sequence);

// Once the text is too long, too: indents alone could be a thousand times as long.
static bool go_on(struct writer *w)
{
    w->is_over |= yaml_limits_end(w->limits, &w->nodes);
    return !w->is_over && !w->out->failed;
}

static void add_scalar(struct buf *out, const json *v, int indent)
{
    const char *s = json_str(v);
    size_t n = json_str_len(v);
    if (s == NULL) {
        struct json_writer w;
        jw_init(&w, out);
        jw_value(&w, v);
    } else if (is_block(s, n)) {
        add_block(out, s, n, indent);
        return;
    } else if (is_plain(s, n)) {
        buf_add(out, s, n);
    } else {
        add_quoted(out, s, n);
    }
    buf_add_char(out, '\n');
}

static void add_members(struct writer *w, const json *v, int indent, bool in_sequence)
{
    struct buf *out = w->out;
    for (struct json_iter i = json_iter(v); go_on(w) && json_next(&i);) {
        if (!(in_sequence && i.index == 0)) // the first stands behind the "- "
            add_indent(out, indent);
        bool is_long = json_is_long_key(i.key, i.key_len);
        if (is_long)
            buf_add_str(out, "? ");
        if (is_plain(i.key, i.key_len))
            buf_add(out, i.key, i.key_len);
        else
            add_quoted(out, i.key, i.key_len);
        if (is_long) {
            buf_add_char(out, '\n');
            add_indent(out, indent);
        }
        buf_add_char(out, ':');
        bool nested = json_count(i.value) > 0;
        buf_add_char(out, nested ? '\n' : ' ');
        // A list stands as deep as its key, as kubectl prints it.
        add_value(w, i.value, nested && json_is_array(i.value) ? indent : indent + 1, false);
    }
}

static void add_value(struct writer *w, const json *v, int indent, bool in_sequence)
{
    struct buf *out = w->out;
    if (json_count(v) == 0 && (json_is_object(v) || json_is_array(v))) {
        buf_add_str(out, json_is_object(v) ? "{}\n" : "[]\n");
    } else if (json_is_object(v)) {
        add_members(w, v, indent, in_sequence);
    } else if (json_is_array(v)) {
        for (struct json_iter i = json_iter(v); go_on(w) && json_next(&i);) {
            if (!(in_sequence && i.index == 0))
                add_indent(out, indent);
            buf_add_str(out, "- ");
            add_value(w, i.value, indent + 1, true);
        }
    } else {
        add_scalar(out, v, indent);
    }
}

int yaml_from_json(const char *text, size_t n, struct buf *out, struct err *e)
{
    struct yaml_limits none = {.memory = SIZE_MAX};
    return yaml_from_json_within(text, n, &none, out, e);
}

int yaml_from_json_within(const char *text, size_t n, struct yaml_limits *limits, struct buf *out,
                          struct err *e)
{
    struct json_doc *doc;
    struct writer w = {.out = out, .limits = limits};
    int err = json_parse_within(text, n, limits->memory, &doc, &limits->took, e);
    if (err < 0)
        return err;
    const json *root = json_root(doc);
    add_value(&w, root, json_is_string(root) ? 1 : 0,
              false); // a block of text at the margin could look like more
    json_doc_free(doc);
    if (w.is_over)
        return err_set(e, ERR_CANCELED, "YAML: given up");
    if (out->failed)
        return err_set(e, ERR_LIMIT, "YAML: the text is longer than %zu bytes", out->max);
    return 0;
}
