#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/strset.h"

static const struct {
    const char *name;
    int http;
} codes[ERR_COUNT] = {[ERR_NONE] = {"None", 0},
#define X(code, name, http) [code] = {name, http},
                      ERR_LIST(X)
#undef X
};

// vsnprintf cuts at a byte; what is left of a character at the end goes too.
static void print_cut(char out[ERR_TEXT_MAX], const char *fmt, va_list ap)
{
    int n = vsnprintf(out, ERR_TEXT_MAX, fmt, ap);
    if (n < 0)
        out[0] = 0;
    else if (n >= ERR_TEXT_MAX)
        out[str_utf8_cut(out, ERR_TEXT_MAX - 1, ERR_TEXT_MAX - 1)] = 0;
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    ASSERT(code > ERR_NONE && code < ERR_COUNT);
    if (e != NULL) {
        // The arguments may point into e->text, so the text is made aside.
        char text[ERR_TEXT_MAX];
        va_list ap;
        va_start(ap, fmt);
        print_cut(text, fmt, ap);
        va_end(ap);
        e->code = -(int)code;
        memcpy(e->text, text, strlen(text) + 1);
    }
    return -(int)code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    if (e == NULL)
        return 0;
    char text[ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    print_cut(text, fmt, ap);
    va_end(ap);
    size_t n = strlen(text);
    size_t old = strlen(e->text);
    size_t room = ERR_TEXT_MAX - 1;
    if (n + 2 >= room) {
        memcpy(e->text, text, n + 1);
        return e->code;
    }
    if (n + 2 + old > room)
        old = str_utf8_cut(e->text, old, room - n - 2);
    memmove(e->text + n + 2, e->text, old);
    memcpy(e->text, text, n);
    memcpy(e->text + n, ": ", 2);
    e->text[n + 2 + old] = 0;
    return e->code;
}

// At most `max` bytes.
static void add_shortened(char *out, const char *text, size_t max)
{
    static const char gap[] = " ... ";
    size_t n = strlen(text), half = (max - (sizeof gap - 1)) / 2;
    if (n <= max) {
        memcpy(out, text, n + 1);
        return;
    }
    size_t head = str_utf8_cut(text, n, half);
    const char *tail = text + n - half;
    while (((unsigned char)*tail & 0xc0) == 0x80)
        tail++;
    memcpy(out, text, head);
    memcpy(out + head, gap, sizeof gap - 1);
    strcpy(out + head + sizeof gap - 1, tail);
}

void err_join(struct err *e, size_t parts, const char *text)
{
    enum { FIRST = 480, LATER = 240, LEAST = 60 };
    char all[ERR_TEXT_MAX];
    add_shortened(all, e->text, parts == 1 ? FIRST : ERR_TEXT_MAX - 1);
    size_t n = strlen(all), room = n + 2 < ERR_TEXT_MAX ? ERR_TEXT_MAX - 1 - n - 2 : 0;
    if (room < LEAST)
        return;
    strcpy(all + n, "; ");
    add_shortened(all + n + 2, text, room < LATER ? room : LATER);
    strcpy(e->text, all);
}

const char *err_name(int code)
{
    if (code < 0)
        code = code == -__INT_MAX__ - 1 ? ERR_COUNT : -code;
    return code < ERR_COUNT ? codes[code].name : "Unknown";
}

enum err_code err_from_http(int status)
{
    switch (status) {
    case 400:
        return ERR_BAD_REQUEST; // also listed for ERR_PARSE, which is for texts we read ourselves
    case 409:
        return ERR_CONFLICT; // AlreadyExists differs by the reason in the body only
    default:
        break;
    }
    for (int code = ERR_NONE + 1; code < ERR_COUNT; code++) {
        if (codes[code].http == status)
            return (enum err_code)code;
    }
    return status >= 400 && status < 500 ? ERR_BAD_REQUEST : ERR_INTERNAL;
}
