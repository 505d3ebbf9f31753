#include "script/value_path.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/strset.h"

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
        if (!letter && (i == 0 || s[i] < '0' || s[i] > '9'))
            return false;
    }
    return n > 0;
}

static void add_quoted(struct buf *out, const char *s, size_t n)
{
    enum { KEY_MAX = 80 };
    size_t shown = str_utf8_cut(s, n, KEY_MAX);
    buf_add_str(out, "[\"");
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\' || (c >= 0x80 && !str_is_utf8(s, shown)))
            buf_addf(out, "\\%u", c);
        else
            buf_add_char(out, (char)c);
    }
    buf_add_str(out, shown < n ? "...\"]" : "\"]");
}

static void add_link(struct buf *out, const struct value_path *p)
{
    enum { PLAIN_MAX = 60 };
    if (p->key == NULL) {
        buf_addf(out, "[%zu]", p->index);
    } else if (!is_name(p->key, p->key_len) || p->key_len > PLAIN_MAX) {
        // The start of a path stands as it is.
        if (p->parent == NULL)
            buf_add(out, p->key, p->key_len);
        else
            add_quoted(out, p->key, p->key_len);
    } else {
        if (out->len > 0)
            buf_add_char(out, '.');
        buf_add(out, p->key, p->key_len);
    }
}

void value_path_format(char out[VALUE_PATH_TEXT_MAX], const struct value_path *p)
{
    enum { LINKS_MAX = 256, HALF = VALUE_PATH_TEXT_MAX / 2 - 8 };
    const struct value_path *links[LINKS_MAX];
    size_t count = 0;
    for (; p != NULL && count < LINKS_MAX; p = p->parent)
        links[count++] = p;
    struct buf text;
    buf_init(&text, LINKS_MAX * 512);
    while (count > 0)
        add_link(&text, links[--count]);
    const char *s = text.data != NULL ? text.data : "";
    if (text.len < VALUE_PATH_TEXT_MAX) {
        memcpy(out, s, text.len + 1);
    } else {
        size_t head = str_utf8_cut(s, text.len, HALF);
        size_t tail = text.len - HALF;
        while (((unsigned char)s[tail] & 0xc0) == 0x80)
            tail++;
        snprintf(out, VALUE_PATH_TEXT_MAX, "%.*s ... %s", (int)head, s, s + tail);
    }
    buf_fini(&text);
}
