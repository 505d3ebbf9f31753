#include "apiserver/names.h"

#include <string.h>

enum { LABEL_MAX = 63, SUBDOMAIN_MAX = 253, SUFFIX_LEN = 5 };

static bool alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Every part between dots begins and ends with a letter or digit.
static bool is_name(const char *s, bool dots)
{
    char before = '.';
    for (; *s != '\0'; before = *s++) {
        bool edge = before == '.' || s[1] == '\0' || s[1] == '.';
        if (*s == '.' ? !dots || !alphanumeric(before) : !alphanumeric(*s) && (*s != '-' || edge))
            return false;
    }
    return alphanumeric(before);
}

const char *names_check(struct arena *a, const char *name, bool label)
{
    size_t max = label ? LABEL_MAX : SUBDOMAIN_MAX;
    if (strlen(name) > max)
        return arena_printf(a, "must be no more than %zu characters", max);
    if (is_name(name, !label))
        return NULL;
    return label ? "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                   "and must start and "
                   "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
                   "validation is "
                   "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                 : "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
                   "or '.', and must "
                   "start and end with an alphanumeric character (e.g. 'example.com', regex used for "
                   "validation is "
                   "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
}

const char *names_generate(struct arena *a, struct random *r, const char *prefix)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    char suffix[SUFFIX_LEN + 1];
    for (int i = 0; i < SUFFIX_LEN; i++)
        suffix[i] = letters[random_below(r, sizeof(letters) - 1)];
    suffix[SUFFIX_LEN] = '\0';
    return arena_printf(a, "%.*s%s", LABEL_MAX - SUFFIX_LEN, prefix, suffix);
}
