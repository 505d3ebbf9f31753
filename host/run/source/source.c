#include "run/source/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/strset.h"
#include "data/digest.h"
#include "run/source/marks.h"

enum { TEXT_MAX = 2 << 20 }; // a ConfigMap holds 1 MiB

void source_bundle_free(struct source_bundle *b)
{
    if (b == NULL)
        return;
    for (size_t i = 0; i < b->count; i++) {
        free(b->files[i].name);
        free(b->files[i].text);
    }
    free(b->files);
    free(b->origin);
    free(b->ns);
    free(b->retry);
    object_unref(b->about);
    free(b);
}

struct source_file *source_bundle_add(struct source_bundle *b, const char *name, const char *text, size_t len)
{
    b->files = xreallocarray(b->files, b->count + 1, sizeof b->files[0]);
    struct source_file *f = &b->files[b->count++];
    *f = (struct source_file){xstrdup(name), xmemdup(text, len), len};
    return f;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct source_file *)a)->name, ((const struct source_file *)b)->name);
}

void source_bundle_sort(struct source_bundle *b)
{
    if (b->count > 1)
        qsort(b->files, b->count, sizeof b->files[0], by_name);
}

bool source_is_lua(const char *name)
{
    return str_has_suffix(name, ".lua");
}

bool source_is_spec(const char *name)
{
    return str_has_suffix(name, "_spec.lua");
}

static int add_binary(struct source_bundle *b, const char *name, const json *value, struct err *e)
{
    struct buf text;
    buf_init(&text, TEXT_MAX);
    int r = base64_decode(json_str(value), json_str_len(value), &text, e);
    if (r == 0)
        source_bundle_add(b, name, text.data == NULL ? "" : text.data, text.len);
    buf_fini(&text);
    return r;
}

static int add_keys(struct source_bundle *b, const json *config_map, struct err *e)
{
    for (struct json_iter i = json_iter(json_get(config_map, "data")); json_next(&i);)
        if (json_is_string(i.value))
            source_bundle_add(b, i.key, json_str(i.value), json_str_len(i.value));
    int r = 0;
    for (struct json_iter i = json_iter(json_get(config_map, "binaryData")); r == 0 && json_next(&i);)
        if (json_is_string(i.value))
            r = add_binary(b, i.key, i.value, e);
    return r;
}

int source_from_config_map(struct object *config_map, struct source_bundle **ret, struct err *e)
{
    struct source_bundle *b = xcalloc(1, sizeof *b);
    struct json_doc *doc = object_parse(config_map);
    const json *metadata = json_get(json_root(doc), "metadata");
    const char *created = json_get_str(metadata, "creationTimestamp");
    const char *paused = json_str(json_path(metadata, "annotations", MARKS_ANNOTATION_PAUSED, NULL));
    b->origin = xasprintf("ConfigMap %s/%s", object_namespace(config_map), object_name(config_map));
    b->ns = xstrdup(object_namespace(config_map));
    b->about = object_ref(config_map);
    const char *retry = json_str(json_path(metadata, "annotations", MARKS_ANNOTATION_RETRY, NULL));
    b->retry = xstrdup(retry);
    b->paused = paused != NULL && strcmp(paused, "true") == 0;
    if (created != NULL)
        (void)clock_parse_time(created, &b->created_us);
    int r = add_keys(b, json_root(doc), e);
    json_doc_free(doc);
    if (r < 0) {
        source_bundle_free(b);
        return r;
    }
    source_bundle_sort(b);
    *ret = b;
    return 0;
}
