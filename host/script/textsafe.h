// Text of a script on its way into an error: valid UTF-8 without NUL, cut between characters. Any thread.
#ifndef SCRIPT_TEXTSAFE_H
#define SCRIPT_TEXTSAFE_H

#include <stddef.h>

#include "base/err.h"

// Copies n bytes; what is no UTF-8, and NUL, becomes U+FFFD. out is NUL-terminated; returns its length.
size_t textsafe_copy(char *out, size_t cap, const char *text, size_t n);
// A long text loses its middle.
void textsafe_err(struct err *e, enum err_code code, const char *text, size_t n);

#endif
