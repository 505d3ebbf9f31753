// The seed of a random test: TIDELOCK_SEED, or a new one from the system. It is printed before the run, with
// the command that repeats it, so that it is there whatever the run ends with. Header only.
#ifndef SPEC_SCRIPT_SEED_H
#define SPEC_SCRIPT_SEED_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"

// The number in the environment.
static inline uint64_t seed_setting(const char *name, uint64_t absent)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : absent;
}

static inline uint64_t seed_get(void)
{
    uint32_t fresh;
    random_kernel_bytes(&fresh, sizeof(fresh));
    return seed_setting("TIDELOCK_SEED", fresh);
}

// This program, for a command that a person can repeat.
static inline const char *seed_program(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    return n > 0 ? path : "this test";
}

// `what`: the variable that says how many, with that number, or NULL.
static inline void seed_announce(uint64_t seed, const char *what, uint64_t count)
{
    char more[64] = "";
    if (what != NULL)
        snprintf(more, sizeof(more), " %s=%llu", what, (unsigned long long)count);
    printf("seed %llu; to repeat: TIDELOCK_SEED=%llu%s %s\n", (unsigned long long)seed,
           (unsigned long long)seed, more, seed_program());
    fflush(stdout);
}

#endif
