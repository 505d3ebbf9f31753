#include "kube/selector.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"

enum { SELECTOR_TEXT_MAX = 64 * 1024, SELECTOR_NAME_MAX = 63, SELECTOR_PREFIX_MAX = 253 };

enum operator{ OP_IN, OP_NOT_IN, OP_EXISTS, OP_NOT_EXISTS };

struct requirement {
    enum operator op;
    char *key;
    struct strset values; // sorted, of IN and NOT_IN
    char *text;           // canonical
};

struct selector {
    struct requirement *items; // sorted by text
    size_t count;
    char *text;
};

// ---- lexer

enum token {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_EQUALS,
    TOKEN_NOT_EQUALS,
    TOKEN_NOT,
    TOKEN_COMMA,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_BAD
};

struct parser {
    const char *text;
    const char *at; // behind the token
    enum token token;
    const char *start; // of the token
    size_t len;
    struct err *err;
};

static bool is_special(char c)
{
    return c == 0 || strchr("=!(),<>", c) != NULL || isspace((unsigned char)c);
}

static enum token special_token(const char *s, size_t *ret_len)
{
    *ret_len = 1;
    switch (*s) {
    case '=':
        *ret_len = s[1] == '=' ? 2 : 1;
        return TOKEN_EQUALS;
    case '!':
        *ret_len = s[1] == '=' ? 2 : 1;
        return s[1] == '=' ? TOKEN_NOT_EQUALS : TOKEN_NOT;
    case ',':
        return TOKEN_COMMA;
    case '(':
        return TOKEN_OPEN;
    case ')':
        return TOKEN_CLOSE;
    default:
        return TOKEN_BAD; // '<', '>': no selector of ours compares numbers
    }
}

static void next(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
    p->start = p->at;
    p->len = 0;
    if (*p->at == 0) {
        p->token = TOKEN_END;
    } else if (is_special(*p->at)) {
        p->token = special_token(p->at, &p->len);
    } else {
        p->token = TOKEN_WORD;
        while (!is_special(p->at[p->len]))
            p->len++;
    }
    p->at += p->len;
}

static int fail(struct parser *p, const char *what)
{
    int found = p->len > 40 ? 40 : (int)p->len;
    if (p->token == TOKEN_END)
        return err_set(p->err, ERR_INVALID, "label selector \"%.200s\": it ends where %s is expected",
                       p->text, what);
    return err_set(p->err, ERR_INVALID,
                   "label selector \"%.200s\", character %zu: \"%.*s\" stands where %s is expected", p->text,
                   (size_t)(p->start - p->text) + 1, found, p->start, what);
}

// ---- what API servers take as keys and values

static bool is_qualified(const char *s, size_t n, const char *inner)
{
    if (n == 0 || n > SELECTOR_NAME_MAX || !isalnum((unsigned char)s[0]) || !isalnum((unsigned char)s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && strchr(inner, s[i]) == NULL)
            return false;
    }
    return true;
}

static bool is_prefix(const char *s, size_t n)
{
    if (n == 0 || n > SELECTOR_PREFIX_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool alnum = islower((unsigned char)s[i]) || isdigit((unsigned char)s[i]);
        bool border = i == 0 || i + 1 == n || s[i - 1] == '.' || s[i + 1] == '.';
        if (!alnum && (border || (s[i] != '.' && s[i] != '-')))
            return false;
    }
    return true;
}

static bool is_key(const char *s, size_t n)
{
    const char *slash = memchr(s, '/', n);
    if (slash != NULL) {
        if (!is_prefix(s, (size_t)(slash - s)))
            return false;
        n -= (size_t)(slash + 1 - s);
        s = slash + 1;
    }
    return is_qualified(s, n, "-_.");
}

// ---- parser

static int take_value(struct parser *p, struct requirement *r)
{
    if (p->token == TOKEN_WORD && !is_qualified(p->start, p->len, "-_."))
        return fail(p, "a label value (at most 63 letters, digits, '-', '_', '.')");
    char *value = xstrndup(p->start, p->token == TOKEN_WORD ? p->len : 0);
    strset_add(&r->values, value);
    free(value);
    if (p->token == TOKEN_WORD)
        next(p);
    return 0;
}

// "(a, b,)": an empty place is the empty value, as kubectl has it; "()" is refused.
static int take_set(struct parser *p, struct requirement *r)
{
    next(p);
    if (p->token != TOKEN_OPEN)
        return fail(p, "'('");
    next(p);
    if (p->token == TOKEN_CLOSE)
        return fail(p, "a value");
    for (;;) {
        int err = take_value(p, r);
        if (err < 0)
            return err;
        if (p->token == TOKEN_CLOSE)
            break;
        if (p->token != TOKEN_COMMA)
            return fail(p, "',' or ')'");
        next(p);
    }
    next(p);
    return 0;
}

static bool word_is(const struct parser *p, const char *word)
{
    return p->token == TOKEN_WORD && p->len == strlen(word) && memcmp(p->start, word, p->len) == 0;
}

static int take_operator(struct parser *p, struct requirement *r)
{
    if (p->token == TOKEN_END || p->token == TOKEN_COMMA) {
        r->op = OP_EXISTS;
        return 0;
    }
    if (word_is(p, "in") || word_is(p, "notin")) {
        r->op = word_is(p, "in") ? OP_IN : OP_NOT_IN;
        return take_set(p, r);
    }
    if (p->token != TOKEN_EQUALS && p->token != TOKEN_NOT_EQUALS)
        return fail(p, "one of = == != in notin ,");
    r->op = p->token == TOKEN_EQUALS ? OP_IN : OP_NOT_IN;
    next(p);
    if (p->token != TOKEN_WORD && p->token != TOKEN_COMMA && p->token != TOKEN_END)
        return fail(p, "a value");
    return take_value(p, r);
}

static int take_requirement(struct parser *p, struct requirement *r)
{
    bool negated = p->token == TOKEN_NOT;
    if (negated)
        next(p);
    if (p->token != TOKEN_WORD)
        return fail(p, "a label key");
    if (!is_key(p->start, p->len))
        return fail(p, "a label key (example.com/name, the name at most 63 letters, digits, '-', '_', '.')");
    r->key = xstrndup(p->start, p->len);
    next(p);
    if (!negated)
        return take_operator(p, r);
    r->op = OP_NOT_EXISTS;
    return p->token == TOKEN_END || p->token == TOKEN_COMMA ? 0 : fail(p, "','");
}

// ---- canonical text

static char *requirement_text(struct requirement *r)
{
    struct buf b;
    buf_init(&b, 2 * SELECTOR_TEXT_MAX);
    strset_sort(&r->values);
    if (r->op == OP_EXISTS || r->op == OP_NOT_EXISTS) {
        buf_addf(&b, "%s%s", r->op == OP_NOT_EXISTS ? "!" : "", r->key);
    } else if (r->values.count == 1) {
        buf_addf(&b, "%s%s%s", r->key, r->op == OP_IN ? "=" : "!=", r->values.items[0]);
    } else {
        buf_addf(&b, "%s %s (", r->key, r->op == OP_IN ? "in" : "notin");
        for (size_t i = 0; i < r->values.count; i++)
            buf_addf(&b, "%s%s", i > 0 ? "," : "", r->values.items[i]);
        buf_add_char(&b, ')');
    }
    return buf_take(&b, NULL);
}

static void requirement_fini(struct requirement *r)
{
    strset_fini(&r->values);
    free(r->key);
    free(r->text);
}

static int compare_requirements(const void *a, const void *b)
{
    const struct requirement *x = a;
    const struct requirement *y = b;
    int c = strcmp(x->key, y->key);
    return c != 0 ? c : strcmp(x->text, y->text);
}

static void canonicalize(struct selector *s)
{
    struct buf b;
    size_t n = 0;
    if (s->count > 1)
        qsort(s->items, s->count, sizeof(s->items[0]), compare_requirements);
    buf_init(&b, 4 * SELECTOR_TEXT_MAX);
    for (size_t i = 0; i < s->count; i++) {
        if (n > 0 && str_eq(s->items[n - 1].text, s->items[i].text)) {
            requirement_fini(&s->items[i]);
            continue;
        }
        s->items[n] = s->items[i];
        buf_addf(&b, "%s%s", n > 0 ? "," : "", s->items[n].text);
        n++;
    }
    s->count = n;
    s->text = buf_take(&b, NULL);
}

static int parse_all(struct parser *p, struct selector *s)
{
    next(p);
    while (p->token != TOKEN_END || s->count > 0) {
        s->items = xreallocarray(s->items, s->count + 1, sizeof(s->items[0]));
        struct requirement *r = &s->items[s->count++];
        *r = (struct requirement){0};
        strset_init(&r->values);
        int err = take_requirement(p, r);
        if (err < 0)
            return err;
        r->text = requirement_text(r);
        if (p->token == TOKEN_END)
            break;
        if (p->token != TOKEN_COMMA)
            return fail(p, "','");
        next(p);
    }
    return 0;
}

int selector_parse(const char *text, struct selector **ret, struct err *e)
{
    if (strlen(text) > SELECTOR_TEXT_MAX)
        return err_set(e, ERR_INVALID, "the label selector is longer than %d bytes", SELECTOR_TEXT_MAX);
    struct selector *s = xcalloc(1, sizeof(*s));
    struct parser p = {.text = text, .at = text, .err = e};
    int r = parse_all(&p, s);
    if (r < 0) {
        selector_free(s);
        return r;
    }
    canonicalize(s);
    *ret = s;
    return 0;
}

void selector_free(struct selector *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->count; i++)
        requirement_fini(&s->items[i]);
    free(s->items);
    free(s->text);
    free(s);
}

const char *selector_text(const struct selector *s)
{
    return s->text;
}

// ---- matching

static int compare_label(const void *key, const void *label)
{
    return strcmp(key, ((const struct object_label *)label)->key);
}

static bool requirement_matches(const struct requirement *r, const struct object_label *labels, size_t n)
{
    const struct object_label *l =
        n > 0 ? bsearch(r->key, labels, n, sizeof(labels[0]), compare_label) : NULL;
    switch (r->op) {
    case OP_EXISTS:
        return l != NULL;
    case OP_NOT_EXISTS:
        return l == NULL;
    case OP_IN:
        return l != NULL && strset_has(&r->values, l->value);
    case OP_NOT_IN:
        return l == NULL || !strset_has(&r->values, l->value);
    }
    return false;
}

bool selector_matches_labels(const struct selector *s, const struct object_label *labels, size_t n)
{
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        if (!requirement_matches(&s->items[i], labels, n))
            return false;
    }
    return true;
}

bool selector_matches(const struct selector *s, const struct object *o)
{
    const struct object_label *labels;
    size_t n = object_labels(o, &labels);
    return selector_matches_labels(s, labels, n);
}

bool selector_equality(const struct selector *s, const char **ret_key, const char **ret_value)
{
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        const struct requirement *r = &s->items[i];
        if (r->op == OP_IN && r->values.count == 1) {
            *ret_key = r->key;
            *ret_value = r->values.items[0];
            return true;
        }
    }
    return false;
}
