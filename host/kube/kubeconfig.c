#include "kube/kubeconfig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/digest.h"
#include "data/json.h"
#include "data/yaml.h"
#include "kube/config_pem.h"
#include "kube/config_url.h"
#include "kube/files.h"
#include "kube/token.h"

struct file {
    const char *path;
    struct json_doc *doc; // NULL: an empty file
};

// A named cluster, user or context.
struct entry {
    const struct file *file;
    const char *list, *member; // "clusters", "cluster"
    const char *name;
    const json *node; // what stands under `member`
};

struct files {
    struct file *items;
    size_t count;
};

// ---- reading the files

static int take_document(void *ud, const char *text, size_t n, size_t line, struct err *e)
{
    (void)line;
    int rc = json_parse(text, n, ud, e);
    return rc < 0 ? rc : 1; // the first document is the configuration
}

static int check_root(const struct file *f, struct err *e)
{
    const json *root = json_root(f->doc), *kind = json_get(root, "kind");
    if (!json_is_object(root) && !json_is_null(root))
        return err_set(e, ERR_INVALID,
                       "%s: not a kubeconfig: a map with clusters, users and contexts is expected", f->path);
    if (!json_is_null(kind) && !str_eq(json_str(kind), "Config"))
        return err_set(e, ERR_INVALID, "%s: kind: must be Config: this is no kubeconfig", f->path);
    return 0;
}

static int file_read(struct file *f, struct err *e)
{
    char *text;
    size_t n;
    int rc = files_read(f->path, &text, &n, e);
    if (rc < 0)
        return rc;
    rc = yaml_to_json(text, n, take_document, &f->doc, e);
    free(text);
    if (rc < 0)
        return err_prefix(e, "%s", f->path);
    return f->doc == NULL ? 0 : check_root(f, e);
}

static void files_fini(struct files *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].doc != NULL)
            json_doc_free(l->items[i].doc);
    free(l->items);
}

static int files_load(struct files *l, const struct strset *paths, struct err *e)
{
    l->items = xcalloc(paths->count + 1, sizeof(*l->items));
    for (; l->count < paths->count; l->count++) {
        l->items[l->count].path = paths->items[l->count];
        int rc = file_read(&l->items[l->count], e);
        if (rc < 0) {
            l->count++;
            return rc;
        }
    }
    return 0;
}

static const json *file_root(const struct file *f)
{
    return f->doc == NULL ? NULL : json_root(f->doc);
}

// ---- entries and their fields

// An error about a field: `FILE: clusters["x"].cluster.server: text`. key NULL: the entry itself.
static int __attribute__((format(printf, 4, 5)))
field_error(const struct entry *x, const char *key, struct err *e, const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    err_set(e, ERR_INVALID, "%s", text);
    return err_prefix(e, "%s: %s[\"%.100s\"].%s%s%s", x->file->path, x->list, x->name, x->member,
                      key == NULL ? "" : ".", key == NULL ? "" : key);
}

static int field_prefix(const struct entry *x, const char *key, struct err *e)
{
    return err_prefix(e, "%s: %s[\"%.100s\"].%s.%s", x->file->path, x->list, x->name, x->member, key);
}

static int find_in_file(const struct file *f, struct entry *x, bool *found, struct err *e)
{
    const json *list = json_get(file_root(f), x->list);
    if (!json_is_null(list) && !json_is_array(list))
        return err_set(e, ERR_INVALID, "%s: %s: must be a list", f->path, x->list);
    for (struct json_iter i = json_iter(list); json_next(&i);) {
        if (!str_eq(json_get_str(i.value, "name"), x->name))
            continue;
        if (*found)
            return err_set(e, ERR_INVALID, "%s: %s: \"%.100s\" is there twice", f->path, x->list, x->name);
        *found = true;
        x->file = f;
        x->node = json_get(i.value, x->member);
    }
    if (*found && !json_is_null(x->node) && !json_is_object(x->node))
        return field_error(x, NULL, e, "must be a map");
    return 0;
}

// x->list, member and name are given; *found says whether any file has it.
static int find_entry(const struct files *l, struct entry *x, bool *found, struct err *e)
{
    *found = false;
    for (size_t i = 0; i < l->count && !*found; i++) {
        int rc = find_in_file(&l->items[i], x, found, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

// Empty and null read as absent.
static int field_str(const struct entry *x, const char *key, const char **ret, struct err *e)
{
    const json *v = json_get(x->node, key);
    *ret = NULL;
    if (json_is_null(v))
        return 0;
    if (!json_is_string(v))
        return field_error(x, key, e, "must be a string (put it in quotes)");
    if (strlen(json_str(v)) != json_str_len(v))
        return field_error(x, key, e, "holds a NUL character");
    *ret = json_str_len(v) == 0 ? NULL : json_str(v);
    return 0;
}

static int field_bool(const struct entry *x, const char *key, bool *ret, struct err *e)
{
    const json *v = json_get(x->node, key);
    if (!json_is_null(v) && !json_is_bool(v))
        return field_error(x, key, e, "must be true or false");
    *ret = json_true(v);
    return 0;
}

static char *resolve(const struct file *f, const char *path)
{
    const char *slash = strrchr(f->path, '/');
    if (path[0] == '/' || slash == NULL)
        return xstrdup(path);
    return xasprintf("%.*s/%s", (int)(slash - f->path), f->path, path);
}

typedef int check_pem_fn(const char *text, struct err *e);

static int pem_from_data(const struct entry *x, const char *key, const char *data, check_pem_fn *check,
                         char **ret, struct err *e)
{
    struct buf b;
    buf_init(&b, FILES_MAX);
    int rc = base64_decode(data, strlen(data), &b, e);
    if (rc == 0 && b.len > 0 && memchr(b.data, '\0', b.len) != NULL)
        rc = err_set(e, ERR_TLS, "it is not PEM text in base64");
    char *text = buf_take(&b, NULL);
    if (rc == 0)
        rc = check(text, e);
    if (rc < 0) {
        free(text);
        return field_prefix(x, key, e);
    }
    *ret = text;
    return 0;
}

static int pem_from_file(const struct entry *x, const char *key, const char *path, check_pem_fn *check,
                         char **ret, char **ret_file, struct err *e)
{
    char *text = NULL, *full = resolve(x->file, path);
    int rc = files_read(full, &text, NULL, e);
    if (rc == 0 && (rc = check(text, e)) < 0)
        err_prefix(e, "%s", full);
    if (rc < 0) {
        free(text);
        free(full);
        return field_prefix(x, key, e);
    }
    *ret = text;
    *ret_file = full;
    return 0;
}

// NAME-data or NAME (a file), not both; *ret stays NULL when there is neither.
static int field_pem(const struct entry *x, const char *key, const char *data_key, check_pem_fn *check,
                     char **ret, char **ret_file, struct err *e)
{
    const char *path, *data;
    int rc = field_str(x, key, &path, e);
    if (rc == 0)
        rc = field_str(x, data_key, &data, e);
    if (rc < 0)
        return rc;
    if (path != NULL && data != NULL)
        return field_error(x, data_key, e, "%s is set too: keep one of the two", key);
    if (data != NULL)
        return pem_from_data(x, data_key, data, check, ret, e);
    return path == NULL ? 0 : pem_from_file(x, key, path, check, ret, ret_file, e);
}

// ---- the cluster

static int read_tls(const struct entry *x, struct kube_config *c, struct err *e)
{
    int rc = field_bool(x, "insecure-skip-tls-verify", &c->insecure, e);
    if (rc == 0)
        rc = field_pem(x, "certificate-authority", "certificate-authority-data",
                       config_pem_check_certificates, &c->ca_pem, &c->ca_file, e);
    if (rc < 0)
        return rc;
    if (c->insecure && c->ca_pem != NULL)
        return field_error(x, "insecure-skip-tls-verify", e,
                           "can not be true together with a certificate authority: remove one of the two");
    const char *name;
    rc = field_str(x, "tls-server-name", &name, e);
    c->tls_server_name = xstrdup(rc == 0 ? name : NULL);
    return rc;
}

static int read_proxy(const struct entry *x, struct kube_config *c, struct err *e)
{
    const char *proxy;
    int rc = field_str(x, "proxy-url", &proxy, e);
    if (rc < 0 || proxy == NULL)
        return rc;
    if (config_url_check_proxy(proxy, e) < 0)
        return field_prefix(x, "proxy-url", e);
    c->proxy_url = xstrdup(proxy);
    return 0;
}

static int read_cluster(const struct entry *x, struct kube_config *c, struct err *e)
{
    int rc = read_tls(x, c, e);
    return rc < 0 ? rc : read_proxy(x, c, e);
}

// After cluster and user: whether there is anything to do TLS with decides what host:port means.
static int read_server(const struct entry *x, const char *override, struct kube_config *c, struct err *e)
{
    bool tls = c->ca_pem != NULL || c->client_cert_pem != NULL || c->insecure;
    if (override != NULL) {
        free(c->tls_server_name); // was meant for the other address
        c->tls_server_name = NULL;
        int rc = config_url_server(override, tls, &c->server, e);
        return rc < 0 ? err_prefix(e, "--server") : 0;
    }
    const char *server;
    int rc = field_str(x, "server", &server, e);
    if (rc < 0)
        return rc;
    if (server == NULL)
        return field_error(x, "server", e, "is missing: the URL of the API server belongs here");
    rc = config_url_server(server, tls, &c->server, e);
    return rc < 0 ? field_prefix(x, "server", e) : 0;
}

// ---- the user

static const struct {
    const char *key, *text;
} unsupported[] = {
    {"exec", "exec credential plugins are not supported: use a token, a token file or a client certificate"},
    {"auth-provider", "auth providers are not supported: use a token, a token file or a client certificate"},
    {"username", "basic authentication is not supported: use a token or a client certificate"},
    {"password", "basic authentication is not supported: use a token or a client certificate"},
    {"as", "impersonation in a kubeconfig is not supported: use the user's own credentials"},
    {"as-uid", "impersonation in a kubeconfig is not supported: use the user's own credentials"},
    {"as-groups", "impersonation in a kubeconfig is not supported: use the user's own credentials"},
    {"as-user-extra", "impersonation in a kubeconfig is not supported: use the user's own credentials"},
};

static bool is_empty(const json *v)
{
    return json_is_null(v) || (json_is_string(v) && json_str_len(v) == 0) ||
           ((json_is_object(v) || json_is_array(v)) && json_count(v) == 0);
}

static int refuse_unsupported(const struct entry *x, struct err *e)
{
    for (size_t i = 0; i < sizeof(unsupported) / sizeof(unsupported[0]); i++) {
        const json *v = json_get(x->node, unsupported[i].key);
        bool given = strcmp(unsupported[i].key, "exec") == 0 ? !json_is_null(v) : !is_empty(v);
        if (given)
            return field_error(x, unsupported[i].key, e, "%s", unsupported[i].text);
    }
    return 0;
}

static int read_client_certificate(const struct entry *x, struct kube_config *c, struct err *e)
{
    int rc = field_pem(x, "client-certificate", "client-certificate-data", config_pem_check_certificates,
                       &c->client_cert_pem, &c->client_cert_file, e);
    if (rc == 0)
        rc = field_pem(x, "client-key", "client-key-data", config_pem_check_key, &c->client_key_pem,
                       &c->client_key_file, e);
    if (rc < 0)
        return rc;
    if (c->client_cert_pem != NULL && c->client_key_pem == NULL)
        return field_error(x, "client-key", e, "is missing: the client certificate needs its key");
    if (c->client_cert_pem == NULL && c->client_key_pem != NULL)
        return field_error(x, "client-certificate", e, "is missing: the client key needs its certificate");
    return 0;
}

static int read_token_file(const struct entry *x, const char *path, struct kube_config *c, struct err *e)
{
    char *full = resolve(x->file, path);
    int rc = token_read(full, &c->token, e);
    if (rc < 0) {
        free(full);
        return field_prefix(x, "tokenFile", e);
    }
    c->token_file = full;
    return 0;
}

static int read_token(const struct entry *x, struct kube_config *c, struct err *e)
{
    const char *token, *path;
    int rc = field_str(x, "token", &token, e);
    if (rc == 0)
        rc = field_str(x, "tokenFile", &path, e);
    if (rc < 0)
        return rc;
    if (path != NULL)
        return read_token_file(x, path, c, e);
    if (token == NULL)
        return 0;
    c->token = xstrdup(token);
    rc = token_clean(c->token, e);
    return rc < 0 ? field_prefix(x, "token", e) : 0;
}

static int read_user(const struct entry *x, struct kube_config *c, struct err *e)
{
    int rc = refuse_unsupported(x, e);
    if (rc == 0)
        rc = read_client_certificate(x, c, e);
    return rc < 0 ? rc : read_token(x, c, e);
}

// ---- the context

static int current_context(const struct files *l, const char **ret, struct err *e)
{
    for (size_t i = 0; i < l->count; i++) {
        const json *v = json_get(file_root(&l->items[i]), "current-context");
        if (!json_is_null(v) && !json_is_string(v))
            return err_set(e, ERR_INVALID, "%s: current-context: must be a string", l->items[i].path);
        if (json_str_len(v) == 0)
            continue;
        *ret = json_str(v);
        return 0;
    }
    return err_set(e, ERR_INVALID, "%s: current-context: is not set: set it or name one with --context",
                   l->items[0].path);
}

static int find_context(const struct files *l, const char *name, struct entry *ret, struct err *e)
{
    bool given = name != NULL && *name != '\0', found;
    int rc = given ? 0 : current_context(l, &name, e);
    if (rc < 0)
        return rc;
    *ret = (struct entry){.list = "contexts", .member = "context", .name = name};
    rc = find_entry(l, ret, &found, e);
    if (rc < 0 || found)
        return rc;
    return err_set(e, ERR_INVALID, "%s%s: %s: there is no context \"%.100s\"", l->items[0].path,
                   l->count > 1 ? " and the files after it" : "", given ? "--context" : "current-context",
                   name);
}

// The cluster or user that a context names.
static int find_named(const struct files *l, const struct entry *context, const char *key, struct entry *x,
                      bool *found, struct err *e)
{
    int rc = field_str(context, key, &x->name, e);
    *found = false;
    if (rc < 0 || x->name == NULL)
        return rc;
    rc = find_entry(l, x, found, e);
    if (rc < 0 || *found)
        return rc;
    return field_error(context, key, e, "there is no entry \"%.100s\" under %s", x->name, x->list);
}

static int read_context(const struct files *l, const struct entry *context, const char *server,
                        struct kube_config *c, struct err *e)
{
    struct entry cluster = {.list = "clusters", .member = "cluster"},
                 user = {.list = "users", .member = "user"};
    bool has_cluster, has_user;
    int rc = find_named(l, context, "cluster", &cluster, &has_cluster, e);
    if (rc == 0 && !has_cluster && server == NULL)
        rc = field_error(context, "cluster", e,
                         "is missing: the name of an entry under clusters belongs here");
    if (rc == 0 && has_cluster)
        rc = read_cluster(&cluster, c, e);
    if (rc == 0)
        rc = find_named(l, context, "user", &user, &has_user, e);
    if (rc == 0 && has_user)
        rc = read_user(&user, c, e);
    if (rc == 0)
        rc = read_server(&cluster, server, c, e);
    const char *ns;
    if (rc == 0 && (rc = field_str(context, "namespace", &ns, e)) == 0)
        c->namespace_ = xstrdup(ns);
    return rc;
}

int kubeconfig_load(const struct strset *paths, const char *context, const char *server,
                    struct kube_config *ret, struct err *e)
{
    struct files l = {0};
    struct entry x;
    int rc = files_load(&l, paths, e);
    if (rc == 0)
        rc = find_context(&l, context, &x, e);
    if (rc == 0)
        rc = read_context(&l, &x, server, ret, e);
    if (rc == 0)
        ret->source = xasprintf("%s (context \"%s\")", x.file->path, x.name);
    files_fini(&l);
    return rc;
}
