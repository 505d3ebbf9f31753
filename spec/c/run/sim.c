#include "run/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/json_write.h"
#include "data/yaml.h"
#include "unit.h"

#define WALL_START_MS 1767225600000LL // 2026-01-01T00:00:00Z

enum { PLAYER_MS = 40, LATENCY_MS = 12 };

static void on_request(void *ud, const struct apiserver_trace *t)
{
    struct sim *s = ud;
    if (strcmp(t->user, "player") == 0)
        return;
    buf_addf(&s->trace, "%s %s %s %d ", t->user, t->method, t->path, t->status);
    buf_add(&s->trace, t->body, t->body_len);
    buf_add_char(&s->trace, '\n');
    if (strcmp(t->user, "tidelock") == 0 && strcmp(t->method, "GET") != 0)
        s->host_writes++;
}

static enum apiserver_fault on_passage(void *ud, const struct apiserver_passage *p,
                                       struct apiserver_answer *ret_answer)
{
    struct sim *s = ud;
    if (strcmp(p->user, "tidelock") != 0)
        return APISERVER_PASS;
    if (s->dead)
        return APISERVER_HANG;
    if (p->answered && strcmp(p->method, "GET") != 0 && s->dies_in > 0 && --s->dies_in == 0) {
        s->dead = true;
        return APISERVER_HANG;
    }
    return s->fault == NULL ? APISERVER_PASS : s->fault(s, p, ret_answer);
}

static uint64_t latency(void *ud, const struct transport_request *r)
{
    struct sim *s = ud;
    (void)r;
    return random_below(&s->random, LATENCY_MS);
}

// ---- the player

static struct json_doc *list(struct sim *s, const char *path)
{
    char *body = NULL;
    struct json_doc *doc;
    assert_int_equal(apiserver_request(s->server, "player", "GET", path, NULL, NULL, &body), 200);
    assert_int_equal(json_parse(body, strlen(body), &doc, NULL), 0);
    free(body);
    return doc;
}

static const char *meta(const json *o, const char *key)
{
    return json_str(json_path(o, "metadata", key, NULL));
}

static void ensure_pod(struct sim *s, const json *deployment, const char *set_uid, int64_t i)
{
    struct buf body;
    struct json_writer w;
    char name[128];
    snprintf(name, sizeof name, "%s-%lld", meta(deployment, "name"), (long long)i);
    buf_init(&body, 1 << 20);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "Pod");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", name);
    jw_member_str(&w, "namespace", meta(deployment, "namespace"));
    jw_member(&w, "labels", json_path(deployment, "spec", "template", "metadata", "labels", NULL));
    jw_key(&w, "ownerReferences");
    jw_raw(&w, "[", 1);
    buf_addf(&body,
             "{\"apiVersion\":\"apps/"
             "v1\",\"kind\":\"ReplicaSet\",\"name\":\"%s\",\"uid\":\"%s\",\"controller\":true}]",
             meta(deployment, "name"), set_uid);
    jw_object_end(&w);
    jw_member(&w, "spec", json_path(deployment, "spec", "template", "spec", NULL));
    jw_object_end(&w);
    char *path = xasprintf("/api/v1/namespaces/%s/pods", meta(deployment, "namespace"));
    int status = apiserver_request(s->server, "player", "POST", path, "application/json", body.data, NULL);
    assert_true(status == 201 || status == 409);
    free(path);
    buf_fini(&body);
}

static char *ensure_set(struct sim *s, const json *deployment)
{
    char *body = xasprintf("{\"apiVersion\":\"apps/"
                           "v1\",\"kind\":\"ReplicaSet\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\","
                           "\"ownerReferences\":[{\"apiVersion\":\"apps/"
                           "v1\",\"kind\":\"Deployment\",\"name\":\"%s\",\"uid\":\"%s\","
                           "\"controller\":true}]}}",
                           meta(deployment, "name"), meta(deployment, "namespace"), meta(deployment, "name"),
                           meta(deployment, "uid"));
    char *path = xasprintf("/apis/apps/v1/namespaces/%s/replicasets", meta(deployment, "namespace"));
    int status = apiserver_request(s->server, "player", "POST", path, "application/json", body, NULL);
    assert_true(status == 201 || status == 409);
    struct json_doc *doc = apiserver_get_json(s->server, "apps/v1", "replicasets",
                                              meta(deployment, "namespace"), meta(deployment, "name"));
    char *uid = xstrdup(meta(json_root(doc), "uid"));
    json_doc_free(doc);
    free(path);
    free(body);
    return uid;
}

static void drop_pods_above(struct sim *s, const json *deployment, int64_t replicas)
{
    for (int64_t i = replicas; i < replicas + 20; i++) {
        char *path = xasprintf("/api/v1/namespaces/%s/pods/%s-%lld", meta(deployment, "namespace"),
                               meta(deployment, "name"), (long long)i);
        int status = apiserver_request(s->server, "player", "DELETE", path, "application/json",
                                       "{\"gracePeriodSeconds\":0}", NULL);
        free(path);
        if (status == 404)
            break;
    }
}

static void play_deployment(struct sim *s, const json *deployment)
{
    int64_t replicas = json_get_int(json_get(deployment, "spec"), "replicas", 1);
    char *uid = ensure_set(s, deployment);
    for (int64_t i = 0; i < replicas; i++)
        ensure_pod(s, deployment, uid, i);
    drop_pods_above(s, deployment, replicas);
    free(uid);
    if (json_get_int(json_get(deployment, "status"), "readyReplicas", -1) == replicas)
        return;
    char *path = xasprintf("/apis/apps/v1/namespaces/%s/deployments/%s/status", meta(deployment, "namespace"),
                           meta(deployment, "name"));
    char *body = xasprintf("{\"status\":{\"replicas\":%lld,\"readyReplicas\":%lld}}", (long long)replicas,
                           (long long)replicas);
    sim_request(s, "player", "PATCH", path, "application/merge-patch+json", body);
    free(path);
    free(body);
}

static bool uid_lives(struct json_doc *const *docs, size_t n, const char *uid)
{
    for (size_t i = 0; i < n; i++)
        for (struct json_iter it = json_iter(json_get(json_root(docs[i]), "items")); json_next(&it);)
            if (strcmp(meta(it.value, "uid"), uid) == 0)
                return true;
    return false;
}

static const char *const collected[] = {"/apis/apps/v1/deployments", "/apis/apps/v1/replicasets",
                                        "/api/v1/pods", "/api/v1/services", "/api/v1/configmaps"};
static const char *const owners[] = {"/apis/cache.example.com/v1alpha1/memcacheds", "/apis/x.test/v1/things",
                                     "/apis/x.test/v1/rooms"};
enum { COLLECTED = sizeof collected / sizeof collected[0], OWNERS = sizeof owners / sizeof owners[0] };

static void delete_orphan(struct sim *s, const char *list_path, const json *o)
{
    const char *plural = strrchr(list_path, '/');
    char *path = xasprintf("%.*s/namespaces/%s%s/%s", (int)(plural - list_path), list_path,
                           meta(o, "namespace"), plural, meta(o, "name"));
    apiserver_request(s->server, "player", "DELETE", path, "application/json", "{\"gracePeriodSeconds\":0}",
                      NULL);
    free(path);
}

static void play_collector(struct sim *s)
{
    struct json_doc *docs[COLLECTED + OWNERS];
    for (size_t i = 0; i < COLLECTED; i++)
        docs[i] = list(s, collected[i]);
    size_t n = COLLECTED;
    for (size_t i = 0; i < OWNERS; i++) {
        char *body = NULL;
        if (apiserver_request(s->server, "player", "GET", owners[i], NULL, NULL, &body) == 200)
            assert_int_equal(json_parse(body, strlen(body), &docs[n++], NULL), 0);
        free(body);
    }
    for (size_t i = 0; i < COLLECTED; i++)
        for (struct json_iter it = json_iter(json_get(json_root(docs[i]), "items")); json_next(&it);) {
            const json *owner = json_at(json_path(it.value, "metadata", "ownerReferences", NULL), 0);
            if (owner != NULL && !uid_lives(docs, n, json_get_str(owner, "uid")))
                delete_orphan(s, collected[i], it.value);
        }
    for (size_t i = 0; i < n; i++)
        json_doc_free(docs[i]);
}

static void play(void *ud)
{
    struct sim *s = ud;
    struct json_doc *deployments = list(s, "/apis/apps/v1/deployments");
    for (struct json_iter it = json_iter(json_get(json_root(deployments), "items")); json_next(&it);)
        play_deployment(s, it.value);
    json_doc_free(deployments);
    play_collector(s);
    loop_timer_start(s->player, PLAYER_MS);
}

// ---- the host

static void on_fatal(void *ud, const struct err *e)
{
    (void)ud;
    fail_msg("fatal: %s", e->text);
}

static void key_bytes(void *ud, uint8_t *out, size_t n)
{
    struct sim *s = ud;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)random_u64(&s->random);
}

void sim_start_host(struct sim *s)
{
    struct err e;
    s->metrics = metrics_new();
    s->client = client_new_with(s->loop, apiserver_transport(s->server, "tidelock"), s->metrics);
    int r = host_new(&(struct host_options){.loop = s->loop,
                                            .client = s->client,
                                            .metrics = s->metrics,
                                            .grants = s->grants,
                                            .instance = "sim",
                                            .namespace_ = "tidelock-system",
                                            .scripts_namespace = "tidelock-system",
                                            .seed = random_u64(&s->random),
                                            .key_bytes = key_bytes,
                                            .on_fatal = on_fatal,
                                            .ud = s},
                     &s->host, &e);
    assert_int_equal(r, 0);
    host_start(s->host);
}

void sim_init(struct sim *s, uint64_t seed)
{
    *s = (struct sim){0};
    s->clock = clock_virtual_new(WALL_START_MS);
    s->loop = loop_new(s->clock);
    random_init(&s->random, seed);
    buf_init(&s->trace, 256 << 20);
    s->server = apiserver_new(&(struct apiserver_options){
        .loop = s->loop, .random = &s->random, .on_request = on_request, .ud = s});
    apiserver_set_latency(s->server, latency, s);
    apiserver_set_fault(s->server, on_passage, s);
    s->grants = grants_new();
    s->player = loop_timer_new(s->loop, play, s);
    loop_timer_start(s->player, PLAYER_MS);
    sim_start_host(s);
}

static void on_stopped(void *ud)
{
    struct sim *s = ud;
    s->stopped = true;
}

void sim_run(struct sim *s, uint64_t ms)
{
    loop_run_until(s->loop, loop_now_ms(s->loop) + ms);
}

void sim_stop_host(struct sim *s)
{
    if (s->host == NULL)
        return;
    enum { WAIT_MS = 10 * 1000, DEAD_WAIT_MS = 180 * 1000 }; // a dead host's requests have to time out
    s->stopped = false;
    host_stop(s->host, on_stopped, s);
    sim_run(s, s->dead ? DEAD_WAIT_MS : WAIT_MS);
    assert_true(s->stopped);
    host_free(s->host);
    client_free(s->client);
    metrics_free(s->metrics);
    s->host = NULL;
}

void sim_restart_host(struct sim *s)
{
    sim_stop_host(s);
    sim_start_host(s);
}

bool sim_run_and_die(struct sim *s, size_t n, uint64_t ms)
{
    s->dies_in = n;
    sim_run(s, ms);
    s->dies_in = 0;
    bool died = s->dead;
    if (died) {
        sim_stop_host(s);
        s->dead = false;
        sim_start_host(s);
    }
    return died;
}

void sim_fini(struct sim *s)
{
    sim_stop_host(s);
    loop_timer_free(s->player);
    apiserver_free(s->server);
    grants_free(s->grants);
    loop_free(s->loop);
    clock_free(s->clock);
    buf_fini(&s->trace);
}

// ---- what a person does

void sim_request(struct sim *s, const char *user, const char *method, const char *path, const char *type,
                 const char *body)
{
    char *answer = NULL;
    int status = apiserver_request(s->server, user, method, path, type, body, &answer);
    if (status < 200 || status > 299)
        fail_msg("%s %s: %d %s", method, path, status, answer);
    free(answer);
}

void sim_apply(struct sim *s, const char *user, const char *text)
{
    char *answer = NULL;
    int status = apiserver_apply_json(s->server, user, text, &answer);
    if (status < 200 || status > 299)
        fail_msg("apply: %d %s", status, answer);
    free(answer);
}

static int apply_document(void *ud, const char *text, size_t len, size_t line, struct err *e)
{
    char *copy = xstrndup(text, len);
    (void)line;
    (void)e;
    sim_apply(ud, "kubectl", copy);
    free(copy);
    return 0;
}

static char *read_file(const char *path, size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("%s: can not be read", path);
    char *text = xmalloc(1 << 20);
    *ret_len = fread(text, 1, (1 << 20) - 1, f);
    text[*ret_len] = '\0';
    fclose(f);
    return text;
}

void sim_apply_file(struct sim *s, const char *path)
{
    size_t n;
    struct err e;
    char *text = read_file(path, &n);
    assert_int_equal(yaml_to_json(text, n, apply_document, s, &e), 0);
    free(text);
}

void sim_put_script_text(struct sim *s, const char *name, const char *file, const char *text)
{
    struct buf body;
    struct json_writer w;
    buf_init(&body, 2 << 20);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "ConfigMap");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", name);
    jw_member_str(&w, "namespace", "tidelock-system");
    jw_key(&w, "labels");
    jw_object(&w);
    jw_member_str(&w, "tidelock.dev/scripts", "true");
    jw_object_end(&w);
    jw_object_end(&w);
    jw_key(&w, "data");
    jw_object(&w);
    jw_member_str(&w, file, text);
    jw_object_end(&w);
    jw_object_end(&w);
    sim_apply(s, "kubectl", body.data);
    buf_fini(&body);
}

void sim_put_script(struct sim *s, const char *name, const char *path)
{
    size_t n;
    char *text = read_file(path, &n);
    sim_put_script_text(s, name, strrchr(path, '/') + 1, text);
    free(text);
}

struct json_doc *sim_get(struct sim *s, const char *api_version, const char *plural, const char *name)
{
    return apiserver_get_json(s->server, api_version, plural, "default", name);
}
