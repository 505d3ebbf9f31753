// Small text files (kubeconfigs, tokens, certificates), read whole. At start-up or on a helper thread, never
// on a real loop's: a file system may hang.
#ifndef KUBE_FILES_H
#define KUBE_FILES_H

#include <stddef.h>

#include "base/err.h"

enum { FILES_MAX = 8 * 1024 * 1024 };

// 0 and the bytes with a NUL behind (free()); -ERR_NOT_FOUND, -ERR_IO with the path and the reason;
// -ERR_LIMIT beyond FILES_MAX; -ERR_PARSE when it holds a NUL.
int files_read(const char *path, char **ret, size_t *ret_len /* may be NULL */, struct err *e);

#endif
