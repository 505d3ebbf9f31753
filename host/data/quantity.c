#include "data/quantity.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum format { DECIMAL_SI, DECIMAL_EXPONENT, BINARY_SI };

enum {
    DIGITS_MAX = 2 * QUANTITY_TEXT_MAX, // 63 digits times 2^60, and a carry
    NANO = -9,
    MILLI = -3,
    FAST_DIGITS = 18, // more do not fit the server's int64 form
};

// sign * digits * 10^exp, where digits has neither leading nor trailing zeros; zero has no digits.
struct amount {
    bool negative;
    enum format format;
    unsigned char digits[DIGITS_MAX]; // most significant first
    int count;
    int64_t exp;
    bool is_kept;       // the server keeps the text as it is
    int64_t fast_scale; // of its int64 form; INT64_MIN: it has none
};

// The pieces of a text.
struct parts {
    bool negative;
    const char *text; // trimmed
    int text_len;
    const char *whole; // without leading zeros
    int whole_len;
    const char *fraction;
    int fraction_len;
    enum format format;
    int64_t exponent; // of 10, or of 2
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool parse_suffix(const char *s, int n, struct parts *p)
{
    static const struct {
        const char *name;
        enum format format;
        int exponent;
    } suffixes[] = {
        {"", DECIMAL_SI, 0},   {"n", DECIMAL_SI, -9}, {"u", DECIMAL_SI, -6}, {"m", DECIMAL_SI, -3},
        {"k", DECIMAL_SI, 3},  {"M", DECIMAL_SI, 6},  {"G", DECIMAL_SI, 9},  {"T", DECIMAL_SI, 12},
        {"P", DECIMAL_SI, 15}, {"E", DECIMAL_SI, 18}, {"Ki", BINARY_SI, 10}, {"Mi", BINARY_SI, 20},
        {"Gi", BINARY_SI, 30}, {"Ti", BINARY_SI, 40}, {"Pi", BINARY_SI, 50}, {"Ei", BINARY_SI, 60},
    };
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if ((int)strlen(suffixes[i].name) == n && memcmp(suffixes[i].name, s, (size_t)n) == 0) {
            p->format = suffixes[i].format;
            p->exponent = suffixes[i].exponent;
            return true;
        }
    }
    if (n < 2 || (*s != 'e' && *s != 'E'))
        return false;
    bool negative = s[1] == '-';
    int at = s[1] == '-' || s[1] == '+' ? 2 : 1;
    int64_t exponent = 0;
    if (at == n)
        return false;
    for (; at < n; at++) {
        if (!is_digit(s[at]))
            return false;
        exponent = exponent * 10 + (s[at] - '0');
        if (exponent > INT32_MAX)
            return false;
    }
    p->format = DECIMAL_EXPONENT;
    p->exponent = negative ? -exponent : exponent;
    return true;
}

static bool parse_parts(const char *text, struct parts *p)
{
    while (is_blank(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && is_blank(text[n - 1]))
        n--;
    if (n >= QUANTITY_TEXT_MAX)
        return false;
    const char *end = text + n;
    *p = (struct parts){.text = text, .text_len = (int)n};
    p->negative = *text == '-';
    const char *s = *text == '-' || *text == '+' ? text + 1 : text;
    const char *digits = s;
    while (s < end && *s == '0')
        s++;
    p->whole = s;
    while (s < end && is_digit(*s))
        s++;
    p->whole_len = (int)(s - p->whole);
    bool any = s > digits;
    if (s < end && *s == '.') {
        p->fraction = ++s;
        while (s < end && is_digit(*s))
            s++;
        p->fraction_len = (int)(s - p->fraction);
        any |= p->fraction_len > 0;
    }
    return any && parse_suffix(s, (int)(end - s), p);
}

// ---- arithmetic ----

static void trim(struct amount *a)
{
    int zeros = 0;
    while (zeros < a->count && a->digits[zeros] == 0)
        zeros++;
    memmove(a->digits, a->digits + zeros, (size_t)(a->count - zeros));
    a->count -= zeros;
    while (a->count > 0 && a->digits[a->count - 1] == 0) {
        a->count--;
        a->exp++;
    }
    if (a->count == 0)
        a->exp = 0;
}

static void multiply(struct amount *a, unsigned factor)
{
    unsigned carry = 0;
    for (int i = a->count - 1; i >= 0; i--) {
        carry += a->digits[i] * factor;
        a->digits[i] = (unsigned char)(carry % 10);
        carry /= 10;
    }
    while (carry > 0) {
        ASSERT(a->count < DIGITS_MAX);
        memmove(a->digits + 1, a->digits, (size_t)a->count);
        a->digits[0] = (unsigned char)(carry % 10);
        a->count++;
        carry /= 10;
    }
}

// To a multiple of 10^scale, away from zero.
static void round_up(struct amount *a, int scale)
{
    if (a->count == 0 || a->exp >= scale)
        return;
    int64_t drop = scale - a->exp;
    a->count = drop < a->count ? a->count - (int)drop : 0;
    a->exp = scale;
    int i = a->count - 1; // there are no trailing zeros, so something was dropped
    while (i >= 0 && a->digits[i] == 9)
        a->digits[i--] = 0;
    if (i >= 0) {
        a->digits[i]++;
    } else {
        memmove(a->digits + 1, a->digits, (size_t)a->count);
        a->digits[0] = 1;
        a->count++;
    }
    trim(a);
}

// Place of the first digit: the value is below 10^place.
static int64_t place(const struct amount *a)
{
    return a->count + a->exp;
}

static int compare_magnitude(const struct amount *a, const struct amount *b)
{
    if (a->count == 0 || b->count == 0)
        return (a->count > 0) - (b->count > 0);
    if (place(a) != place(b))
        return place(a) < place(b) ? -1 : 1;
    int n = a->count < b->count ? a->count : b->count;
    int r = memcmp(a->digits, b->digits, (size_t)n);
    return r != 0 ? (r < 0 ? -1 : 1) : (a->count > b->count) - (a->count < b->count);
}

static struct amount from_uint(uint64_t v)
{
    char text[24];
    struct amount a = {.count = snprintf(text, sizeof(text), "%llu", (unsigned long long)v)};
    for (int i = 0; i < a.count; i++)
        a.digits[i] = (unsigned char)(text[i] - '0');
    trim(&a);
    return a;
}

// ---- reading ----

// Does the server hold it as an int64 with a scale, and is the text near enough to its own spelling to be
// kept?
static void find_fast_form(const struct parts *p, struct amount *a)
{
    int whole_len = p->whole_len > 0 ? p->whole_len : 1; // "0"
    int64_t scale = p->format == BINARY_SI ? 0 : p->exponent;
    int64_t precision = FAST_DIGITS - (whole_len + p->fraction_len);
    if (p->format == BINARY_SI)
        precision = p->fraction_len > 0 ? -1 : 14 - whole_len - p->exponent * 3 / 10;
    scale -= p->fraction_len;
    a->fast_scale = INT64_MIN;
    if (precision < 0 || scale < NANO)
        return;
    a->fast_scale = scale;
    char shifted[FAST_DIGITS + 1];
    int n = snprintf(shifted, sizeof(shifted), "%.*s%.*s", whole_len, p->whole_len > 0 ? p->whole : "0",
                     p->fraction_len, p->fraction_len > 0 ? p->fraction : "");
    if (p->format == BINARY_SI)
        a->is_kept = strtoll(shifted, NULL, 10) % 8 != 0;
    else
        a->is_kept = scale % 3 == 0 && shifted[0] != '0' && (n < 3 || strcmp(shifted + n - 3, "000") != 0);
}

static bool parse(const char *text, struct parts *p, struct amount *a)
{
    if (!parse_parts(text, p))
        return false;
    *a = (struct amount){.negative = p->negative, .format = p->format};
    for (int i = 0; i < p->whole_len; i++)
        a->digits[a->count++] = (unsigned char)(p->whole[i] - '0');
    for (int i = 0; i < p->fraction_len; i++)
        a->digits[a->count++] = (unsigned char)(p->fraction[i] - '0');
    a->exp = -p->fraction_len;
    if (p->format != BINARY_SI)
        a->exp += p->exponent;
    for (int64_t i = 0; p->format == BINARY_SI && i < p->exponent; i += 10)
        multiply(a, 1024);
    trim(a);
    find_fast_form(p, a);
    round_up(a, NANO);
    struct amount max = from_uint(INT64_MAX);
    if (a->format == BINARY_SI && compare_magnitude(a, &max) > 0) {
        memcpy(a->digits, max.digits, (size_t)max.count);
        a->count = max.count;
        a->exp = max.exp;
    }
    if (a->format == BINARY_SI && place(a) <= 0) // below 1
        a->format = DECIMAL_SI;
    return true;
}

bool quantity_valid(const char *text)
{
    struct parts p;
    struct amount a;
    return parse(text, &p, &a);
}

int quantity_compare(const char *a, const char *b)
{
    struct parts p;
    struct amount x, y;
    bool valid = parse(a, &p, &x) && parse(b, &p, &y);
    ASSERT(valid);
    bool x_negative = x.negative && x.count > 0;
    bool y_negative = y.negative && y.count > 0;
    if (x_negative != y_negative)
        return x_negative ? -1 : 1;
    int r = compare_magnitude(&x, &y);
    return x_negative ? -r : r;
}

// ---- writing ----

// Whole and below 2^63, or false.
static bool to_uint(const struct amount *a, uint64_t *ret)
{
    struct amount max = from_uint(INT64_MAX);
    if (a->exp < 0 || compare_magnitude(a, &max) > 0)
        return false;
    uint64_t v = 0;
    for (int i = 0; i < a->count; i++)
        v = v * 10 + a->digits[i];
    for (int64_t i = 0; i < a->exp; i++)
        v *= 10;
    *ret = v;
    return true;
}

void quantity_format(char out[QUANTITY_TEXT_MAX], uint64_t n)
{
    static const char *const suffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    int i = 0;
    for (; n > 0 && n % 1024 == 0 && i < 6; i++)
        n /= 1024;
    snprintf(out, QUANTITY_TEXT_MAX, "%llu%s", (unsigned long long)n, suffixes[i]);
}

static bool print_binary(const struct amount *a, char out[QUANTITY_TEXT_MAX])
{
    uint64_t v;
    if (!to_uint(a, &v) || v < 1024)
        return false;
    char text[QUANTITY_TEXT_MAX];
    quantity_format(text, v);
    snprintf(out, QUANTITY_TEXT_MAX, "%s%.32s", a->negative ? "-" : "", text);
    return true;
}

// Digits and a power of 1000. False: longer than the room.
static bool print_decimal(const struct amount *a, char out[QUANTITY_TEXT_MAX])
{
    static const char suffixes[] = "num kMGTPE"; // from 10^-9
    int zeros = (int)(((a->exp % 3) + 3) % 3);
    int64_t exp = a->exp - zeros;
    char suffix[24] = "";
    if (exp != 0 && a->format != DECIMAL_EXPONENT && exp <= 18)
        snprintf(suffix, sizeof(suffix), "%c", suffixes[(exp + 9) / 3]);
    else if (exp != 0)
        snprintf(suffix, sizeof(suffix), "e%lld", (long long)exp);
    if ((size_t)a->negative + (size_t)a->count + (size_t)zeros + strlen(suffix) >= QUANTITY_TEXT_MAX)
        return false;
    char *p = out;
    if (a->negative)
        *p++ = '-';
    for (int i = 0; i < a->count; i++)
        *p++ = (char)('0' + a->digits[i]);
    for (int i = 0; i < zeros; i++)
        *p++ = '0';
    strcpy(p, suffix);
    return true;
}

static int canonical(const char *text, bool milli, char out[QUANTITY_TEXT_MAX], struct err *e)
{
    struct parts p;
    struct amount a;
    if (!parse(text, &p, &a))
        return err_set(
            e, ERR_PARSE,
            "\"%.80s\" is not a quantity: write a number with a suffix (n, u, m, k, M, G, T, P, E, Ki, Mi, "
            "Gi, Ti, Pi, Ei) or an exponent (e3), without blanks in it",
            text);
    if (a.is_kept && (!milli || a.fast_scale >= MILLI)) {
        memcpy(out, p.text, (size_t)p.text_len);
        out[p.text_len] = 0;
        return 0;
    }
    if (milli)
        round_up(&a, MILLI);
    if (a.count == 0) {
        strcpy(out, "0");
        return 0;
    }
    if (a.format == BINARY_SI && print_binary(&a, out))
        return 0;
    if (!print_decimal(&a, out))
        return err_set(e, ERR_PARSE, "\"%.80s\" is too long for a quantity", text);
    return 0;
}

int quantity_canonical(const char *text, char out[QUANTITY_TEXT_MAX], struct err *e)
{
    return canonical(text, false, out, e);
}

int quantity_whole(const char *text, uint64_t *ret)
{
    struct parts p;
    struct amount a;
    return parse(text, &p, &a) && (!a.negative || a.count == 0) && to_uint(&a, ret) ? 0 : -ERR_PARSE;
}

int quantity_canonical_milli(const char *text, char out[QUANTITY_TEXT_MAX], struct err *e)
{
    return canonical(text, true, out, e);
}
