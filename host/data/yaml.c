#include "data/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <uthash.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/digest.h"
#include "data/json.h"
#include "data/json_write.h"
#include "data/yaml_scalar.h"

enum {
    DEPTH_MAX = JSON_DEPTH_MAX,
    EXPAND_MAX = 16 << 20, // bytes copied for anchors, aliases and merges, in the whole stream
    OUT_BASE = 1 << 20
};

// A key that a mapping has, as JSON text with its quotes.
struct key {
    UT_hash_handle hh;
    size_t line;
    char text[];
};

// A value of "<<", as JSON text: its members are added when the mapping ends, unless the mapping has them
// itself.
struct merge {
    STAILQ_ENTRY(merge) link;
    size_t line;
    size_t len;
    char text[];
};

struct anchor {
    UT_hash_handle hh;
    char *name;
    char *text; // JSON of the whole node
    size_t len;
    size_t height; // levels within it
};

// An open sequence or mapping.
struct frame {
    bool is_mapping;
    bool has_key;  // of a mapping: the next node is a value
    bool is_merge; // of a mapping: ... and goes to merges
    bool comma;    // before the merge value
    size_t start;  // where its text begins
    size_t height;
    char *anchor;
    struct key *keys;
    STAILQ_HEAD(, merge) merges;
};

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t text_len;
    size_t first_line; // of the text within the file, from 0
    struct buf out;    // the document so far
    struct json_writer w;
    struct buf scratch;
    struct frame *frames;
    size_t depth;
    struct anchor *anchors;
    size_t expanded;
    size_t document_line;
    bool is_empty; // the document
    struct err *e;
};

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

static int spend(struct reader *r, size_t n, yaml_mark_t at)
{
    r->expanded += n;
    if (r->expanded > EXPAND_MAX)
        return fail(r, ERR_LIMIT, at,
                    "anchors and aliases make too much text: write it out, or leave some out");
    return 0;
}

// ---- frames and anchors ----

static void frame_fini(struct frame *f)
{
    struct key *k, *next;
    HASH_ITER (hh, f->keys, k, next) {
        HASH_DEL(f->keys, k);
        free(k);
    }
    struct merge *m;
    while ((m = STAILQ_FIRST(&f->merges)) != NULL) {
        STAILQ_REMOVE_HEAD(&f->merges, link);
        free(m);
    }
    free(f->anchor);
}

static void anchors_clear(struct reader *r)
{
    struct anchor *a, *next;
    HASH_ITER (hh, r->anchors, a, next) {
        HASH_DEL(r->anchors, a);
        free(a->name);
        free(a->text);
        free(a);
    }
}

static struct frame *top(struct reader *r)
{
    return r->depth > 0 ? &r->frames[r->depth - 1] : NULL;
}

// Keeps the text from `start` to the end under a name; a name may be given again.
static int anchor_set(struct reader *r, const char *name, size_t start, size_t height, yaml_mark_t at)
{
    size_t len = r->out.len - start;
    int err = spend(r, len, at);
    if (err < 0)
        return err;
    struct anchor *a;
    HASH_FIND_STR(r->anchors, name, a);
    if (a == NULL) {
        a = xcalloc(1, sizeof(*a));
        a->name = xstrdup(name);
        HASH_ADD_KEYPTR(hh, r->anchors, a->name, strlen(a->name), a);
    }
    free(a->text);
    a->text = xmemdup(r->out.data + start, len);
    a->len = len;
    a->height = height;
    return 0;
}

// Takes the value of "<<" out of the text again.
static int merge_take(struct reader *r, struct frame *f, size_t start, yaml_mark_t at)
{
    size_t len = r->out.len - start;
    int err = spend(r, len, at);
    if (err < 0)
        return err;
    struct merge *m = xmalloc(sizeof(*m) + len);
    m->line = at.line;
    m->len = len;
    memcpy(m->text, r->out.data + start, len);
    STAILQ_INSERT_TAIL(&f->merges, m, link);
    r->out.len = start;
    r->out.data[start] = 0;
    r->w.comma = f->comma;
    return 0;
}

// Before a value's text: its comma, so that the text from *ret_start on is the value alone.
static int value_begin(struct reader *r, yaml_mark_t at, size_t *ret_start)
{
    struct frame *f = top(r);
    if (f == NULL)
        r->document_line = r->first_line + at.line + 1;
    if (f != NULL && f->is_mapping && f->is_merge) {
        f->comma = r->w.comma;
        r->w.comma = false;
    }
    if (r->w.comma)
        buf_add_char(&r->out, ',');
    r->w.comma = false;
    *ret_start = r->out.len;
    return 0;
}

static int value_end(struct reader *r, const char *anchor, size_t start, size_t height, yaml_mark_t at)
{
    if (r->w.failed || r->out.failed)
        return fail(r, ERR_LIMIT, at, "the text is too long");
    int err = anchor != NULL ? anchor_set(r, anchor, start, height, at) : 0;
    struct frame *f = top(r);
    if (err < 0 || f == NULL)
        return err;
    if (f->height < height)
        f->height = height;
    if (f->is_mapping) {
        f->has_key = false;
        if (f->is_merge) {
            f->is_merge = false;
            return merge_take(r, f, start, at);
        }
    }
    return 0;
}

static int container_begin(struct reader *r, bool is_mapping, const char *anchor, yaml_mark_t at)
{
    struct frame *parent = top(r);
    if (parent != NULL && parent->is_mapping && !parent->has_key)
        return fail(r, ERR_PARSE, at, "a key must be a string, not a list or a map");
    if (r->depth == DEPTH_MAX)
        return fail(r, ERR_LIMIT, at, "nested too deep");
    size_t start;
    value_begin(r, at, &start);
    struct frame *f = &r->frames[r->depth++];
    *f = (struct frame){.is_mapping = is_mapping, .start = start};
    f->anchor = xstrdup(anchor);
    STAILQ_INIT(&f->merges);
    if (is_mapping)
        jw_object(&r->w);
    else
        jw_array(&r->w);
    return 0;
}

// ---- keys ----

// Adds a key (JSON text); *ret_old is the one that was there already, or NULL.
static void key_add(struct frame *f, const char *text, size_t n, size_t line, struct key **ret_old)
{
    HASH_FIND(hh, f->keys, text, n, *ret_old);
    if (*ret_old != NULL)
        return;
    struct key *k = xmalloc(sizeof(*k) + n + 1);
    k->line = line;
    memcpy(k->text, text, n);
    k->text[n] = 0;
    HASH_ADD_KEYPTR(hh, f->keys, k->text, n, k);
}

static void key_write(struct reader *r, const char *text, size_t n)
{
    jw_raw(&r->w, text, n);
    buf_add_char(&r->out, ':');
    r->w.comma = false;
}

// The key is in r->scratch as JSON text.
static int key_done(struct reader *r, yaml_mark_t at)
{
    struct frame *f = top(r);
    struct key *old;
    size_t line = r->first_line + at.line + 1;
    key_add(f, r->scratch.data, r->scratch.len, line, &old);
    if (old != NULL)
        return err_set(r->e, ERR_PARSE,
                       "YAML: line %zu column %zu: the key %.80s is there already, in line %zu", line,
                       at.column + 1, r->scratch.data, old->line);
    key_write(r, r->scratch.data, r->scratch.len);
    f->has_key = true;
    return 0;
}

static int merge_members(struct reader *r, struct frame *f, const json *object)
{
    struct json_writer key;
    for (struct json_iter i = json_iter(object); json_next(&i);) {
        buf_reset(&r->scratch);
        jw_init(&key, &r->scratch);
        jw_strn(&key, i.key, i.key_len);
        struct key *old;
        key_add(f, r->scratch.data, r->scratch.len, 0, &old);
        if (old != NULL)
            continue;
        key_write(r, r->scratch.data, r->scratch.len);
        jw_value(&r->w, i.value);
    }
    return 0;
}

static int merge_apply(struct reader *r, struct frame *f, const struct merge *m)
{
    static const char what[] = "the value of << must be a map or a list of maps";
    yaml_mark_t at = {.line = m->line};
    struct json_doc *doc;
    int err = spend(r, m->len, at);
    if (err < 0)
        return err;
    err = json_parse(m->text, m->len, &doc, r->e);
    if (err < 0)
        return err;
    const json *root = json_root(doc);
    if (json_is_object(root)) {
        merge_members(r, f, root);
    } else if (!json_is_array(root)) {
        err = fail(r, ERR_PARSE, at, what);
    }
    for (struct json_iter i = json_iter(json_is_array(root) ? root : NULL); err == 0 && json_next(&i);) {
        if (json_is_object(i.value))
            merge_members(r, f, i.value);
        else
            err = fail(r, ERR_PARSE, at, what);
    }
    json_doc_free(doc);
    return err;
}

static int container_end(struct reader *r, yaml_mark_t at)
{
    struct frame *f = top(r);
    int err = 0;
    struct merge *m;
    STAILQ_FOREACH (m, &f->merges, link) {
        if (err == 0)
            err = merge_apply(r, f, m);
    }
    if (f->is_mapping)
        jw_object_end(&r->w);
    else
        jw_array_end(&r->w);
    struct frame done = *f;
    r->depth--;
    if (err == 0)
        err = value_end(r, done.anchor, done.start, done.height + 1, at);
    frame_fini(&done);
    return err;
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

// A key is a string whatever it looks like: 012 is "10", yes is "true".
static int key_from_text(struct reader *r, const char *text, size_t n, yaml_mark_t at)
{
    buf_reset(&r->scratch);
    if (text[0] == '{' || text[0] == '[')
        return fail(r, ERR_PARSE, at, "a key must be a string, not a list or a map");
    if (text[0] == 'n')
        return fail(r, ERR_PARSE, at, "a key must be a string, not null");
    if (text[0] == '"')
        buf_add(&r->scratch, text, n);
    else
        buf_addf(&r->scratch, "\"%.*s\"", (int)n, text);
    if (r->scratch.failed)
        return fail(r, ERR_LIMIT, at, "the key is too long");
    return key_done(r, at);
}

static int on_key(struct reader *r, const yaml_event_t *ev)
{
    struct frame *f = top(r);
    struct yaml_scalar s;
    int err = scalar_type(r, ev, &s);
    if (err < 0)
        return err;
    if (s.type == SCALAR_MERGE) {
        f->has_key = true;
        f->is_merge = true;
        return 0;
    }
    struct buf text;
    struct json_writer w;
    buf_init(&text, r->out.max);
    jw_init(&w, &text);
    err = write_scalar(r, &w, ev, &s);
    if (err == 0 && w.failed)
        err = fail(r, ERR_LIMIT, ev->start_mark, "the key is too long");
    if (err == 0)
        err = key_from_text(r, text.data, text.len, ev->start_mark);
    if (err == 0 && ev->data.scalar.anchor != NULL) {
        // The anchor is the scalar, which the out buffer has only as a key: it is put there for a moment.
        size_t start = r->out.len;
        buf_add(&r->out, text.data, text.len);
        err = anchor_set(r, (const char *)ev->data.scalar.anchor, start, 0, ev->start_mark);
        r->out.len = start;
    }
    buf_fini(&text);
    return err;
}

static int on_scalar(struct reader *r, const yaml_event_t *ev)
{
    struct frame *f = top(r);
    if (f != NULL && f->is_mapping && !f->has_key)
        return on_key(r, ev);
    struct yaml_scalar s;
    size_t start;
    int err = scalar_type(r, ev, &s);
    if (err < 0)
        return err;
    r->is_empty = f == NULL && ev->data.scalar.length == 0 && s.type == SCALAR_NULL;
    value_begin(r, ev->start_mark, &start);
    err = write_scalar(r, &r->w, ev, &s);
    if (err < 0)
        return err;
    return value_end(r, (const char *)ev->data.scalar.anchor, start, 0, ev->start_mark);
}

static int on_alias(struct reader *r, const yaml_event_t *ev)
{
    const char *name = (const char *)ev->data.alias.anchor;
    struct anchor *a;
    HASH_FIND_STR(r->anchors, name, a);
    if (a == NULL)
        return err_set(r->e, ERR_PARSE,
                       "YAML: line %zu column %zu: no finished node before it has the anchor &%.80s",
                       r->first_line + ev->start_mark.line + 1, ev->start_mark.column + 1, name);
    int err = spend(r, a->len, ev->start_mark);
    if (err < 0)
        return err;
    struct frame *f = top(r);
    if (f != NULL && f->is_mapping && !f->has_key)
        return key_from_text(r, a->text, a->len, ev->start_mark);
    if (r->depth + a->height > DEPTH_MAX)
        return fail(r, ERR_LIMIT, ev->start_mark, "nested too deep");
    size_t start;
    size_t height = a->height;
    value_begin(r, ev->start_mark, &start);
    jw_raw(&r->w, a->text, a->len);
    return value_end(r, NULL, start, height, ev->start_mark);
}

// ---- the stream ----

static void document_begin(struct reader *r)
{
    buf_reset(&r->out);
    jw_init(&r->w, &r->out);
    r->is_empty = true;
}

static int on_event(struct reader *r, const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_DOCUMENT_START_EVENT:
        document_begin(r);
        return 0;
    case YAML_DOCUMENT_END_EVENT:
        anchors_clear(r);
        return 0;
    case YAML_ALIAS_EVENT:
        return on_alias(r, ev);
    case YAML_SCALAR_EVENT:
        return on_scalar(r, ev);
    case YAML_SEQUENCE_START_EVENT:
        r->is_empty = false;
        return container_begin(r, false, (const char *)ev->data.sequence_start.anchor, ev->start_mark);
    case YAML_MAPPING_START_EVENT:
        r->is_empty = false;
        return container_begin(r, true, (const char *)ev->data.mapping_start.anchor, ev->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return container_end(r, ev->start_mark);
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
        int err = is_whole ? on_document(ud, r->out.data, r->out.len, r->document_line, r->e) : 0;
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

static int read_yaml(const char *text, size_t n, size_t first_line, on_document_fn *on_document, void *ud,
                     struct err *e)
{
    int err = check_separators(text, n, first_line, e);
    if (err < 0)
        return err;
    struct reader r = {.text = text, .text_len = n, .first_line = first_line, .e = e};
    if (!yaml_parser_initialize(&r.parser))
        return err_set(e, ERR_LIMIT, "YAML: no memory");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    size_t max =
        n > SIZE_MAX / 16 ? SIZE_MAX : n * 6 + EXPAND_MAX + OUT_BASE; // an escape has six bytes at most
    buf_init(&r.out, max);
    buf_init(&r.scratch, max);
    r.frames = xreallocarray(NULL, DEPTH_MAX, sizeof(*r.frames));

    err = read_stream(&r, on_document, ud);

    while (r.depth > 0)
        frame_fini(&r.frames[--r.depth]);
    free(r.frames);
    anchors_clear(&r);
    buf_fini(&r.scratch);
    buf_fini(&r.out);
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
static int read_json(const char *text, size_t n, size_t *ret_at, size_t *ret_line,
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
        size_t used = json_length(text + begin, n - begin);
        if (used == 0 || json_parse(text + begin, used, &doc, NULL) < 0)
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

int yaml_to_json(const char *text, size_t n, on_document_fn *on_document, void *ud, struct err *e)
{
    size_t at = 0;
    size_t line = 0;
    int err = read_json(text, n, &at, &line, on_document, ud, e);
    return err != 0 || at == n ? err : read_yaml(text + at, n - at, line, on_document, ud, e);
}
