// Go's durations: the part of base/clock.h that has nothing to do with a clock.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

static const struct {
    const char *name;
    int64_t ns;
} units[] = {
    {"ns", 1},         {"us", 1000},        {"\u00b5s", 1000},        {"\u03bcs", 1000},
    {"ms", 1000000LL}, {"s", 1000000000LL}, {"m", 60 * 1000000000LL}, {"h", 3600 * 1000000000LL},
};

// The unit that p begins with; the longest wins ("ms" before "m").
static int64_t read_unit(const char **p)
{
    size_t best = 0;
    int64_t ns = 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t n = strlen(units[i].name);
        if (n > best && strncmp(*p, units[i].name, n) == 0) {
            best = n;
            ns = units[i].ns;
        }
    }
    *p += best;
    return ns;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// One "12.5ms"; nanoseconds, truncated.
static int read_part(const char **p, int64_t *ret_ns)
{
    if (!is_digit(**p) && !(**p == '.' && is_digit((*p)[1])))
        return -ERR_PARSE;
    __int128 whole = 0;
    for (; is_digit(**p); ++*p) {
        whole = whole * 10 + (**p - '0');
        if (whole > INT64_MAX)
            return -ERR_PARSE;
    }
    __int128 fraction = 0;
    __int128 scale = 1;
    if (**p == '.') {
        for (++*p; is_digit(**p); ++*p) {
            if (scale < 1000000000000000LL) { // finer digits are far below a nanosecond of any unit
                fraction = fraction * 10 + (**p - '0');
                scale *= 10;
            }
        }
    }
    int64_t unit = read_unit(p);
    if (unit == 0)
        return -ERR_PARSE;
    __int128 ns = whole * unit + fraction * unit / scale;
    if (ns > INT64_MAX)
        return -ERR_PARSE;
    *ret_ns = (int64_t)ns;
    return 0;
}

int duration_parse(const char *text, int64_t *ret_us)
{
    enum { TEXT_MAX = 200 }; // any sense is in less
    if (strnlen(text, TEXT_MAX + 1) > TEXT_MAX)
        return -ERR_PARSE;
    const char *p = text;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (strcmp(p, "0") == 0) {
        *ret_us = 0;
        return 0;
    }
    if (*p == 0)
        return -ERR_PARSE;
    int64_t total = 0;
    while (*p != 0) {
        int64_t part;
        if (read_part(&p, &part) < 0 || __builtin_add_overflow(total, part, &total))
            return -ERR_PARSE;
    }
    *ret_us = (negative ? -total : total) / 1000;
    return 0;
}

// v/scale with the fraction's trailing zeros left out; scale is a power of ten up to 10^6.
static void print_decimal(char out[CLOCK_TEXT_MAX], uint64_t v, uint64_t scale, const char *unit)
{
    size_t n = (size_t)snprintf(out, CLOCK_TEXT_MAX / 2, "%u", (unsigned)(v / scale));
    uint64_t rest = v % scale;
    if (rest > 0)
        out[n++] = '.';
    for (; rest > 0; rest = rest * 10 % scale)
        out[n++] = (char)('0' + rest * 10 / scale);
    strcpy(out + n, unit);
}

void duration_format(char out[CLOCK_TEXT_MAX], int64_t us)
{
    uint64_t v = us < 0 ? -(uint64_t)us : (uint64_t)us;
    size_t n = 0;
    char part[CLOCK_TEXT_MAX];
    if (us < 0)
        out[n++] = '-';
    uint64_t minutes = v / 60000000;
    if (v == 0) {
        strcpy(part, "0s");
    } else if (v < 1000) {
        print_decimal(part, v, 1, "\u00b5s");
    } else if (v < 1000000) {
        print_decimal(part, v, 1000, "ms");
    } else {
        print_decimal(part, v % 60000000, 1000000, "s");
        if (minutes >= 60)
            n += (size_t)snprintf(out + n, CLOCK_TEXT_MAX - n, "%lluh", (unsigned long long)(minutes / 60));
        if (minutes > 0)
            n += (size_t)snprintf(out + n, CLOCK_TEXT_MAX - n, "%llum", (unsigned long long)(minutes % 60));
    }
    snprintf(out + n, CLOCK_TEXT_MAX - n, "%s", part);
}
