#include "base/nearest.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { WORD_MAX = 40 };

// The letters that count; 0 when the word is too long to compare.
static size_t reduce(const char *word, char out[WORD_MAX])
{
    size_t n = 0;
    for (; *word != 0; word++) {
        if (*word == '_' || *word == '-')
            continue;
        if (n == WORD_MAX)
            return 0;
        out[n++] = (char)tolower((unsigned char)*word);
    }
    return n;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Levenshtein, one row.
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[WORD_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t up = row[j];
            row[j] = least(least(row[j - 1], up) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = up;
        }
    }
    return row[m];
}

const char *nearest_name(const char *word, const char *const *known)
{
    char a[WORD_MAX], b[WORD_MAX];
    size_t n = reduce(word, a);
    if (n == 0)
        return NULL;
    size_t best = n / 3 > 1 ? n / 3 : 1;
    const char *nearest = NULL;
    for (; *known != NULL; known++) {
        size_t m = reduce(*known, b);
        size_t d = m > 0 ? distance(a, n, b, m) : WORD_MAX;
        if (d <= best && (nearest == NULL || d < best)) {
            best = d;
            nearest = *known;
        }
    }
    return nearest;
}
