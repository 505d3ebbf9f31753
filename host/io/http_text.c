#include "io/http_text.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"

static const int64_t longest_wait_ms = 3600 * 1000;

static int64_t clamp_wait(int64_t ms)
{
    if (ms < 0)
        return 0;
    return ms < longest_wait_ms ? ms : longest_wait_ms;
}

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static bool is_end(const char *p)
{
    return *skip_blanks(p) == '\0';
}

static int64_t parse_seconds(const char *p)
{
    int64_t seconds = 0;
    for (; isdigit((unsigned char)*p); p++)
        seconds = seconds < longest_wait_ms ? seconds * 10 + (*p - '0') : seconds;
    return is_end(p) ? clamp_wait(seconds * 1000) : -1;
}

// The three forms that RFC 9110 asks a reader to take; always GMT.
static bool parse_date(const char *p, time_t *ret)
{
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %d %H:%M:%S %Y"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tm tm = {0};
        const char *end = strptime(p, forms[i], &tm);
        if (end != NULL && is_end(end)) {
            *ret = timegm(&tm);
            return true;
        }
    }
    return false;
}

int64_t http_text_retry_after_ms(const char *value, int64_t now_wall_us)
{
    if (value == NULL)
        return -1;
    const char *p = skip_blanks(value);
    if (isdigit((unsigned char)*p))
        return parse_seconds(p);
    time_t at;
    if (!parse_date(p, &at))
        return -1;
    return clamp_wait((int64_t)at * 1000 - now_wall_us / 1000);
}

char *http_text_take_warning(const char *value)
{
    if (value == NULL)
        return NULL;
    const char *p = strchr(value, '"');
    if (p == NULL)
        return xstrdup(skip_blanks(value));
    char *text = xmalloc(strlen(p));
    size_t n = 0;
    for (p++; *p != '\0' && *p != '"'; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        text[n++] = *p;
    }
    text[n] = '\0';
    return text;
}

bool http_text_is_header_safe(const char *value)
{
    for (; *value != '\0'; value++) {
        if ((unsigned char)*value < 0x20 || *value == 0x7f)
            return false;
    }
    return true;
}
