#include "kube/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

static int read_all(int fd, const char *path, struct buf *b, struct err *e)
{
    for (;;) {
        if (buf_reserve(b, 4096) < 0)
            return err_set(e, ERR_LIMIT, "%s: larger than %d bytes", path, FILES_MAX);
        ssize_t n = read(fd, b->data + b->len, 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        if (n == 0)
            return 0;
        b->len += (size_t)n;
        b->data[b->len] = '\0';
    }
}

int files_read(const char *path, char **ret, size_t *ret_len, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_set(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO, "%s: %s", path,
                       strerror(errno));
    struct buf b;
    buf_init(&b, FILES_MAX + 4096);
    int rc = read_all(fd, path, &b, e);
    close(fd);
    if (rc == 0 && b.len > 0 && memchr(b.data, '\0', b.len) != NULL)
        rc = err_set(e, ERR_PARSE, "%s: not a text file (it holds a NUL byte)", path);
    if (rc == 0)
        *ret = buf_take(&b, ret_len);
    buf_fini(&b);
    return rc;
}
