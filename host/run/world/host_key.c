#include "run/world/host_key.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strset.h"
#include "data/digest.h"
#include "data/json_write.h"

struct host_key {
    struct host_key_options o;
    char *ns;
    uint8_t key[SECRET_VALUE_KEY]; // does not change once it is there
    atomic_bool there;
    struct call *call;
    struct loop_timer *retry;
    struct random random;
    unsigned failures;
    char said[ERR_TEXT_MAX];
};

static const struct resource *secrets(void)
{
    static struct resource r = {.plural = "secrets", .namespaced = true};
    r.gvk = gvk_parse("v1/Secret", NULL);
    return &r;
}

static void load(void *ud);

struct host_key *host_key_new(const struct host_key_options *o)
{
    struct host_key *k = xcalloc(1, sizeof *k);
    k->o = *o;
    k->ns = xstrdup(o->ns);
    atomic_init(&k->there, false);
    random_init(&k->random, o->seed);
    k->retry = loop_timer_new(client_loop(o->client), load, k);
    return k;
}

void host_key_free(struct host_key *k)
{
    if (k == NULL)
        return;
    if (k->call != NULL)
        call_cancel(k->call);
    loop_timer_free(k->retry);
    explicit_bzero(k->key, sizeof k->key);
    free(k->ns);
    free(k);
}

bool host_key_try(struct host_key *k, uint8_t out[SECRET_VALUE_KEY])
{
    if (!atomic_load_explicit(&k->there, memory_order_acquire))
        return false;
    memcpy(out, k->key, sizeof k->key);
    return true;
}

static void again(struct host_key *k, const char *why)
{
    uint64_t ms = 500ULL << (k->failures < 7 ? k->failures : 7);
    k->failures++;
    if (strcmp(k->said, why) != 0) {
        snprintf(k->said, sizeof k->said, "%s", why);
        log_warn("world.secret_value waits for the host's key", F_STR("namespace", k->ns),
                 F_STR("secret", HOST_KEY_SECRET), F_STR("error", why));
    }
    loop_timer_start(k->retry, random_jitter_ms(&k->random, ms, 0.2));
}

// Never quotes what the Secret holds.
static bool read_key(struct host_key *k, const json *secret)
{
    const char *text = json_str(json_path(secret, "data", "key", NULL));
    struct buf bytes;
    buf_init(&bytes, 1 << 20);
    bool ok =
        text != NULL && base64_decode(text, strlen(text), &bytes, NULL) == 0 && bytes.len == sizeof k->key;
    if (ok)
        memcpy(k->key, bytes.data, sizeof k->key);
    if (bytes.data != NULL)
        explicit_bzero(bytes.data, bytes.len);
    buf_fini(&bytes);
    return ok;
}

static void take(struct host_key *k, const json *secret)
{
    if (!read_key(k, secret)) {
        again(k,
              "its data.key is not 32 bytes in base64: put the right key back, or delete the Secret, which "
              "gives all generated values anew");
        return;
    }
    k->said[0] = '\0';
    atomic_store_explicit(&k->there, true, memory_order_release);
    k->o.on_ready(k->o.ud);
}

static void on_created(void *ud, struct client_result *res)
{
    struct host_key *k = ud;
    k->call = NULL;
    if (res->failure == NULL)
        take(k, json_root(res->doc));
    else if (res->failure->http == 409) // another was faster: his is read
        load(k);
    else
        again(k, res->failure->err.text);
}

static void write_secret(const struct host_key *k, struct buf *out)
{
    uint8_t bytes[SECRET_VALUE_KEY];
    struct buf text;
    struct json_writer w;
    if (k->o.bytes != NULL)
        k->o.bytes(k->o.ud, bytes, sizeof bytes);
    else
        random_kernel_bytes(bytes, sizeof bytes);
    buf_init(&text, 4096);
    base64_encode(bytes, sizeof bytes, &text);
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "Secret");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", HOST_KEY_SECRET);
    jw_member_str(&w, "namespace", k->ns);
    jw_object_end(&w);
    jw_member_str(&w, "type", "Opaque");
    jw_key(&w, "data");
    jw_object(&w);
    jw_member_str(&w, "key", text.data);
    jw_object_end(&w);
    jw_object_end(&w);
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(text.data, text.len);
    buf_fini(&text);
}

static void create(struct host_key *k)
{
    struct buf path, body;
    buf_init(&path, 4096);
    buf_init(&body, 4096);
    resource_path(secrets(), k->ns, NULL, NULL, "fieldManager=tidelock", &path);
    write_secret(k, &body);
    k->call = client_send(k->o.client,
                          &(struct client_request){.method = METHOD_POST,
                                                   .path = path.data,
                                                   .body = body.data,
                                                   .body_len = body.len,
                                                   .as = &identity_host},
                          on_created, k);
    explicit_bzero(body.data, body.len);
    buf_fini(&body);
    buf_fini(&path);
}

static void on_loaded(void *ud, struct client_result *res)
{
    struct host_key *k = ud;
    k->call = NULL;
    bool absent = res->failure != NULL && res->failure->http == 404 &&
                  !str_eq(res->failure->details_kind, "namespaces");
    if (res->failure == NULL)
        take(k, json_root(res->doc));
    else if (absent)
        create(k);
    else
        again(k, res->failure->err.text);
}

static void load(void *ud)
{
    struct host_key *k = ud;
    struct buf path;
    buf_init(&path, 4096);
    resource_path(secrets(), k->ns, HOST_KEY_SECRET, NULL, NULL, &path);
    k->call = client_send(k->o.client, &(struct client_request){.path = path.data, .as = &identity_host},
                          on_loaded, k);
    buf_fini(&path);
}

void host_key_want(struct host_key *k)
{
    if (!atomic_load_explicit(&k->there, memory_order_acquire) && k->call == NULL &&
        !loop_timer_active(k->retry))
        load(k);
}
