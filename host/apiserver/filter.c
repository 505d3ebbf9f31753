#include "apiserver/filter.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"

// Custom resources know two fields only.
static int check_fields(struct request *q, const char *text, struct response *r)
{
    while (q->kind->custom && *text != '\0') {
        size_t n = strcspn(text, ","), name = strcspn(text, "=!,");
        if (strncmp(text, "metadata.name", name) != 0 && strncmp(text, "metadata.namespace", name) != 0)
            return failure_bad_request(r, "field label not supported: %.*s", (int)name, text);
        text += n;
        text += *text == ',';
    }
    return 0;
}

int filter_init(struct filter *f, struct request *q, struct response *r)
{
    const char *labels = route_param(&q->route, "labelSelector"),
               *fields = route_param(&q->route, "fieldSelector");
    struct err e;
    *f = (struct filter){.prefix = q->at.ns[0] == '\0' ? xstrdup("") : xasprintf("%s/", q->at.ns)};
    if (labels != NULL && labels[0] != '\0' && selector_parse(labels, &f->labels, &e) < 0)
        return failure_bad_request(r, "unable to parse requirement: %s", e.text);
    if (fields == NULL || fields[0] == '\0')
        return 0;
    if (check_fields(q, fields, r) < 0)
        return -1;
    if (field_selector_parse(fields, &f->fields, &e) < 0)
        return failure_bad_request(r, "%s", e.text);
    return 0;
}

void filter_fini(struct filter *f)
{
    free(f->prefix);
    selector_free(f->labels);
    field_selector_free(f->fields);
    *f = (struct filter){0};
}

bool filter_is_open(const struct filter *f)
{
    return f->labels == NULL && f->fields == NULL;
}

static int compare_labels(const void *a, const void *b)
{
    return strcmp(((const struct object_label *)a)->key, ((const struct object_label *)b)->key);
}

static bool labels_match(const struct selector *s, const json *object)
{
    const json *labels = json_path(object, "metadata", "labels", NULL);
    size_t n = 0;
    struct object_label *list = xcalloc(json_count(labels) + 1, sizeof(*list));
    for (struct json_iter i = json_iter(labels); json_next(&i);) {
        if (i.key != NULL && json_str(i.value) != NULL)
            list[n++] = (struct object_label){i.key, json_str(i.value)};
    }
    qsort(list, n, sizeof(*list), compare_labels);
    bool match = selector_matches_labels(s, list, n);
    free(list);
    return match;
}

bool filter_matches(const struct filter *f, const char *key, const struct storage_version *v)
{
    if (v == NULL || !str_has_prefix(key, f->prefix))
        return false;
    if (filter_is_open(f))
        return true;
    struct json_doc *doc;
    if (json_parse(v->json, v->len, &doc, NULL) < 0)
        return false;
    bool match = (f->labels == NULL || labels_match(f->labels, json_root(doc))) &&
                 (f->fields == NULL || field_selector_matches(f->fields, json_root(doc)));
    json_doc_free(doc);
    return match;
}
