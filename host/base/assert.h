// ASSERT: our own bugs, always on. DASSERT: the same in debug builds only. Never for input.
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

void assert_fail(const char *what, const char *file, int line, const char *func)
    __attribute__((noreturn, cold));

#define ASSERT(x) ((x) ? (void)0 : assert_fail(#x, __FILE__, __LINE__, __func__))
#ifdef NDEBUG
#define DASSERT(x) ((void)sizeof(x))
#else
#define DASSERT(x) ASSERT(x)
#endif

#endif
