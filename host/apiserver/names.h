// Names of objects: which are legal, and making them up.
#ifndef APISERVER_NAMES_H
#define APISERVER_NAMES_H

#include <stdbool.h>

#include "apiserver/arena.h"
#include "base/random.h"

// NULL, or what is wrong with it in the server's words. `label`: a DNS label (63), else a DNS subdomain
// (253).
const char *names_check(struct arena *a, const char *name, bool label);
const char *names_generate(struct arena *a, struct random *r, const char *prefix);

#endif
