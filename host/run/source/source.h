// Where scripts come from: a bundle is the files of one ConfigMap or one folder. A plain value that moves;
// free with source_bundle_free.
#ifndef RUN_SOURCE_SOURCE_H
#define RUN_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/object.h"

struct source_file {
    char *name; // "memcached.lua"
    char *text;
    size_t len;
};

struct source_bundle {
    char *origin; // "ConfigMap tidelock-system/memcached" or "folder /path": identifies the bundle and goes
                  // into messages
    char *ns;     // of the ConfigMap; "-" for folders
    int64_t created_us;   // the older of two with one identity runs; 0 for folders
    struct object *about; // the ConfigMap, for Events (+1 reference), or NULL
    bool paused;
    char *retry;               // value of the annotation by which a person ends a quarantine, or NULL
    struct source_file *files; // sorted by name
    size_t count;
};

void source_bundle_free(struct source_bundle *b);
struct source_file *source_bundle_add(struct source_bundle *b, const char *name, const char *text,
                                      size_t len);
void source_bundle_sort(struct source_bundle *b);
bool source_is_lua(const char *name);  // *.lua
bool source_is_spec(const char *name); // *_spec.lua

// A ConfigMap's keys (data and binaryData). 0, or -ERR_PARSE when binaryData is not base64.
int source_from_config_map(struct object *config_map, struct source_bundle **ret, struct err *e);

// A folder, watched by a thread of its own: its files are one bundle, and those of each folder directly in it
// another. `on_bundle` (takes the bundle) and `on_gone` (origin) are called on the loop. Symlinked entries
// and the atomic ..data swaps of mounted volumes are followed.
struct loop;
struct source_folder;
int source_folder_new(struct loop *l, const char *path, void (*on_bundle)(void *ud, struct source_bundle *b),
                      void (*on_gone)(void *ud, const char *origin), void *ud, struct source_folder **ret,
                      struct err *e);
void source_folder_free(struct source_folder *f);

#endif
