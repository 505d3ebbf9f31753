// What every cmocka program needs, in the order cmocka.h wants it.
#ifndef SPEC_UNIT_H
#define SPEC_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
