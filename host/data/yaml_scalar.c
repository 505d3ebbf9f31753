#include "data/yaml_scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    struct yaml_scalar meaning;
} words[] = {
#define WORD(word, type_, ...)                                                                               \
    {                                                                                                        \
        word,                                                                                                \
        {                                                                                                    \
            .type = type_, .value = { __VA_ARGS__ }                                                          \
        }                                                                                                    \
    }
    WORD("", SCALAR_NULL, 0),
    WORD("~", SCALAR_NULL, 0),
    WORD("null", SCALAR_NULL, 0),
    WORD("Null", SCALAR_NULL, 0),
    WORD("NULL", SCALAR_NULL, 0),
    WORD("y", SCALAR_BOOL, .flag = true),
    WORD("Y", SCALAR_BOOL, .flag = true),
    WORD("yes", SCALAR_BOOL, .flag = true),
    WORD("Yes", SCALAR_BOOL, .flag = true),
    WORD("YES", SCALAR_BOOL, .flag = true),
    WORD("true", SCALAR_BOOL, .flag = true),
    WORD("True", SCALAR_BOOL, .flag = true),
    WORD("TRUE", SCALAR_BOOL, .flag = true),
    WORD("on", SCALAR_BOOL, .flag = true),
    WORD("On", SCALAR_BOOL, .flag = true),
    WORD("ON", SCALAR_BOOL, .flag = true),
    WORD("n", SCALAR_BOOL, .flag = false),
    WORD("N", SCALAR_BOOL, .flag = false),
    WORD("no", SCALAR_BOOL, .flag = false),
    WORD("No", SCALAR_BOOL, .flag = false),
    WORD("NO", SCALAR_BOOL, .flag = false),
    WORD("false", SCALAR_BOOL, .flag = false),
    WORD("False", SCALAR_BOOL, .flag = false),
    WORD("FALSE", SCALAR_BOOL, .flag = false),
    WORD("off", SCALAR_BOOL, .flag = false),
    WORD("Off", SCALAR_BOOL, .flag = false),
    WORD("OFF", SCALAR_BOOL, .flag = false),
    WORD(".nan", SCALAR_FLOAT, .d = NAN),
    WORD(".NaN", SCALAR_FLOAT, .d = NAN),
    WORD(".NAN", SCALAR_FLOAT, .d = NAN),
    WORD(".inf", SCALAR_FLOAT, .d = INFINITY),
    WORD(".Inf", SCALAR_FLOAT, .d = INFINITY),
    WORD(".INF", SCALAR_FLOAT, .d = INFINITY),
    WORD("+.inf", SCALAR_FLOAT, .d = INFINITY),
    WORD("+.Inf", SCALAR_FLOAT, .d = INFINITY),
    WORD("+.INF", SCALAR_FLOAT, .d = INFINITY),
    WORD("-.inf", SCALAR_FLOAT, .d = -INFINITY),
    WORD("-.Inf", SCALAR_FLOAT, .d = -INFINITY),
    WORD("-.INF", SCALAR_FLOAT, .d = -INFINITY),
    WORD("<<", SCALAR_MERGE, 0),
#undef WORD
};

enum { WORD_MAX = 5 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

// The base that p's prefix names, and p behind the prefix: 0x, 0o, 0b, or 0 alone for octal.
static int read_base(const char **p)
{
    if ((*p)[0] != '0' || (*p)[1] == 0)
        return 10;
    char letter = (*p)[1] | 0x20;
    *p += letter == 'x' || letter == 'o' || letter == 'b' ? 2 : 1;
    return letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
}

// False: not an integer at all. One beyond 64 bits is SCALAR_HUGE.
static bool resolve_integer(const char *p, struct yaml_scalar *ret)
{
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    int base = read_base(&p);
    if (*p == 0)
        return false;
    uint64_t v = 0;
    bool huge = false;
    for (; *p != 0; p++) {
        int digit = digit_value(*p);
        if (digit >= base)
            return false;
        huge |=
            __builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, (uint64_t)digit, &v);
    }
    if (huge || (negative && v > (uint64_t)INT64_MAX + 1))
        *ret = (struct yaml_scalar){.type = SCALAR_HUGE};
    else if (negative || v <= INT64_MAX)
        *ret = (struct yaml_scalar){.type = SCALAR_INT, .value.i = (int64_t)(negative ? -v : v)};
    else
        *ret = (struct yaml_scalar){.type = SCALAR_UINT, .value.u = v};
    return true;
}

static const char *skip_digits(const char *p)
{
    while (is_digit(*p))
        p++;
    return p;
}

// Decimal only; one beyond a double's range is a string to the Go reader, too.
static bool resolve_float(const char *text, struct yaml_scalar *ret)
{
    const char *p = text;
    if (*p == '-' || *p == '+')
        p++;
    const char *whole = p;
    p = skip_digits(p);
    bool digits = p > whole;
    if (*p == '.') {
        const char *fraction = ++p;
        p = skip_digits(p);
        digits |= p > fraction;
    }
    if (!digits)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '-' || *p == '+')
            p++;
        const char *exponent = p;
        p = skip_digits(p);
        if (p == exponent)
            return false;
    }
    double d = strtod(text, NULL);
    if (*p != 0 || !isfinite(d))
        return false;
    *ret = (struct yaml_scalar){.type = SCALAR_FLOAT, .value.d = d};
    return true;
}

struct yaml_scalar yaml_scalar_resolve(const char *text, size_t n)
{
    struct yaml_scalar result = {.type = SCALAR_STRING};
    if (n <= WORD_MAX && memchr(text, 0, n) == NULL) {
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            if (strcmp(words[i].text, text) == 0)
                return words[i].meaning;
        }
    }
    char first = n > 0 ? text[0] : 'x';
    char plain[512]; // without underscores; a longer number is nobody's number
    if ((!is_digit(first) && first != '+' && first != '-' && first != '.') || n >= sizeof(plain))
        return result;
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == 0)
            return result;
        if (text[i] != '_' || first == '.')
            plain[len++] = text[i];
    }
    plain[len] = 0;
    bool integer = first != '.' && resolve_integer(plain, &result);
    if (integer && result.type != SCALAR_HUGE)
        return result;
    resolve_float(plain, &result); // also decimal integers beyond 64 bits
    return result;
}
