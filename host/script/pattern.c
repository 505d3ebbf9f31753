#include "script/pattern.h"

#include <string.h>

// Classes by ASCII, whatever the locale.
enum { ALPHA = 1, DIGIT = 2, LOWER = 4, UPPER = 8, SPACE = 16, CONTROL = 32, PUNCT = 64, HEX = 128 };

static const unsigned char classes[256] = {
    [0 ... 8] = CONTROL,
    ['\t' ... '\r'] = CONTROL | SPACE,
    [14 ... 31] = CONTROL,
    [' '] = SPACE,
    ['!' ... '/'] = PUNCT,
    ['0' ... '9'] = DIGIT | HEX,
    [':' ... '@'] = PUNCT,
    ['A' ... 'F'] = ALPHA | UPPER | HEX,
    ['G' ... 'Z'] = ALPHA | UPPER,
    ['[' ... '`'] = PUNCT,
    ['a' ... 'f'] = ALPHA | LOWER | HEX,
    ['g' ... 'z'] = ALPHA | LOWER,
    ['{' ... '~'] = PUNCT,
    [127] = CONTROL,
};

// Which bits a class letter stands for; 0: it is no class.
static int class_mask(char letter)
{
    switch (letter | 0x20) {
    case 'a':
        return ALPHA;
    case 'c':
        return CONTROL;
    case 'd':
        return DIGIT;
    case 'g':
        return ALPHA | DIGIT | PUNCT;
    case 'l':
        return LOWER;
    case 'p':
        return PUNCT;
    case 's':
        return SPACE;
    case 'u':
        return UPPER;
    case 'w':
        return ALPHA | DIGIT;
    case 'x':
        return HEX;
    default:
        return 0;
    }
}

static bool is_letter(char c)
{
    return (classes[(unsigned char)c] & ALPHA) != 0;
}

// %letter against c.
static bool in_class(unsigned char c, char letter)
{
    if (!is_letter(letter))
        return (unsigned char)letter == c;
    bool complement = letter < 'a';
    int mask = class_mask(letter);
    if (mask != 0)
        return ((classes[c] & mask) != 0) != complement;
    if (letter == 'z' || letter == 'Z')
        return (c == 0) != complement;
    return (unsigned char)letter == c;
}

static const char *fail(struct pattern *p, const char *what)
{
    if (p->error == NULL)
        p->error = what;
    return NULL;
}

// Counts work; false when there was too much of it.
static bool step(struct pattern *p, uint64_t n)
{
    if (p->steps >= n) {
        p->steps -= n;
        return true;
    }
    p->steps = 0;
    fail(p, "pattern takes too long (more than 1,000,000 steps): anchor it, or use fewer of * + -");
    return false;
}

// The end of a set that begins behind '['; a ']' that comes first is one of its members.
static const char *set_end(struct pattern *p, const char *t)
{
    if (*t == '^')
        t++;
    bool first = true;
    for (; first || *t != ']'; first = false) {
        if (*t == 0)
            return fail(p, "malformed pattern (missing ']')");
        if (*t++ == '%' && *t != 0)
            t++;
    }
    return t + 1;
}

// The end of the single-character item that begins at t, which is no NUL.
static const char *item_end(struct pattern *p, const char *t)
{
    if (*t == '[')
        return set_end(p, t + 1);
    if (*t != '%')
        return t + 1;
    if (t[1] == 0)
        return fail(p, "malformed pattern (ends with '%')");
    return t + 2;
}

// c against the set [t, end), brackets included.
static bool in_set(unsigned char c, const char *t, const char *end)
{
    const char *last = end - 1; // the closing bracket
    bool found = true;
    t++;
    if (*t == '^') {
        found = false;
        t++;
    }
    while (t < last) {
        if (*t == '%') {
            if (in_class(c, t[1]))
                return found;
            t += 2;
        } else if (t[1] == '-' && t + 2 < last) {
            if ((unsigned char)t[0] <= c && c <= (unsigned char)t[2])
                return found;
            t += 3;
        } else {
            if ((unsigned char)*t == c)
                return found;
            t++;
        }
    }
    return !found;
}

// c against the item [t, end).
static bool in_item(unsigned char c, const char *t, const char *end)
{
    switch (*t) {
    case '.':
        return true;
    case '%':
        return in_class(c, t[1]);
    case '[':
        return in_set(c, t, end);
    default:
        return (unsigned char)*t == c;
    }
}

// What one look at the item [t, end) takes, in steps: a long set is gone through anew each time.
static uint64_t item_steps(const char *t, const char *end)
{
    enum { SET_BYTES_A_STEP = 16 };
    return 1 + (uint64_t)(end - t) / SET_BYTES_A_STEP;
}

static const char *match(struct pattern *p, const char *s, const char *t);

// item* and item+: as many as there are, then fewer.
static const char *match_most(struct pattern *p, const char *s, const char *t, const char *end,
                              ptrdiff_t least)
{
    ptrdiff_t n = 0;
    uint64_t each = item_steps(t, end);
    ptrdiff_t most = (ptrdiff_t)(p->steps / each) + 1; // beyond it the count fails
    while (n < most && s + n < p->subject_end && in_item((unsigned char)s[n], t, end))
        n++;
    if (!step(p, (uint64_t)n * each))
        return NULL;
    for (; n >= least; n--) {
        const char *r = match(p, s + n, end + 1);
        if (r != NULL || p->error != NULL)
            return r;
    }
    return NULL;
}

// item-: none, then more.
static const char *match_fewest(struct pattern *p, const char *s, const char *t, const char *end)
{
    for (;;) {
        const char *r = match(p, s, end + 1);
        if (r != NULL || p->error != NULL)
            return r;
        if (!step(p, item_steps(t, end) - 1) || s >= p->subject_end || !in_item((unsigned char)*s, t, end))
            return NULL;
        s++;
    }
}

// %bxy; t is behind the b.
static const char *match_balance(struct pattern *p, const char *s, const char *t)
{
    if (t[0] == 0 || t[1] == 0)
        return fail(p, "unbalanced pattern");
    if (s >= p->subject_end || *s != t[0])
        return NULL;
    ptrdiff_t depth = 1;
    const char *from = s;
    while (++s < p->subject_end) {
        if (*s == t[1]) {
            if (--depth == 0)
                return step(p, (uint64_t)(s - from)) ? s + 1 : NULL;
        } else if (*s == t[0]) {
            depth++;
        }
    }
    step(p, (uint64_t)(s - from));
    return NULL;
}

// %f[set]; t is at what follows the f. Matches nothing, between a character outside of the set and one in it;
// the ends count as NUL.
static bool match_frontier(struct pattern *p, const char *s, const char *t, const char **ret_end)
{
    if (*t != '[') {
        fail(p, "missing '[' after '%f' in pattern");
        return false;
    }
    const char *end = set_end(p, t + 1);
    if (end == NULL)
        return false;
    if (!step(p, item_steps(t, end) - 1))
        return false;
    unsigned char before = s == p->subject ? 0 : (unsigned char)s[-1];
    unsigned char here = s == p->subject_end ? 0 : (unsigned char)*s;
    *ret_end = end;
    return !in_set(before, t, end) && in_set(here, t, end);
}

// %1: the text of a capture again.
static const char *match_back(struct pattern *p, const char *s, char digit)
{
    int i = digit - '1';
    if (i < 0 || i >= p->count || p->captures[i].len == PATTERN_OPEN)
        return fail(p, "invalid capture index");
    size_t len = p->captures[i].len == PATTERN_POSITION ? (size_t)-2 : (size_t)p->captures[i].len;
    if (len > (size_t)(p->subject_end - s) || !step(p, len) || memcmp(p->captures[i].start, s, len) != 0)
        return NULL;
    return s + len;
}

static const char *open_capture(struct pattern *p, const char *s, const char *t, ptrdiff_t len)
{
    if (p->count >= PATTERN_CAPTURES_MAX)
        return fail(p, "too many captures");
    p->captures[p->count++] = (struct pattern_capture){s, len};
    const char *r = match(p, s, t);
    if (r == NULL)
        p->count--;
    return r;
}

static const char *close_capture(struct pattern *p, const char *s, const char *t)
{
    int i = p->count - 1;
    while (i >= 0 && p->captures[i].len != PATTERN_OPEN)
        i--;
    if (i < 0)
        return fail(p, "invalid pattern capture");
    p->captures[i].len = s - p->captures[i].start;
    const char *r = match(p, s, t);
    if (r == NULL)
        p->captures[i].len = PATTERN_OPEN;
    return r;
}

// What one item did to the match.
enum move { MOVE_ON, MOVE_DONE };

// A single-character item with or without a repetition. MOVE_ON: goes on at *s and *t; MOVE_DONE: *s is the
// result.
static enum move match_item(struct pattern *p, const char **s, const char **t)
{
    const char *end = item_end(p, *t);
    if (end == NULL || !step(p, item_steps(*t, end) - 1)) {
        *s = NULL;
        return MOVE_DONE;
    }
    bool here = false;
    if (*end != '*' && *end != '-')
        here = *s < p->subject_end && in_item((unsigned char)**s, *t, end);
    switch (*end) {
    case '?':
        if (here) {
            const char *r = match(p, *s + 1, end + 1);
            if (r != NULL || p->error != NULL) {
                *s = r;
                return MOVE_DONE;
            }
        }
        *t = end + 1;
        return MOVE_ON;
    case '*':
        *s = match_most(p, *s, *t, end, 0);
        return MOVE_DONE;
    case '+':
        *s = here ? match_most(p, *s, *t, end, 1) : NULL;
        return MOVE_DONE;
    case '-':
        *s = match_fewest(p, *s, *t, end);
        return MOVE_DONE;
    default:
        if (!here) {
            *s = NULL;
            return MOVE_DONE;
        }
        *s += 1;
        *t = end;
        return MOVE_ON;
    }
}

// %b, %f and %1; others are single-character items.
static enum move match_escape(struct pattern *p, const char **s, const char **t)
{
    char c = (*t)[1];
    if (c == 'b') {
        *s = match_balance(p, *s, *t + 2);
        *t += 4;
    } else if (c == 'f') {
        const char *end;
        if (match_frontier(p, *s, *t + 2, &end))
            *t = end;
        else
            *s = NULL;
    } else if (c >= '0' && c <= '9') {
        *s = match_back(p, *s, c);
        *t += 2;
    } else {
        return match_item(p, s, t);
    }
    return *s != NULL ? MOVE_ON : MOVE_DONE;
}

static const char *match_here(struct pattern *p, const char *s, const char *t)
{
    for (;;) {
        enum move move;
        if (!step(p, 1))
            return NULL;
        switch (*t) {
        case 0:
            return s;
        case '(':
            return t[1] == ')' ? open_capture(p, s, t + 2, PATTERN_POSITION)
                               : open_capture(p, s, t + 1, PATTERN_OPEN);
        case ')':
            return close_capture(p, s, t + 1);
        case '%':
            move = match_escape(p, &s, &t);
            break;
        case '$':
            if (t[1] == 0)
                return s == p->subject_end ? s : NULL;
            move = match_item(p, &s, &t);
            break;
        default:
            move = match_item(p, &s, &t);
        }
        if (move == MOVE_DONE)
            return s;
    }
}

static const char *match(struct pattern *p, const char *s, const char *t)
{
    if (p->depth >= PATTERN_DEPTH_MAX)
        return fail(p, "pattern too complex");
    p->depth++;
    const char *r = match_here(p, s, t);
    p->depth--;
    return p->error != NULL ? NULL : r;
}

void pattern_init(struct pattern *p, const char *subject, size_t len)
{
    p->subject = subject;
    p->subject_end = subject + len;
    p->steps = PATTERN_STEPS_MAX;
    p->error = NULL;
    p->depth = 0;
    p->count = 0;
}

const char *pattern_match(struct pattern *p, const char *at, const char *text)
{
    p->count = 0;
    return match(p, at, text);
}

bool pattern_is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != 0 && strchr("^$*+?.([%-", text[i]) != NULL)
            return false;
    }
    return true;
}
