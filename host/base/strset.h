// Small helpers on strings that C lacks. Any thread.
#ifndef BASE_STRSET_H
#define BASE_STRSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A growing array of owned strings, kept in the order added.
struct strset {
    char **items;
    size_t count;
    size_t cap;
};

void strset_init(struct strset *s);
void strset_fini(struct strset *s);
bool strset_add(struct strset *s, const char *item);    // false: was there already
bool strset_remove(struct strset *s, const char *item); // false: was not there
bool strset_has(const struct strset *s, const char *item);
void strset_sort(struct strset *s);
// Splits at `sep`, trims blanks, leaves out empty parts.
void strset_add_split(struct strset *s, const char *text, char sep);

bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);
bool str_eq(const char *a, const char *b); // NULL equals NULL only
// Longest prefix of s (n bytes) of at most max bytes that ends at a UTF-8 border.
size_t str_utf8_cut(const char *s, size_t n, size_t max);
bool str_is_utf8(const char *s, size_t n);
// Length in bytes of the character that s (n > 0 bytes) begins with, and its code point; 0 when it is not
// UTF-8.
size_t str_utf8_char(const char *s, size_t n, uint32_t *ret_code);

#endif
