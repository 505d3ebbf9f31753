#include "kube/identity.h"

const struct identity identity_host = {.user = NULL};
