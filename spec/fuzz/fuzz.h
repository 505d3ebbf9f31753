// What libFuzzer calls, with the input.
#ifndef SPEC_FUZZ_H
#define SPEC_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#endif
