#include "kube/identity.h"

#include <stddef.h>

const struct identity identity_host = {.user = NULL};
