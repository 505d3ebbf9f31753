// Bearer tokens as they come out of files and kubeconfigs. Any thread; token_read reads a file (see
// kube/files.h).
#ifndef KUBE_TOKEN_H
#define KUBE_TOKEN_H

#include "base/err.h"

// Trims white space in place. 0, or -ERR_INVALID when nothing is left or it can not stand in a header; the
// text never shows the token.
int token_clean(char *token, struct err *e);
// The cleaned token of a file; *ret: free().
int token_read(const char *path, char **ret, struct err *e);

#endif
