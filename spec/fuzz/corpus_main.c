// Runs a fuzzer's entry over the files of a folder, without libFuzzer: what a corpus has found stays mended.
//   NAME_corpus DIR
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/alloc.h"
#include "base/buf.h"

enum { INPUT_MAX = 16 << 20 };

static void run_file(const char *path)
{
    struct buf b;
    char part[4096];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    buf_init(&b, INPUT_MAX);
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        buf_add(&b, part, n);
    fclose(f);
    // An exact copy, so that a sanitizer sees a read behind the end.
    uint8_t *exact = malloc(b.len > 0 ? b.len : 1);
    if (exact == NULL)
        exit(1);
    if (b.len > 0)
        memcpy(exact, b.data, b.len);
    LLVMFuzzerTestOneInput(exact, b.len);
    free(exact);
    buf_fini(&b);
}

int main(int argc, char **argv)
{
    int count = 0;
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    if (d == NULL) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        char *path = xasprintf("%s/%s", argv[1], entry->d_name);
        fprintf(stderr, "%s\n", path); // the last one is the culprit
        run_file(path);
        free(path);
        count++;
    }
    closedir(d);
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 1;
}
