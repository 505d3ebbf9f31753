// The thread that watches a folder of scripts: it waits for the kernel's word (inotify), looks again after a
// short pause, and posts what changed.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"
#include "io/loop.h"
#include "run/source/source.h"

enum {
    SETTLE_MS = 50,     // editors write in several steps
    LOOK_MS = 2000,     // a file system that tells nothing is looked at this often
    FILE_MAX = 1 << 20, // a ConfigMap could not hold more either
    FILES_MAX = 1000,
};

struct seen { // a bundle that was posted
    char *origin;
    uint64_t signature;
    bool there;
};

struct source_folder {
    struct loop *loop;
    char *path;
    void (*on_bundle)(void *ud, struct source_bundle *b);
    void (*on_gone)(void *ud, const char *origin);
    void *ud;
    pthread_t thread;
    int stop_fd, notify_fd;
    struct seen *seen; // the thread's own
    size_t seen_count;
    unsigned refs; // atomic: the owner, and each message under way
    bool freed;    // loop thread: nothing is told any more
};

struct note {
    struct message message;
    struct source_folder *folder;
    struct source_bundle *bundle;
    char *gone;
};

static void folder_unref(struct source_folder *f)
{
    if (__atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    free(f->path);
    free(f);
}

static void deliver(struct message *m)
{
    struct note *n = (struct note *)m;
    struct source_folder *f = n->folder;
    if (f->freed)
        source_bundle_free(n->bundle);
    else if (n->bundle != NULL)
        f->on_bundle(f->ud, n->bundle);
    else
        f->on_gone(f->ud, n->gone);
    free(n->gone);
    free(n);
    folder_unref(f);
}

static void post(struct source_folder *f, struct source_bundle *bundle, const char *gone)
{
    struct note *n = xcalloc(1, sizeof *n);
    *n = (struct note){{NULL, deliver}, f, bundle, xstrdup(gone)};
    __atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
    loop_post(f->loop, &n->message);
}

// Reads a regular file of at most FILE_MAX bytes; anything else is passed over.
static void read_file(struct source_bundle *b, const char *dir, const char *name)
{
    char *path = xasprintf("%s/%s", dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    free(path);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX) {
        char *text = xmalloc((size_t)st.st_size + 1);
        size_t n = 0;
        ssize_t got;
        while (n < (size_t)st.st_size && (got = read(fd, text + n, (size_t)st.st_size - n)) > 0)
            n += (size_t)got;
        source_bundle_add(b, name, text, n);
        free(text);
    }
    close(fd);
}

static struct source_bundle *read_folder(const char *dir)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return NULL;
    struct source_bundle *b = xcalloc(1, sizeof *b);
    b->origin = xasprintf("folder %s", dir);
    b->ns = xstrdup("-");
    for (struct dirent *e; (e = readdir(d)) != NULL && b->count < FILES_MAX;)
        if (e->d_name[0] != '.')
            read_file(b, dir, e->d_name);
    closedir(d);
    source_bundle_sort(b);
    return b;
}

static uint64_t signature_of(const struct source_bundle *b)
{
    uint64_t h = HASH_FNV_START;
    for (size_t i = 0; i < b->count; i++) {
        h = hash_fnv1a(h, b->files[i].name, strlen(b->files[i].name) + 1);
        h = hash_fnv1a(h, &b->files[i].len, sizeof b->files[i].len);
        h = hash_fnv1a(h, b->files[i].text, b->files[i].len);
    }
    return h;
}

static bool has_lua(const struct source_bundle *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (source_is_lua(b->files[i].name))
            return true;
    return false;
}

static struct seen *find_seen(struct source_folder *f, const char *origin)
{
    for (size_t i = 0; i < f->seen_count; i++)
        if (strcmp(f->seen[i].origin, origin) == 0)
            return &f->seen[i];
    return NULL;
}

static void look_at(struct source_folder *f, const char *dir)
{
    inotify_add_watch(f->notify_fd, dir,
                      IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVE | IN_ATTRIB | IN_DELETE_SELF |
                          IN_ONLYDIR);
    struct source_bundle *b = read_folder(dir);
    if (b == NULL || !has_lua(b)) {
        source_bundle_free(b);
        return;
    }
    uint64_t signature = signature_of(b);
    struct seen *s = find_seen(f, b->origin);
    if (s == NULL) {
        f->seen = xreallocarray(f->seen, f->seen_count + 1, sizeof f->seen[0]);
        s = &f->seen[f->seen_count++];
        *s = (struct seen){.origin = xstrdup(b->origin), .signature = ~signature};
    }
    s->there = true;
    if (s->signature == signature) {
        source_bundle_free(b);
        return;
    }
    s->signature = signature;
    post(f, b, NULL);
}

static void look_below(struct source_folder *f)
{
    DIR *d = opendir(f->path);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        struct stat st;
        char *path = xasprintf("%s/%s", f->path, e->d_name);
        if (e->d_name[0] != '.' && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            look_at(f, path);
        free(path);
    }
    if (d != NULL)
        closedir(d);
}

static void look(struct source_folder *f)
{
    for (size_t i = 0; i < f->seen_count; i++)
        f->seen[i].there = false;
    look_at(f, f->path);
    look_below(f);
    for (size_t i = 0; i < f->seen_count;) {
        if (f->seen[i].there) {
            i++;
            continue;
        }
        post(f, NULL, f->seen[i].origin);
        free(f->seen[i].origin);
        f->seen[i] = f->seen[--f->seen_count];
    }
}

// Waits for a change or the time to look anyway; false: the end.
static bool wait_for_change(struct source_folder *f)
{
    struct pollfd fds[2] = {{f->stop_fd, POLLIN, 0}, {f->notify_fd, POLLIN, 0}};
    if (poll(fds, 2, LOOK_MS) > 0 && fds[0].revents == 0) {
        char events[4096];
        while (read(f->notify_fd, events, sizeof events) > 0)
            ;
        fds[0].revents = 0;
        poll(fds, 1, SETTLE_MS);
    }
    return fds[0].revents == 0;
}

static void *thread_main(void *ud)
{
    struct source_folder *f = ud;
    do {
        look(f);
    } while (wait_for_change(f));
    return NULL;
}

int source_folder_new(struct loop *l, const char *path, void (*on_bundle)(void *ud, struct source_bundle *b),
                      void (*on_gone)(void *ud, const char *origin), void *ud, struct source_folder **ret,
                      struct err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return err_set(e, ERR_IO, "--scripts %s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_IO, "--scripts %s: not a folder: name the folder that holds the .lua files",
                       path);
    struct source_folder *f = xcalloc(1, sizeof *f);
    *f = (struct source_folder){
        .loop = l, .path = xstrdup(path), .on_bundle = on_bundle, .on_gone = on_gone, .ud = ud, .refs = 1};
    f->stop_fd = eventfd(0, EFD_CLOEXEC);
    f->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ASSERT(f->stop_fd >= 0);
    if (f->notify_fd < 0 || pthread_create(&f->thread, NULL, thread_main, f) != 0) {
        int r = err_set(e, ERR_IO, "--scripts %s: the folder can not be watched: %s", path, strerror(errno));
        close(f->stop_fd);
        if (f->notify_fd >= 0)
            close(f->notify_fd);
        folder_unref(f);
        return r;
    }
    *ret = f;
    return 0;
}

void source_folder_free(struct source_folder *f)
{
    if (f == NULL)
        return;
    uint64_t one = 1;
    ssize_t n = write(f->stop_fd, &one, sizeof one);
    ASSERT(n == sizeof one);
    pthread_join(f->thread, NULL);
    close(f->stop_fd);
    close(f->notify_fd);
    for (size_t i = 0; i < f->seen_count; i++)
        free(f->seen[i].origin);
    free(f->seen);
    f->freed = true;
    folder_unref(f);
}
