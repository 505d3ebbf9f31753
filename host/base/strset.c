#include "base/strset.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void strset_init(struct strset *s)
{
    *s = (struct strset){0};
}

void strset_fini(struct strset *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i]);
    free(s->items);
    *s = (struct strset){0};
}

bool strset_remove(struct strset *s, const char *item)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i], item) != 0)
            continue;
        free(s->items[i]);
        memmove(&s->items[i], &s->items[i + 1], (s->count - i - 1) * sizeof s->items[0]);
        s->count--;
        return true;
    }
    return false;
}

bool strset_has(const struct strset *s, const char *item)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i], item) == 0)
            return true;
    }
    return false;
}

bool strset_add(struct strset *s, const char *item)
{
    if (strset_has(s, item))
        return false;
    if (s->count == s->cap) {
        s->cap = s->cap == 0 ? 8 : s->cap * 2;
        s->items = xreallocarray(s->items, s->cap, sizeof(*s->items));
    }
    s->items[s->count++] = xstrdup(item);
    return true;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void strset_sort(struct strset *s)
{
    if (s->count > 1)
        qsort(s->items, s->count, sizeof(*s->items), compare);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void strset_add_split(struct strset *s, const char *text, char sep)
{
    while (text != NULL) {
        const char *end = strchr(text, sep);
        const char *stop = end != NULL ? end : text + strlen(text);
        const char *start = text;
        while (start < stop && is_blank(*start))
            start++;
        while (stop > start && is_blank(stop[-1]))
            stop--;
        if (stop > start) {
            char *item = xstrndup(start, (size_t)(stop - start));
            strset_add(s, item);
            free(item);
        }
        text = end != NULL && sep != 0 ? end + 1 : NULL;
    }
}

bool str_has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s);
    size_t m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

bool str_eq(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

// Length that the first byte of a character announces; 0 for a byte that can not be one.
static size_t announced(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c < 0xc2)
        return 0;
    if (c < 0xe0)
        return 2;
    if (c < 0xf0)
        return 3;
    return c < 0xf5 ? 4 : 0;
}

size_t str_utf8_cut(const char *s, size_t n, size_t max)
{
    size_t cut = n < max ? n : max;
    size_t start = cut;
    for (int back = 0; start > 0 && back < 3 && ((unsigned char)s[start - 1] & 0xc0) == 0x80; back++)
        start--;
    if (start == 0)
        return cut;
    // s[start - 1] begins the last character, or the bytes are no UTF-8 and any place is as good.
    return start - 1 + announced((unsigned char)s[start - 1]) > cut ? start - 1 : cut;
}

size_t str_utf8_char(const char *s, size_t n, uint32_t *ret_code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)s;
    size_t len = announced(p[0]);
    if (len == 0 || len > n)
        return 0;
    uint32_t code = len == 1 ? p[0] : p[0] & (0x7fU >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0; // overlong, beyond Unicode, or half of a surrogate pair
    *ret_code = code;
    return len;
}

bool str_is_utf8(const char *s, size_t n)
{
    uint32_t code;
    size_t len;
    for (size_t i = 0; i < n; i += len) {
        len = str_utf8_char(s + i, n - i, &code);
        if (len == 0)
            return false;
    }
    return true;
}
