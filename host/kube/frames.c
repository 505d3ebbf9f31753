#include "kube/frames.h"

#include "base/err.h"

enum { KEEP_MAX = 256 * 1024 }; // memory kept between frames

void frames_init(struct frames *f, size_t max)
{
    *f = (struct frames){.max = max};
    buf_init(&f->rest, max);
}

void frames_fini(struct frames *f)
{
    buf_fini(&f->rest);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool in_frame(const struct frames *f)
{
    return f->depth > 0 || f->text;
}

static void in_string(struct frames *f, char c)
{
    if (f->escape)
        f->escape = false;
    else if (c == '\\')
        f->escape = true;
    else if (c == '"')
        f->string = false;
}

// Takes the next byte of a frame; true when it is the last one.
static bool step(struct frames *f, char c)
{
    if (f->text || (f->string && c == '\n'))
        return c == '\n';
    if (f->string) {
        in_string(f, c);
        return false;
    }
    switch (c) {
    case '"':
        f->string = true;
        return false;
    case '{':
    case '[':
        f->depth++;
        return false;
    case '}':
    case ']':
        return --f->depth == 0;
    default:
        return false;
    }
}

// The first byte from data[i] on that may change the state; most do not, in a string or outside.
static size_t skip(const struct frames *f, const char *data, size_t i, size_t n)
{
    enum { IN_STRING = 1, OUTSIDE = 2 };
    static const unsigned char counts[256] = {['"'] = IN_STRING | OUTSIDE,
                                              ['\\'] = IN_STRING,
                                              ['\n'] = IN_STRING,
                                              ['{'] = OUTSIDE,
                                              ['}'] = OUTSIDE,
                                              ['['] = OUTSIDE,
                                              [']'] = OUTSIDE};
    if (f->text || f->escape)
        return i;
    unsigned char wanted = f->string ? IN_STRING : OUTSIDE;
    while (i < n && (counts[(unsigned char)data[i]] & wanted) == 0)
        i++;
    return i;
}

static void begin(struct frames *f, char c)
{
    f->text = c != '{' && c != '[';
    f->depth = f->text ? 0 : 1;
    f->string = f->escape = false;
}

// Gives away the frame that ends with data[0..n).
static int emit(struct frames *f, const char *data, size_t n,
                int (*on_frame)(void *ud, const char *json, size_t n), void *ud)
{
    f->depth = 0;
    f->text = f->string = false;
    if (f->rest.len + n > f->max)
        return -ERR_LIMIT;
    if (f->rest.len == 0)
        return on_frame(ud, data, n);
    if (buf_add(&f->rest, data, n) < 0)
        return -ERR_LIMIT;
    int rc = on_frame(ud, f->rest.data, f->rest.len);
    if (f->rest.cap > KEEP_MAX)
        buf_fini(&f->rest);
    else
        buf_reset(&f->rest);
    return rc;
}

int frames_feed(struct frames *f, const char *data, size_t n,
                int (*on_frame)(void *ud, const char *json, size_t n), void *ud)
{
    size_t start = 0;
    for (size_t i = 0; i < n; i++) {
        if (!in_frame(f)) {
            if (!is_blank(data[i])) {
                begin(f, data[i]);
                start = i;
            }
            continue;
        }
        i = skip(f, data, i, n);
        if (i == n || !step(f, data[i]))
            continue;
        int rc = emit(f, data + start, i + 1 - start, on_frame, ud);
        if (rc != 0)
            return rc;
    }
    if (!in_frame(f))
        return 0;
    return buf_add(&f->rest, data + start, n - start) < 0 ? -ERR_LIMIT : 0;
}
