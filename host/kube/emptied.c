#include "kube/emptied.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/fields.h"
#include "kube/fields_items.h"

// The same place in all that is compared.
struct spot {
    const json *owned;   // by us
    const json *desired; // NULL: it is not
    const json *live;
    const json **others; // the sets of all others here; NULL where one owns nothing here
};

struct finder {
    struct json_writer w;
    struct buf pointer; // JSON pointer of the spot
    size_t others;      // how many there are
    size_t found;
};

// Does everything in it go? Containers that are left empty on the way are written.
static bool goes(struct finder *f, const struct spot *at);

static bool others_have(const struct finder *f, const struct spot *at)
{
    for (size_t i = 0; i < f->others; i++)
        if (at->others[i] != NULL)
            return true;
    return false;
}

// "~" and "/" have a meaning in pointers.
static size_t step_down(struct finder *f, const char *name, size_t n)
{
    size_t before = f->pointer.len;
    buf_add(&f->pointer, "/", 1);
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '~' || name[i] == '/')
            buf_add_str(&f->pointer, name[i] == '~' ? "~0" : "~1");
        else
            buf_add(&f->pointer, name + i, 1);
    }
    return before;
}

static void step_up(struct finder *f, size_t before)
{
    f->pointer.len = before;
    if (f->pointer.data != NULL)
        f->pointer.data[before] = '\0';
}

static void write_emptied(struct finder *f, const struct spot *at)
{
    f->found++;
    jw_object(&f->w);
    jw_member_str(&f->w, "op", "replace");
    jw_member_str(&f->w, "path", f->pointer.data);
    jw_key(&f->w, "value");
    if (json_is_array(at->live)) {
        jw_array(&f->w);
        jw_array_end(&f->w);
    } else {
        jw_object(&f->w);
        jw_object_end(&f->w);
    }
    jw_object_end(&f->w);
}

// `key`, n bytes, is the member's in the sets.
static bool member_goes(struct finder *f, const struct spot *at, const char *key, size_t n,
                        const json *desired, const json *live)
{
    const json *owned = json_getn(at->owned, key, n);
    if (owned == NULL)
        return false;
    const json **others = xcalloc(f->others + 1, sizeof *others);
    for (size_t i = 0; i < f->others; i++)
        others[i] = at->others[i] == NULL ? NULL : json_getn(at->others[i], key, n);
    bool gone = goes(f, &(struct spot){owned, desired, live, others});
    free(others);
    return gone;
}

static bool map_goes(struct finder *f, const struct spot *at)
{
    struct buf name; // "f:name"
    bool all = true;
    buf_init(&name, SIZE_MAX / 2); // as long as a name that was read
    for (struct json_iter i = json_iter(at->live); json_next(&i);) {
        buf_reset(&name);
        buf_add_str(&name, "f:");
        buf_add(&name, i.key, i.key_len);
        size_t before = step_down(f, i.key, i.key_len);
        all &= member_goes(f, at, name.data, name.len, json_getn(at->desired, i.key, i.key_len), i.value);
        step_up(f, before);
    }
    buf_fini(&name);
    return all;
}

static bool list_goes(struct finder *f, const struct spot *at)
{
    struct fields_items items;
    size_t ignored, gone = 0;
    fields_items_init(&items, at->owned);
    const json **there = xcalloc(items.count + 1, sizeof *there),
               **wanted = xcalloc(items.count + 1, sizeof *wanted);
    (void)fields_items_match(&items, at->live, NULL, there, &ignored);
    (void)fields_items_match(&items, at->desired, NULL, wanted, &ignored);
    for (struct json_iter i = json_iter(at->live); json_next(&i);) {
        size_t k = 0;
        char index[24];
        while (k < items.count && there[k] != i.value)
            k++;
        if (k == items.count)
            continue;
        size_t before = step_down(f, index, (size_t)snprintf(index, sizeof index, "%zu", i.index));
        gone += member_goes(f, at, items.items[k].text, strlen(items.items[k].text), wanted[k], i.value);
        step_up(f, before);
    }
    free(there);
    free(wanted);
    fields_items_fini(&items);
    return gone == json_count(at->live);
}

static bool goes(struct finder *f, const struct spot *at)
{
    bool is_map = json_is_object(at->live), stays = at->desired != NULL || others_have(f, at);
    if (!stays && json_get(at->owned, ".") != NULL)
        return true; // it goes as a whole, with what the server put into it
    bool has_parts = (is_map || json_is_array(at->live)) && json_count(at->live) > 0 &&
                     json_count(at->owned) > 0; // otherwise it is owned as a whole
    if (!has_parts)
        return !stays;
    bool all = is_map ? map_goes(f, at) : list_goes(f, at);
    if (all && stays)
        write_emptied(f, at);
    return all && !stays;
}

static size_t sets_of_others(const json *entries, const json *ours, const json **ret)
{
    size_t n = 0;
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        const json *set = json_get(i.value, "fieldsV1");
        if (set != NULL && set != ours)
            ret[n++] = set;
    }
    return n;
}

static void write_precondition(struct json_writer *w, const json *object)
{
    jw_object(w);
    jw_member_str(w, "op", "replace");
    jw_member_str(w, "path", "/metadata/resourceVersion");
    jw_member(w, "value", json_path(object, "metadata", "resourceVersion", NULL));
    jw_object_end(w);
}

bool emptied_write_patch(const json *object, const char *manager, const char *subresource,
                         const json *desired, struct buf *out)
{
    struct finder f = {.found = 0};
    const json *entries = json_path(object, "metadata", "managedFields", NULL);
    const json *owned = fields_of_manager(entries, manager, subresource);
    const json **others = xcalloc(json_count(entries) + 1, sizeof *others);
    f.others = sets_of_others(entries, owned, others);
    buf_init(&f.pointer, 1 << 20);
    jw_init(&f.w, out);
    jw_array(&f.w);
    write_precondition(&f.w, object);
    if (owned != NULL)
        (void)goes(&f, &(struct spot){owned, desired, object, others});
    jw_array_end(&f.w);
    bool ok = f.found > 0 && !f.pointer.failed && !f.w.failed && !out->failed;
    buf_fini(&f.pointer);
    free(others);
    return ok;
}
