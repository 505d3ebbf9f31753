#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

enum { US_PER_S = 1000000 };

struct clock {
    bool is_virtual;
    int64_t wall_start_us;
    _Atomic uint64_t mono_us;
};

static struct clock real;

struct clock *clock_real(void)
{
    return &real;
}

struct clock *clock_virtual_new(int64_t wall_ms)
{
    struct clock *c = xcalloc(1, sizeof(*c));
    c->is_virtual = true;
    c->wall_start_us = wall_ms * 1000;
    return c;
}

void clock_free(struct clock *c)
{
    if (c != &real)
        free(c);
}

bool clock_is_virtual(const struct clock *c)
{
    return c->is_virtual;
}

static uint64_t read_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_now_us(const struct clock *c)
{
    return c->is_virtual ? atomic_load(&c->mono_us) : read_us(CLOCK_MONOTONIC);
}

uint64_t clock_thread_cpu_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_now_ms(const struct clock *c)
{
    return clock_now_us(c) / 1000;
}

int64_t clock_wall_us(const struct clock *c)
{
    return c->is_virtual ? c->wall_start_us + (int64_t)atomic_load(&c->mono_us)
                         : (int64_t)read_us(CLOCK_REALTIME);
}

void clock_advance_to(struct clock *c, uint64_t mono_ms)
{
    ASSERT(c->is_virtual);
    if (mono_ms * 1000 > atomic_load(&c->mono_us))
        atomic_store(&c->mono_us, mono_ms * 1000);
}

// Days since 1970-01-01 of a date of the Gregorian calendar, counted in years that begin in March, so that
// the leap day is the last one. Years from 0 on.
static int64_t days_of_date(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t since_march = (month + 9) % 12;
    int64_t leaps = y >= 0 ? y / 4 - y / 100 + y / 400 : -1; // the same sum with division rounding down
    return y * 365 + leaps + (153 * since_march + 2) / 5 + day - 1 - 719468;
}

static void date_of_days(int64_t days, int *year, int *month, int *day)
{
    // Guess by the mean length of a year, then mend by at most one.
    int y = (int)((days + 719528) * 400 / 146097);
    while (days_of_date(y, 1, 1) > days)
        y--;
    while (days_of_date(y + 1, 1, 1) <= days)
        y++;
    int m = 1;
    while (m < 12 && days_of_date(y, m + 1, 1) <= days)
        m++;
    *year = y;
    *month = m;
    *day = (int)(days - days_of_date(y, m, 1)) + 1;
}

// Text without fraction and 'Z'; returns the microseconds of the second.
static int format_seconds(char out[CLOCK_TEXT_MAX], int64_t wall_us)
{
    const int64_t first = days_of_date(0, 1, 1) * 86400 * US_PER_S;
    const int64_t last = (days_of_date(9999, 12, 31) + 1) * 86400 * US_PER_S - 1;
    wall_us = wall_us < first ? first : wall_us > last ? last : wall_us; // RFC 3339 has four digits a year
    int64_t seconds = wall_us / US_PER_S;
    int64_t rest = wall_us % US_PER_S;
    if (rest < 0) {
        seconds--;
        rest += US_PER_S;
    }
    int64_t days = seconds / 86400;
    int64_t of_day = seconds % 86400;
    if (of_day < 0) {
        days--;
        of_day += 86400;
    }
    int year, month, day;
    date_of_days(days, &year, &month, &day);
    snprintf(out, CLOCK_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d", year, month, day, (int)(of_day / 3600),
             (int)(of_day / 60 % 60), (int)(of_day % 60));
    return (int)rest;
}

void clock_format_time(char out[CLOCK_TEXT_MAX], int64_t wall_us)
{
    format_seconds(out, wall_us);
    strcat(out, "Z");
}

void clock_format_micro_time(char out[CLOCK_TEXT_MAX], int64_t wall_us)
{
    int us = format_seconds(out, wall_us);
    size_t n = strlen(out);
    snprintf(out + n, CLOCK_TEXT_MAX - n, ".%06dZ", us);
}

// Reads exactly n digits and, unless `then` is 0, that character; moves *p. False when they are not there.
static bool read_digits(const char **p, int n, char then, int *ret)
{
    int v = 0;
    for (int i = 0; i < n; i++) {
        char c = (*p)[i];
        if (c < '0' || c > '9')
            return false;
        v = v * 10 + (c - '0');
    }
    *p += n;
    if (then != 0) {
        if (**p != then)
            return false;
        ++*p;
    }
    *ret = v;
    return true;
}

static int days_in_month(int year, int month)
{
    return (int)(month == 12 ? 31 : days_of_date(year, month + 1, 1) - days_of_date(year, month, 1));
}

// ".123" to microseconds; no fraction is 0. False: no digit after the point, or more than nine.
static bool read_fraction(const char **p, int *ret_us)
{
    *ret_us = 0;
    if (**p != '.')
        return true;
    const char *digit = *p + 1;
    int n = 0;
    int us = 0;
    for (; digit[n] >= '0' && digit[n] <= '9'; n++) {
        if (n == 9)
            return false;
        if (n < 6)
            us = us * 10 + (digit[n] - '0');
    }
    for (int i = n; i < 6; i++)
        us *= 10;
    *p = digit + n;
    *ret_us = us;
    return n > 0;
}

// "Z" or "+hh:mm" to the end of the text, in minutes east of UTC.
static bool read_offset(const char *p, int *ret_minutes)
{
    if (strcmp(p, "Z") == 0) {
        *ret_minutes = 0;
        return true;
    }
    char sign = *p;
    if (sign != '+' && sign != '-')
        return false;
    p++;
    int hours, minutes;
    if (!read_digits(&p, 2, ':', &hours) || !read_digits(&p, 2, 0, &minutes) || *p != 0)
        return false;
    if (hours > 23 || minutes > 59)
        return false;
    *ret_minutes = (sign == '-' ? -1 : 1) * (hours * 60 + minutes);
    return true;
}

int clock_parse_time(const char *text, int64_t *ret_wall_us)
{
    const char *p = text;
    int year, month, day, hour, minute, second, us, offset;
    if (!read_digits(&p, 4, '-', &year) || !read_digits(&p, 2, '-', &month) || !read_digits(&p, 2, 'T', &day))
        return -ERR_PARSE;
    if (!read_digits(&p, 2, ':', &hour) || !read_digits(&p, 2, ':', &minute) ||
        !read_digits(&p, 2, 0, &second))
        return -ERR_PARSE;
    if (!read_fraction(&p, &us) || !read_offset(p, &offset))
        return -ERR_PARSE;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return -ERR_PARSE;
    if (hour > 23 || minute > 59 || second > 59)
        return -ERR_PARSE;
    int64_t seconds = days_of_date(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    *ret_wall_us = (seconds - offset * 60) * US_PER_S + us;
    return 0;
}
