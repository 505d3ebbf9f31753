// Lua 5.1 patterns with bounded work, equal to LuaJIT's otherwise (also in %f, %g and that a pattern ends at
// its first NUL). Allocates nothing, raises nothing; recursion is bounded by PATTERN_DEPTH_MAX.
#ifndef SCRIPT_PATTERN_H
#define SCRIPT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATTERN_CAPTURES_MAX = 32, PATTERN_DEPTH_MAX = 200, PATTERN_STEPS_MAX = 1000000 };

struct pattern_capture {
    const char *start;
    ptrdiff_t len; // or one of:
};
enum { PATTERN_OPEN = -1, PATTERN_POSITION = -2 };

struct pattern {
    const char *subject;
    const char *subject_end;
    uint64_t steps;    // left; shared by all tries of one library call
    const char *error; // NULL, or what is wrong
    int depth;
    int count; // of captures
    struct pattern_capture captures[PATTERN_CAPTURES_MAX];
};

void pattern_init(struct pattern *p, const char *subject, size_t len);
// Does the pattern text (NUL-terminated, without its anchor) match at `at`? The end of the match, or NULL: no
// match or p->error.
const char *pattern_match(struct pattern *p, const char *at, const char *text);
// Does this text have characters with a meaning?
bool pattern_is_plain(const char *text, size_t len);

#endif
