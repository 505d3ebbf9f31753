#include "data/yaml_build.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <uthash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/json.h"

enum {
    DEPTH_MAX = JSON_DEPTH_MAX,
    EXPAND_MAX = 16 << 20 // bytes copied for anchors, aliases and merges, in the whole stream
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
    struct yaml_place at;
    size_t len;
    char text[];
};

struct yaml_anchor {
    UT_hash_handle hh;
    char *name;
    char *text; // JSON of the whole node
    size_t len;
    size_t height; // levels within it
};

// An open sequence or mapping.
struct yaml_frame {
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

static int refuse(struct yaml_builder *b, enum err_code code, struct yaml_place at, const char *what)
{
    return err_set(b->e, code, "YAML: line %zu column %zu: %s", at.line, at.column, what);
}

static int spend(struct yaml_builder *b, size_t n, struct yaml_place at)
{
    b->expanded += n;
    if (b->expanded > EXPAND_MAX)
        return refuse(b, ERR_LIMIT, at,
                      "anchors and aliases make too much text: write it out, or leave some out");
    return 0;
}

static void frame_fini(struct yaml_frame *f)
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

static void anchors_clear(struct yaml_builder *b)
{
    struct yaml_anchor *a, *next;
    HASH_ITER (hh, b->anchors, a, next) {
        HASH_DEL(b->anchors, a);
        free(a->name);
        free(a->text);
        free(a);
    }
}

void yaml_build_init(struct yaml_builder *b, size_t max, struct err *e)
{
    *b = (struct yaml_builder){.e = e};
    buf_init(&b->out, max);
    buf_init(&b->key, max);
    b->frames = xreallocarray(NULL, DEPTH_MAX, sizeof(*b->frames));
    jw_init(&b->w, &b->out);
}

void yaml_build_fini(struct yaml_builder *b)
{
    while (b->depth > 0)
        frame_fini(&b->frames[--b->depth]);
    free(b->frames);
    anchors_clear(b);
    buf_fini(&b->key);
    buf_fini(&b->out);
}

void yaml_build_begin(struct yaml_builder *b)
{
    ASSERT(b->depth == 0);
    anchors_clear(b);
    buf_reset(&b->out);
    jw_init(&b->w, &b->out);
}

static struct yaml_frame *top(const struct yaml_builder *b)
{
    return b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
}

bool yaml_build_wants_key(const struct yaml_builder *b)
{
    const struct yaml_frame *f = top(b);
    return f != NULL && f->is_mapping && !f->has_key;
}

void yaml_build_merge(struct yaml_builder *b)
{
    ASSERT(yaml_build_wants_key(b));
    top(b)->has_key = true;
    top(b)->is_merge = true;
}

// ---- values ----

// A name may be given again.
static int anchor_set(struct yaml_builder *b, const char *name, const char *text, size_t n, size_t height,
                      struct yaml_place at)
{
    int err = spend(b, n, at);
    if (err < 0)
        return err;
    struct yaml_anchor *a;
    HASH_FIND_STR(b->anchors, name, a);
    if (a == NULL) {
        a = xcalloc(1, sizeof(*a));
        a->name = xstrdup(name);
        HASH_ADD_KEYPTR(hh, b->anchors, a->name, strlen(a->name), a);
    }
    free(a->text);
    a->text = xmemdup(text, n);
    a->len = n;
    a->height = height;
    return 0;
}

// Takes the value of "<<" out of the text again.
static int merge_take(struct yaml_builder *b, struct yaml_frame *f, size_t start, struct yaml_place at)
{
    size_t len = b->out.len - start;
    int err = spend(b, len, at);
    if (err < 0)
        return err;
    struct merge *m = xmalloc(sizeof(*m) + len);
    m->at = at;
    m->len = len;
    memcpy(m->text, b->out.data + start, len);
    STAILQ_INSERT_TAIL(&f->merges, m, link);
    b->out.len = start;
    b->out.data[start] = 0;
    b->w.comma = f->comma;
    return 0;
}

// Before a value's text: its comma, so that the text from the place returned on is the value alone.
static size_t value_begin(struct yaml_builder *b, struct yaml_place at)
{
    struct yaml_frame *f = top(b);
    if (f == NULL)
        b->line = at.line;
    if (f != NULL && f->is_merge) {
        f->comma = b->w.comma;
        b->w.comma = false;
    }
    if (b->w.comma)
        buf_add_char(&b->out, ',');
    b->w.comma = false;
    return b->out.len;
}

static int value_end(struct yaml_builder *b, const char *anchor, size_t start, size_t height,
                     struct yaml_place at)
{
    if (b->w.failed || b->out.failed)
        return refuse(b, ERR_LIMIT, at, "the text is too long");
    if (anchor != NULL) {
        int err = anchor_set(b, anchor, b->out.data + start, b->out.len - start, height, at);
        if (err < 0)
            return err;
    }
    struct yaml_frame *f = top(b);
    if (f == NULL)
        return 0;
    if (f->height < height)
        f->height = height;
    f->has_key = false;
    if (!f->is_merge)
        return 0;
    f->is_merge = false;
    return merge_take(b, f, start, at);
}

int yaml_build_open(struct yaml_builder *b, bool is_mapping, const char *anchor, struct yaml_place at)
{
    if (yaml_build_wants_key(b))
        return refuse(b, ERR_PARSE, at, "a key must be a string, not a list or a map");
    if (b->depth == DEPTH_MAX)
        return refuse(b, ERR_LIMIT, at, "nested too deep");
    size_t start = value_begin(b, at);
    struct yaml_frame *f = &b->frames[b->depth++];
    *f = (struct yaml_frame){.is_mapping = is_mapping, .start = start};
    f->anchor = xstrdup(anchor);
    STAILQ_INIT(&f->merges);
    if (is_mapping)
        jw_object(&b->w);
    else
        jw_array(&b->w);
    return 0;
}

// ---- keys ----

// Adds a key (JSON text); *ret_old is the one that was there already, or NULL.
static void key_add(struct yaml_frame *f, const struct buf *text, size_t line, struct key **ret_old)
{
    HASH_FIND(hh, f->keys, text->data, text->len, *ret_old);
    if (*ret_old != NULL)
        return;
    struct key *k = xmalloc(sizeof(*k) + text->len + 1);
    k->line = line;
    memcpy(k->text, text->data, text->len + 1);
    HASH_ADD_KEYPTR(hh, f->keys, k->text, text->len, k);
}

static void key_write(struct yaml_builder *b)
{
    jw_raw(&b->w, b->key.data, b->key.len);
    buf_add_char(&b->out, ':');
    b->w.comma = false;
}

// A key is a string whatever it looks like: 012 is "10", yes is "true".
static int key_from_text(struct yaml_builder *b, const char *text, size_t n, struct yaml_place at)
{
    if (text[0] == '{' || text[0] == '[')
        return refuse(b, ERR_PARSE, at, "a key must be a string, not a list or a map");
    if (text[0] == 'n')
        return refuse(b, ERR_PARSE, at, "a key must be a string, not null");
    const char *quote = text[0] == '"' ? "" : "\"";
    buf_reset(&b->key);
    buf_add_str(&b->key, quote);
    buf_add(&b->key, text, n);
    buf_add_str(&b->key, quote);
    if (b->key.failed)
        return refuse(b, ERR_LIMIT, at, "the key is too long");
    struct key *old;
    key_add(top(b), &b->key, at.line, &old);
    if (old != NULL)
        return err_set(b->e, ERR_PARSE,
                       "YAML: line %zu column %zu: the key %.80s is there already, in line %zu", at.line,
                       at.column, b->key.data, old->line);
    key_write(b);
    top(b)->has_key = true;
    return 0;
}

static void merge_members(struct yaml_builder *b, struct yaml_frame *f, const json *object)
{
    for (struct json_iter i = json_iter(object); json_next(&i);) {
        struct json_writer key;
        buf_reset(&b->key);
        jw_init(&key, &b->key);
        jw_strn(&key, i.key, i.key_len);
        struct key *old;
        key_add(f, &b->key, 0, &old);
        if (old != NULL)
            continue;
        key_write(b);
        jw_value(&b->w, i.value);
    }
}

static int merge_apply(struct yaml_builder *b, struct yaml_frame *f, const struct merge *m)
{
    static const char what[] = "the value of << must be a map or a list of maps";
    struct json_doc *doc;
    int err = spend(b, m->len, m->at);
    if (err == 0)
        err = json_parse(m->text, m->len, &doc, b->e);
    if (err < 0)
        return err;
    const json *root = json_root(doc);
    if (json_is_object(root))
        merge_members(b, f, root);
    else if (!json_is_array(root))
        err = refuse(b, ERR_PARSE, m->at, what);
    for (struct json_iter i = json_iter(json_is_array(root) ? root : NULL); err == 0 && json_next(&i);) {
        if (json_is_object(i.value))
            merge_members(b, f, i.value);
        else
            err = refuse(b, ERR_PARSE, m->at, what);
    }
    json_doc_free(doc);
    return err;
}

// ---- nodes ----

int yaml_build_close(struct yaml_builder *b, struct yaml_place at)
{
    struct yaml_frame *f = top(b);
    int err = 0;
    struct merge *m;
    STAILQ_FOREACH (m, &f->merges, link) {
        if (err == 0)
            err = merge_apply(b, f, m);
    }
    if (f->is_mapping)
        jw_object_end(&b->w);
    else
        jw_array_end(&b->w);
    struct yaml_frame done = *f;
    b->depth--;
    if (err == 0)
        err = value_end(b, done.anchor, done.start, done.height + 1, at);
    frame_fini(&done);
    return err;
}

int yaml_build_scalar(struct yaml_builder *b, const char *text, size_t n, const char *anchor,
                      struct yaml_place at)
{
    if (yaml_build_wants_key(b)) {
        int err = key_from_text(b, text, n, at);
        return err == 0 && anchor != NULL ? anchor_set(b, anchor, text, n, 0, at) : err;
    }
    size_t start = value_begin(b, at);
    jw_raw(&b->w, text, n);
    return value_end(b, anchor, start, 0, at);
}

int yaml_build_alias(struct yaml_builder *b, const char *name, struct yaml_place at)
{
    struct yaml_anchor *a;
    HASH_FIND_STR(b->anchors, name, a);
    if (a == NULL)
        return err_set(b->e, ERR_PARSE,
                       "YAML: line %zu column %zu: no finished node before it has the anchor &%.80s", at.line,
                       at.column, name);
    int err = spend(b, a->len, at);
    if (err < 0)
        return err;
    if (yaml_build_wants_key(b))
        return key_from_text(b, a->text, a->len, at);
    if (b->depth + a->height > DEPTH_MAX)
        return refuse(b, ERR_LIMIT, at, "nested too deep");
    size_t start = value_begin(b, at);
    jw_raw(&b->w, a->text, a->len);
    return value_end(b, NULL, start, a->height, at);
}
