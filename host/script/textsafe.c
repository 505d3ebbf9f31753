#include "script/textsafe.h"

#include <string.h>

#include "base/strset.h"

// Of a long text: what stands first, and last, since that is where an error says what is wrong.
enum { HEAD_MAX = 400, TAIL_MAX = 240 };

// Length of the character that text begins with, or 0 when it is none.
static size_t character(const char *text, size_t n)
{
    if ((unsigned char)text[0] < 0x80)
        return text[0] != 0;
    for (size_t i = 2; i <= 4 && i <= n; i++) {
        if (str_is_utf8(text, i))
            return i;
    }
    return 0;
}

size_t textsafe_copy(char *out, size_t cap, const char *text, size_t n)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        size_t size = character(text + i, n - i);
        const char *from = size > 0 ? text + i : replacement;
        size_t add = size > 0 ? size : sizeof(replacement) - 1;
        if (len + add >= cap)
            break;
        memcpy(out + len, from, add);
        len += add;
        i += size > 0 ? size : 1;
    }
    out[len] = 0;
    return len;
}

void textsafe_err(struct err *e, enum err_code code, const char *text, size_t n)
{
    static const char gap[] = " ... ";
    char safe[ERR_TEXT_MAX];
    if (n <= HEAD_MAX + TAIL_MAX) {
        textsafe_copy(safe, sizeof(safe), text, n);
    } else {
        const char *tail = text + n - TAIL_MAX;
        while (((unsigned char)*tail & 0xC0) == 0x80 && tail < text + n) // within a character
            tail++;
        size_t len = textsafe_copy(safe, HEAD_MAX + 1, text, n);
        memcpy(safe + len, gap, sizeof(gap));
        len += sizeof(gap) - 1;
        textsafe_copy(safe + len, TAIL_MAX + 1, tail, (size_t)(text + n - tail));
    }
    err_set(e, code, "%s", safe);
}
