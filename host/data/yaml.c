#include "data/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "data/digest.h"
#include "data/json.h"
#include "data/json_write.h"
#include "data/yaml_build.h"
#include "data/yaml_scalar.h"

enum { SLACK = 32 << 20 }; // of a document's JSON beyond what its own text can come to

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t text_len;
    size_t first_line; // of the text within the file, from 0
    struct yaml_builder builder;
    struct buf scalar; // as JSON text
    size_t scalar_held;
    size_t scalar_max;
    bool is_empty;     // the document
    size_t text_given; // to the parser
    struct yaml_limits *limits;
    bool is_over; // given up
    struct err *e;
};

enum { PIECE = 1024 }; // of text between two looks at the limits: directives take the parser quadratic time

static int give_piece(void *ud, unsigned char *out, size_t size, size_t *ret_size)
{
    struct reader *r = ud;
    size_t left = r->text_len - r->text_given, most = size < PIECE ? size : PIECE;
    r->is_over = r->limits->is_over != NULL && r->limits->is_over(r->limits->ud, 0);
    *ret_size = left < most ? left : most;
    memcpy(out, r->text + r->text_given, *ret_size);
    r->text_given += *ret_size;
    return !r->is_over;
}

static struct yaml_place place(const struct reader *r, yaml_mark_t at)
{
    return (struct yaml_place){.line = r->first_line + at.line + 1, .column = at.column + 1};
}

static int fail(struct reader *r, enum err_code code, yaml_mark_t at, const char *what)
{
    return err_set(r->e, code, "YAML: line %zu column %zu: %s", r->first_line + at.line + 1, at.column + 1,
                   what);
}

// The reader below the parser (encoding, control characters) knows a byte offset only.
static int fail_encoding(struct reader *r)
{
    size_t line = r->first_line + 1;
    for (size_t i = 0; i < r->parser.problem_offset && i < r->text_len; i++)
        line += r->text[i] == '\n';
    return err_set(r->e, ERR_PARSE, "YAML: line %zu: %s", line, r->parser.problem);
}

static bool is_tab_at(const struct reader *r, yaml_mark_t at)
{
    const char *p = r->text;
    const char *end = r->text + r->text_len;
    for (size_t line = 0; line < at.line && p != NULL; line++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p != NULL ? p + 1 : NULL;
    }
    return p != NULL && at.column < (size_t)(end - p) && p[at.column] == '\t';
}

static int fail_parser(struct reader *r)
{
    yaml_parser_t *p = &r->parser;
    if (r->is_over)
        return err_set(r->e, ERR_CANCELED, "YAML: given up");
    switch (p->error) {
    case YAML_MEMORY_ERROR:
        return err_set(r->e, ERR_LIMIT, "YAML: no memory for a text of %zu bytes", r->text_len);
    case YAML_READER_ERROR:
        return fail_encoding(r);
    default:
        if (is_tab_at(r, p->problem_mark))
            return fail(r, ERR_PARSE, p->problem_mark, "a tab is not allowed here: indent with blanks");
        if (p->context == NULL)
            return fail(r, ERR_PARSE, p->problem_mark, p->problem);
        fail(r, ERR_PARSE, p->problem_mark, p->problem);
        return err_set(r->e, ERR_PARSE, "%s (%s that began in line %zu)", r->e != NULL ? r->e->text : "",
                       p->context, r->first_line + p->context_mark.line + 1);
    }
}

// ---- scalars ----

static const char *short_tag(const yaml_event_t *ev)
{
    static const char prefix[] = "tag:yaml.org,2002:";
    const char *tag = (const char *)ev->data.scalar.tag;
    return tag != NULL && strncmp(tag, prefix, sizeof(prefix) - 1) == 0 ? tag + sizeof(prefix) - 1 : tag;
}

static int scalar_untagged(const yaml_event_t *ev, struct yaml_scalar *ret)
{
    const char *text = (const char *)ev->data.scalar.value;
    *ret = (struct yaml_scalar){.type = SCALAR_STRING};
    if (ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        *ret = yaml_scalar_resolve(text, ev->data.scalar.length);
    return 0;
}

// Tags force a type; those nobody knows leave a string.
static int scalar_type(struct reader *r, const yaml_event_t *ev, struct yaml_scalar *ret)
{
    static const struct {
        const char *tag;
        enum scalar_type types[3];
    } forced[] = {
        {"null", {SCALAR_NULL, SCALAR_NULL, SCALAR_NULL}},
        {"bool", {SCALAR_BOOL, SCALAR_BOOL, SCALAR_BOOL}},
        {"int", {SCALAR_INT, SCALAR_UINT, SCALAR_HUGE}},
        {"float", {SCALAR_FLOAT, SCALAR_INT, SCALAR_UINT}},
        {"merge", {SCALAR_MERGE, SCALAR_MERGE, SCALAR_MERGE}},
    };
    const char *tag = short_tag(ev);
    if (tag == NULL)
        return scalar_untagged(ev, ret);
    for (size_t i = 0; i < sizeof(forced) / sizeof(forced[0]); i++) {
        if (strcmp(tag, forced[i].tag) != 0)
            continue;
        struct yaml_scalar s =
            yaml_scalar_resolve((const char *)ev->data.scalar.value, ev->data.scalar.length);
        for (size_t k = 0; k < 3; k++) {
            if (s.type == forced[i].types[k]) {
                *ret = s;
                return 0;
            }
        }
        return fail(r, ERR_PARSE, ev->start_mark, "the value does not fit its !! tag");
    }
    *ret = (struct yaml_scalar){.type = SCALAR_STRING};
    return 0;
}

static int write_binary(struct reader *r, struct json_writer *w, const yaml_event_t *ev)
{
    struct buf bytes;
    struct err why;
    buf_init(&bytes, ev->data.scalar.length + 3);
    int err = base64_decode((const char *)ev->data.scalar.value, ev->data.scalar.length, &bytes, &why);
    if (err < 0)
        err = fail(r, ERR_PARSE, ev->start_mark, why.text);
    else
        jw_strn(w, bytes.data != NULL ? bytes.data : "", bytes.len);
    buf_fini(&bytes);
    return err;
}

static int write_scalar(struct reader *r, struct json_writer *w, const yaml_event_t *ev,
                        const struct yaml_scalar *s)
{
    const char *tag = short_tag(ev);
    switch (s->type) {
    case SCALAR_NULL:
        jw_null(w);
        return 0;
    case SCALAR_BOOL:
        jw_bool(w, s->value.flag);
        return 0;
    case SCALAR_INT:
        jw_int(w, s->value.i);
        return 0;
    case SCALAR_UINT:
        jw_uint(w, s->value.u);
        return 0;
    case SCALAR_FLOAT:
        if (!isfinite(s->value.d))
            return fail(r, ERR_PARSE, ev->start_mark,
                        "JSON has no infinity and no NaN: quote it if it is a text");
        jw_double(w, s->value.d);
        return 0;
    case SCALAR_HUGE:
        return fail(r, ERR_PARSE, ev->start_mark, "the number is beyond 64 bits: quote it if it is a text");
    default:
        break;
    }
    if (tag != NULL && strcmp(tag, "binary") == 0)
        return write_binary(r, w, ev);
    jw_strn(w, (const char *)ev->data.scalar.value, ev->data.scalar.length);
    return 0;
}

static int on_scalar(struct reader *r, const yaml_event_t *ev)
{
    struct yaml_scalar s = {.type = SCALAR_STRING};
    int err = scalar_type(r, ev, &s);
    if (err < 0)
        return err;
    if (s.type == SCALAR_MERGE && yaml_build_wants_key(&r->builder)) {
        yaml_build_merge(&r->builder);
        return 0;
    }
    if (r->builder.depth == 0)
        r->is_empty = ev->data.scalar.length == 0 && s.type == SCALAR_NULL;
    struct json_writer w;
    size_t left = yaml_build_left(&r->builder);
    buf_reset(&r->scalar);
    r->scalar.max = left < r->scalar_max - r->scalar.cap ? r->scalar.cap + left : r->scalar_max;
    jw_init(&w, &r->scalar);
    err = write_scalar(r, &w, ev, &s);
    if (err == 0 && w.failed) {
        if (r->scalar.max < r->scalar_max)
            r->builder.peak = r->builder.max + 1;
        err = fail(r, ERR_LIMIT, ev->start_mark, "the text is too long");
    }
    if (err == 0)
        err = yaml_build_hold(&r->builder, r->scalar.cap - r->scalar_held, place(r, ev->start_mark));
    if (err < 0)
        return err;
    r->scalar_held = r->scalar.cap;
    return yaml_build_scalar(&r->builder, r->scalar.data, r->scalar.len, (const char *)ev->data.scalar.anchor,
                             place(r, ev->start_mark));
}

// ---- the stream ----

static int on_event(struct reader *r, const yaml_event_t *ev)
{
    struct yaml_builder *b = &r->builder;
    struct yaml_place at = place(r, ev->start_mark);
    int err = yaml_build_go_on(b);
    if (err < 0)
        return err;
    switch (ev->type) {
    case YAML_DOCUMENT_START_EVENT:
        yaml_build_begin(b);
        r->is_empty = true;
        return 0;
    case YAML_ALIAS_EVENT:
        return yaml_build_alias(b, (const char *)ev->data.alias.anchor, at);
    case YAML_SCALAR_EVENT:
        return on_scalar(r, ev);
    case YAML_SEQUENCE_START_EVENT:
        r->is_empty = false;
        return yaml_build_open(b, false, (const char *)ev->data.sequence_start.anchor, at);
    case YAML_MAPPING_START_EVENT:
        r->is_empty = false;
        return yaml_build_open(b, true, (const char *)ev->data.mapping_start.anchor, at);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return yaml_build_close(b, at);
    default:
        return 0;
    }
}

typedef int on_document_fn(void *ud, const char *doc, size_t doc_len, size_t line, struct err *e);

// A document is handed over when what comes after it is known to be no part of it.
static int read_stream(struct reader *r, on_document_fn *on_document, void *ud)
{
    bool is_whole = false;
    for (;;) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&r->parser, &ev))
            return fail_parser(r);
        yaml_event_type_t type = ev.type;
        int err =
            is_whole ? on_document(ud, r->builder.out.data, r->builder.out.len, r->builder.line, r->e) : 0;
        if (err == 0)
            err = on_event(r, &ev);
        yaml_event_delete(&ev);
        is_whole = type == YAML_DOCUMENT_END_EVENT && !r->is_empty;
        if (err != 0 || type == YAML_STREAM_END_EVENT)
            return err;
    }
}

// "---more" in column 0 is text to some readers and a separator to others: refused, as kubectl does.
static int check_separators(const char *text, size_t n, size_t first_line, struct err *e)
{
    size_t line = first_line;
    const char *end = text + n;
    for (const char *p = text; p != NULL && p < end; line++) {
        if (end - p > 3 && memcmp(p, "---", 3) == 0 && strchr(" \t\r\n", p[3]) == NULL)
            return err_set(
                e, ERR_PARSE,
                "YAML: line %zu: a line that begins with --- must have a blank or its end there; indent it "
                "if it is text",
                line + 1);
        p = memchr(p, '\n', (size_t)(end - p));
        p = p != NULL ? p + 1 : NULL;
    }
    return 0;
}

static void note_peak(struct yaml_limits *limits, size_t peak)
{
    if (peak > limits->took)
        limits->took = peak;
}

static int read_yaml(const char *text, size_t n, size_t first_line, struct yaml_limits *limits,
                     on_document_fn *on_document, void *ud, struct err *e)
{
    int err = check_separators(text, n, first_line, e);
    if (err < 0)
        return err;
    struct reader r = {.text = text, .text_len = n, .first_line = first_line, .limits = limits, .e = e};
    if (!yaml_parser_initialize(&r.parser))
        return err_set(e, ERR_LIMIT, "YAML: no memory");
    yaml_parser_set_input(&r.parser, give_piece, &r);
    size_t max = n > SIZE_MAX / 16 ? SIZE_MAX : n * 6 + SLACK; // an escape has six bytes at most
    r.scalar_max = max;
    buf_init(&r.scalar, max);
    yaml_build_init(&r.builder, max, limits, e);
    err = yaml_build_hold(&r.builder, 0, (struct yaml_place){.line = first_line + 1, .column = 1});
    if (err == 0)
        err = read_stream(&r, on_document, ud);
    note_peak(limits, r.builder.peak);
    yaml_build_fini(&r.builder);
    buf_fini(&r.scalar);
    yaml_parser_delete(&r.parser);
    return err;
}

// ---- JSON documents ----

// Passes over blanks and lines, counting them.
static size_t skip_blanks(const char *text, size_t n, size_t at, size_t *line)
{
    for (; at < n && strchr(" \t\r\n", text[at]) != NULL && text[at] != 0; at++)
        *line += text[at] == '\n';
    return at;
}

// Is there, at the start of a line, a separator with nothing behind it? Its length, or 0.
static size_t separator_length(const char *text, size_t n)
{
    if (n < 3 || memcmp(text, "---", 3) != 0)
        return 0;
    size_t at = 3;
    while (at < n && strchr(" \t\r", text[at]) != NULL && text[at] != 0)
        at++;
    return at == n || text[at] == '\n' ? at : 0;
}

// Length of the JSON object at the start, by its brackets only; 0: it does not end. Found first, because the
// parser takes a copy of all it is given.
static size_t json_length(const char *text, size_t n)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

// JSON objects one after another, with or without separators, are no YAML stream; files of them are common.
// Reads those at the start; *ret_at is where something else begins.
static int read_json(const char *text, size_t n, struct yaml_limits *limits, size_t *ret_at, size_t *ret_line,
                     on_document_fn *on_document, void *ud, struct err *e)
{
    size_t line = 0;
    size_t at = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (;;) {
        *ret_at = at;
        *ret_line = line;
        size_t begin = skip_blanks(text, n, at, &line);
        if (begin == n || text[begin] != '{')
            return 0;
        struct json_doc *doc;
        size_t took, used = json_length(text + begin, n - begin);
        if (used == 0)
            return 0;
        int r = json_parse_within(text + begin, used, limits->memory, &doc, &took, NULL);
        note_peak(limits, took);
        if (r < 0 && took > limits->memory)
            return err_set(e, ERR_LIMIT, "JSON: no memory for a document of %zu bytes", used);
        if (r < 0)
            return 0;
        json_doc_free(doc);
        size_t document_line = line + 1;
        size_t end = begin + used;
        for (size_t i = begin; i < end; i++)
            line += text[i] == '\n';
        size_t next = skip_blanks(text, n, end, &line);
        size_t separator = separator_length(text + next, n - next);
        if (next < n && text[next] != '{' && separator == 0)
            return 0;
        int err = on_document(ud, text + begin, used, document_line, e);
        if (err != 0)
            return err;
        at = next + separator;
    }
}

int yaml_to_json_within(const char *text, size_t n, struct yaml_limits *limits, on_document_fn *on_document,
                        void *ud, struct err *e)
{
    size_t at = 0;
    size_t line = 0;
    limits->took = 0;
    int err = read_json(text, n, limits, &at, &line, on_document, ud, e);
    if (err == 0 && at < n)
        err = read_yaml(text + at, n - at, line, limits, on_document, ud, e);
    return err;
}

int yaml_to_json(const char *text, size_t n, on_document_fn *on_document, void *ud, struct err *e)
{
    struct yaml_limits none = {.memory = SIZE_MAX};
    return yaml_to_json_within(text, n, &none, on_document, ud, e);
}
