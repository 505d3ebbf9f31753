#include "kube/token.h"

#include <stdlib.h>
#include <string.h>

#include "kube/files.h"

int token_clean(char *token, struct err *e)
{
    char *start = token + strspn(token, " \t\r\n");
    size_t n = strlen(start);
    while (n > 0 && strchr(" \t\r\n", start[n - 1]) != NULL)
        n--;
    memmove(token, start, n);
    token[n] = '\0';
    if (n == 0)
        return err_set(e, ERR_INVALID, "the token is empty");
    for (size_t i = 0; i < n; i++) // it goes into a header
        if (token[i] <= ' ' || token[i] >= 0x7f)
            return err_set(e, ERR_INVALID, "the token holds a blank or another character that no token has");
    return 0;
}

int token_read(const char *path, char **ret, struct err *e)
{
    char *text;
    int rc = files_read(path, &text, NULL, e);
    if (rc < 0)
        return rc;
    rc = token_clean(text, e);
    if (rc < 0) {
        free(text);
        return err_prefix(e, "%s", path);
    }
    *ret = text;
    return 0;
}
