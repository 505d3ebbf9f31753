#include "kube/object.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/object_managed.h"

enum {
    OBJECT_TEXT_MAX = 64 << 20,
    OBJECT_TEXT_USUAL = 2000,
    OBJECT_FIELD_MAX =
        1024, // of a name, UID, label...: API servers allow far less; keys of the indexes rely on it
    OBJECT_ITEMS_MAX = 65535,
};

// One block: the struct, the labels, the owners, the short strings, the text. 32-bit offsets from its start.
struct object {
    atomic_uint refs;
    uint16_t label_count;
    uint16_t owner_count;
    const struct gvk *gvk;
    int64_t generation;
    uint64_t content_hash;
    uint64_t spec_hash;
    struct object_managed *managed;
    uint32_t ns, name, uid, resource_version, json, json_len;
    bool deleting;
    struct object_label labels[];
};

// What object_new found, before the block is made. Borrowed from the node.
struct span {
    const char *s;
    size_t n;
};

struct parts {
    const json *metadata, *labels, *owners;
    struct span ns, name, uid, resource_version;
    size_t label_count, owner_count;
    size_t label_bytes, owner_bytes;
    struct buf text;
};

// ---- reading

static const char *type_of(const json *v)
{
    if (json_is_null(v))
        return v == NULL ? "absent" : "null";
    return json_is_object(v)   ? "an object"
           : json_is_array(v)  ? "an array"
           : json_is_string(v) ? "a string"
           : json_is_number(v) ? "a number"
                               : "a boolean";
}

// A string's bytes; null counts as "". `what` is for the message.
static int read_string(const json *v, const char *what, const char *key, struct span *ret, struct err *e)
{
    if (json_is_null(v)) {
        *ret = (struct span){"", 0};
        return 0;
    }
    if (!json_is_string(v))
        return err_set(e, ERR_INVALID, "%s%.64s is %s instead of a string", what, key, type_of(v));
    size_t n = json_str_len(v);
    if (n > OBJECT_FIELD_MAX)
        return err_set(e, ERR_INVALID, "%s%.64s is longer than %d bytes", what, key, OBJECT_FIELD_MAX);
    if (memchr(json_str(v), 0, n) != NULL)
        return err_set(e, ERR_INVALID, "%s%.64s holds a NUL", what, key);
    *ret = (struct span){json_str(v), n};
    return 0;
}

static int read_member(const json *metadata, const char *key, struct span *ret, struct err *e)
{
    return read_string(json_get(metadata, key), "metadata.", key, ret, e);
}

static int read_labels(struct parts *p, struct err *e)
{
    p->labels = json_get(p->metadata, "labels");
    if (!json_is_null(p->labels) && !json_is_object(p->labels))
        return err_set(e, ERR_INVALID, "metadata.labels is %s instead of an object", type_of(p->labels));
    p->label_count = json_count(p->labels);
    if (p->label_count > OBJECT_ITEMS_MAX)
        return err_set(e, ERR_INVALID, "metadata.labels has more than %d entries", OBJECT_ITEMS_MAX);
    for (struct json_iter i = json_iter(p->labels); json_next(&i);) {
        struct span value;
        int r = read_string(i.value, "metadata.labels: ", i.key, &value, e);
        if (r < 0)
            return r;
        if (i.key_len > OBJECT_FIELD_MAX || memchr(i.key, 0, i.key_len) != NULL)
            return err_set(e, ERR_INVALID, "metadata.labels has a key that is no label key");
        p->label_bytes += i.key_len + value.n + 2;
    }
    return 0;
}

static bool owner_uid(const json *owner, struct span *ret)
{
    return read_string(json_get(owner, "uid"), "", "", ret, NULL) == 0 && ret->n > 0;
}

// Owners without a UID can not be looked up by it: they are left out.
static int read_owners(struct parts *p, struct err *e)
{
    p->owners = json_get(p->metadata, "ownerReferences");
    if (!json_is_null(p->owners) && !json_is_array(p->owners))
        return err_set(e, ERR_INVALID, "metadata.ownerReferences is %s instead of an array",
                       type_of(p->owners));
    for (struct json_iter i = json_iter(p->owners); json_next(&i);) {
        struct span uid;
        if (owner_uid(i.value, &uid)) {
            p->owner_count++;
            p->owner_bytes += uid.n + 1;
        }
    }
    if (p->owner_count > OBJECT_ITEMS_MAX)
        return err_set(e, ERR_INVALID, "metadata.ownerReferences has more than %d entries", OBJECT_ITEMS_MAX);
    return 0;
}

static int read_metadata(const json *node, struct parts *p, struct err *e)
{
    int r;
    if (!json_is_object(node))
        return err_set(e, ERR_INVALID, "not an object but %s", type_of(node));
    p->metadata = json_get(node, "metadata");
    if (!json_is_object(p->metadata))
        return err_set(e, ERR_INVALID, "metadata is %s instead of an object", type_of(p->metadata));
    if ((r = read_member(p->metadata, "name", &p->name, e)) < 0 ||
        (r = read_member(p->metadata, "namespace", &p->ns, e)) < 0 ||
        (r = read_member(p->metadata, "uid", &p->uid, e)) < 0 ||
        (r = read_member(p->metadata, "resourceVersion", &p->resource_version, e)) < 0)
        return r;
    if (p->name.n == 0)
        return err_set(e, ERR_INVALID, "metadata.name is %s",
                       json_get(p->metadata, "name") ? "empty" : "absent");
    if ((r = read_labels(p, e)) < 0)
        return r;
    return read_owners(p, e);
}

// ---- text and hashes

static bool key_is(const struct json_iter *i, const char *key)
{
    return strlen(key) == i->key_len && memcmp(i->key, key, i->key_len) == 0;
}

static void write_metadata(struct json_writer *w, const json *metadata)
{
    jw_object(w);
    for (struct json_iter i = json_iter(metadata); json_next(&i);) {
        if (key_is(&i, "managedFields"))
            continue;
        jw_keyn(w, i.key, i.key_len);
        jw_value(w, i.value);
    }
    jw_object_end(w);
}

static int write_text(const struct gvk *gvk, const json *node, struct buf *out, struct err *e)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", gvk->api_version);
    jw_member_str(&w, "kind", gvk->kind);
    for (struct json_iter i = json_iter(node); json_next(&i);) {
        if (key_is(&i, "apiVersion") || key_is(&i, "kind"))
            continue;
        jw_keyn(&w, i.key, i.key_len);
        if (key_is(&i, "metadata"))
            write_metadata(&w, i.value);
        else
            jw_value(&w, i.value);
    }
    jw_object_end(&w);
    if (w.failed || out->failed)
        return err_set(e, ERR_LIMIT, "the object takes more than %d bytes", OBJECT_TEXT_MAX);
    return 0;
}

// Members are summed, so their order does not matter; hence the mixing.
static uint64_t hash_member(const struct json_iter *i, uint64_t value)
{
    uint64_t h = hash_fnv1a(hash_fnv1a(HASH_FNV_START, i->key, i->key_len), &value, sizeof(value));
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
    return h ^ (h >> 33);
}

static uint64_t hash_metadata(const json *metadata)
{
    uint64_t h = 0;
    for (struct json_iter i = json_iter(metadata); json_next(&i);) {
        if (!key_is(&i, "managedFields") && !key_is(&i, "resourceVersion") && !key_is(&i, "generation"))
            h += hash_member(&i, json_hash(i.value));
    }
    return h;
}

static void hash_node(const json *node, uint64_t *ret_content, uint64_t *ret_spec)
{
    uint64_t spec = 0;
    uint64_t status = 0;
    for (struct json_iter i = json_iter(node); json_next(&i);) {
        if (key_is(&i, "apiVersion") || key_is(&i, "kind"))
            continue;
        bool metadata = key_is(&i, "metadata");
        uint64_t h = hash_member(&i, metadata ? hash_metadata(i.value) : json_hash(i.value));
        if (key_is(&i, "status"))
            status += h;
        else
            spec += h;
    }
    *ret_spec = spec;
    *ret_content = spec + status;
}

// ---- the block

struct packer {
    char *base;
    size_t at;
};

static uint32_t pack(struct packer *p, const char *s, size_t n)
{
    size_t at = p->at;
    memcpy(p->base + at, s, n);
    p->base[at + n] = 0;
    p->at = at + n + 1;
    return (uint32_t)at;
}

static int compare_labels(const void *a, const void *b)
{
    return strcmp(((const struct object_label *)a)->key, ((const struct object_label *)b)->key);
}

static struct object_owner *owners_of(const struct object *o)
{
    return (struct object_owner *)(void *)((char *)o + sizeof(*o) + o->label_count * sizeof(o->labels[0]));
}

static void pack_labels(struct object *o, const struct parts *p, struct packer *out)
{
    size_t n = 0;
    for (struct json_iter i = json_iter(p->labels); json_next(&i);) {
        struct object_label *l = &o->labels[n++];
        l->key = out->base + pack(out, i.key, i.key_len);
        l->value = json_is_null(i.value) ? out->base + pack(out, "", 0)
                                         : out->base + pack(out, json_str(i.value), json_str_len(i.value));
    }
    if (n > 1)
        qsort(o->labels, n, sizeof(o->labels[0]), compare_labels);
}

static void pack_owners(struct object *o, const struct parts *p, struct packer *out)
{
    struct object_owner *owners = owners_of(o);
    size_t n = 0;
    for (struct json_iter i = json_iter(p->owners); json_next(&i);) {
        struct span uid;
        if (!owner_uid(i.value, &uid))
            continue;
        owners[n].uid = out->base + pack(out, uid.s, uid.n);
        owners[n++].controller = json_true(json_get(i.value, "controller"));
    }
}

static struct object *pack_object(const struct gvk *gvk, const struct parts *p)
{
    struct packer out;
    out.at = sizeof(struct object) + p->label_count * sizeof(struct object_label) +
             p->owner_count * sizeof(struct object_owner);
    size_t size = out.at + p->ns.n + p->name.n + p->uid.n + p->resource_version.n + 4 + p->label_bytes +
                  p->owner_bytes + p->text.len + 1;
    struct object *o = xmalloc(size);
    memset(o, 0, sizeof(*o));
    out.base = (char *)o;
    atomic_init(&o->refs, 1);
    o->gvk = gvk;
    o->label_count = (uint16_t)p->label_count;
    o->owner_count = (uint16_t)p->owner_count;
    o->generation = json_get_int(p->metadata, "generation", 0);
    o->deleting = !json_is_null(json_get(p->metadata, "deletionTimestamp"));
    o->ns = pack(&out, p->ns.s, p->ns.n);
    o->name = pack(&out, p->name.s, p->name.n);
    o->uid = pack(&out, p->uid.s, p->uid.n);
    o->resource_version = pack(&out, p->resource_version.s, p->resource_version.n);
    pack_labels(o, p, &out);
    pack_owners(o, p, &out);
    o->json = pack(&out, p->text.data, p->text.len);
    o->json_len = (uint32_t)p->text.len;
    return o;
}

int object_new(const struct gvk *gvk, const json *node, struct object **ret, struct err *e)
{
    struct parts p = {0};
    struct object_managed *managed = NULL;
    int r = read_metadata(node, &p, e);
    if (r < 0)
        return r;
    buf_init(&p.text, OBJECT_TEXT_MAX);
    buf_reserve(&p.text, OBJECT_TEXT_USUAL); // growing in steps costs more
    r = write_text(gvk, node, &p.text, e);
    if (r == 0)
        r = object_managed_intern(json_get(p.metadata, "managedFields"), &managed, e);
    if (r == 0) {
        struct object *o = pack_object(gvk, &p);
        o->managed = managed;
        hash_node(node, &o->content_hash, &o->spec_hash);
        *ret = o;
    }
    buf_fini(&p.text);
    return r;
}

struct object *object_ref(struct object *o)
{
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void object_unref(struct object *o)
{
    if (o == NULL || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
        return;
    object_managed_unref(o->managed);
    free(o);
}

// ---- fields

static const char *at(const struct object *o, uint32_t offset)
{
    return (const char *)o + offset;
}

const struct gvk *object_gvk(const struct object *o)
{
    return o->gvk;
}

const char *object_namespace(const struct object *o)
{
    return at(o, o->ns);
}

const char *object_name(const struct object *o)
{
    return at(o, o->name);
}

const char *object_uid(const struct object *o)
{
    return at(o, o->uid);
}

const char *object_resource_version(const struct object *o)
{
    return at(o, o->resource_version);
}

int64_t object_generation(const struct object *o)
{
    return o->generation;
}

bool object_is_deleting(const struct object *o)
{
    return o->deleting;
}

size_t object_labels(const struct object *o, const struct object_label **ret)
{
    if (ret != NULL)
        *ret = o->labels;
    return o->label_count;
}

const char *object_label(const struct object *o, const char *key)
{
    struct object_label wanted = {key, NULL};
    const struct object_label *l = o->label_count == 0 ? NULL
                                                       : bsearch(&wanted, o->labels, o->label_count,
                                                                 sizeof(o->labels[0]), compare_labels);
    return l != NULL ? l->value : NULL;
}

size_t object_owners(const struct object *o, const struct object_owner **ret)
{
    if (ret != NULL)
        *ret = owners_of(o);
    return o->owner_count;
}

const char *object_json(const struct object *o, size_t *ret_len)
{
    if (ret_len != NULL)
        *ret_len = o->json_len;
    return at(o, o->json);
}

struct json_doc *object_parse(const struct object *o)
{
    struct json_doc *d = NULL;
    int r = json_parse(at(o, o->json), o->json_len, &d, NULL);
    return r == 0 ? d : NULL;
}

const char *object_managed(const struct object *o, size_t *ret_len)
{
    return object_managed_text(o->managed, ret_len);
}

size_t object_managers(const struct object *o, const char *const **ret)
{
    return object_managed_names(o->managed, ret);
}

bool object_has_owner(const struct object *o, const char *uid)
{
    const struct object_owner *owners;
    size_t n = object_owners(o, &owners);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(owners[i].uid, uid) == 0)
            return true;
    }
    return false;
}

bool object_has_manager(const struct object *o, const char *name)
{
    const char *const *managers;
    size_t n = object_managers(o, &managers);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(managers[i], name) == 0)
            return true;
    }
    return false;
}

uint64_t object_content_hash(const struct object *o)
{
    return o->content_hash;
}

uint64_t object_spec_hash(const struct object *o)
{
    return o->spec_hash;
}

size_t object_bytes(const struct object *o)
{
    return malloc_usable_size((void *)o) + sizeof(size_t); // malloc's own word in front
}

static bool is_decimal(const char *s)
{
    return s[0] != 0 && s[strspn(s, "0123456789")] == 0;
}

bool object_rv_compare(const char *a, const char *b, int *ret)
{
    if (a == NULL || b == NULL || !is_decimal(a) || !is_decimal(b))
        return false;
    a += strspn(a, "0");
    b += strspn(b, "0");
    size_t na = strlen(a);
    size_t nb = strlen(b);
    int c = na != nb ? (na < nb ? -1 : 1) : strcmp(a, b);
    *ret = (c > 0) - (c < 0);
    return true;
}
