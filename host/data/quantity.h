// resource.Quantity (k8s.io/apimachinery/pkg/api/resource): exact comparison of texts such as "1500m", "2Gi",
// "1e3". Any thread.
#ifndef DATA_QUANTITY_H
#define DATA_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { QUANTITY_TEXT_MAX = 64 };

// Is it a quantity the API server would accept (sign, digits, fraction, suffix or exponent; blanks around it
// are passed over)? Longer than QUANTITY_TEXT_MAX - 1 is refused.
bool quantity_valid(const char *text);
// -1, 0, 1 as a < = > b, exact (rounded up to 1n as the server does); both must be valid.
int quantity_compare(const char *a, const char *b);
// The server's canonical spelling ("1000m" -> "1", "2048Mi" -> "2Gi"); 0 or -ERR_PARSE.
// What is canonical enough for the server it keeps as it is: "+1", "1e3", "5.".
int quantity_canonical(const char *text, char out[QUANTITY_TEXT_MAX], struct err *e);
// The same as the server stores it in a list of resources (requests, limits, capacity), which it rounds up to
// 1m.
int quantity_canonical_milli(const char *text, char out[QUANTITY_TEXT_MAX], struct err *e);
// Whole and not negative, such as a number of bytes ("16Mi"); 0 or -ERR_PARSE. And such a number with the
// largest binary suffix that keeps it exact.
int quantity_whole(const char *text, uint64_t *ret);
void quantity_format(char out[QUANTITY_TEXT_MAX], uint64_t n);

#endif
