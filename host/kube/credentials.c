#include "kube/credentials.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "kube/files.h"
#include "kube/token.h"

enum {
    REREAD_MS = 60000,
    REREAD_MIN_MS = 1000, // between two reads, however many ask
};

enum { TOKEN, CA, CERT, KEY, FILE_COUNT };

struct credentials {
    struct loop *loop;
    struct credentials_callbacks cb;
    char *path[FILE_COUNT]; // NULL: not from a file
    char *text[FILE_COUNT]; // what is in use
    uint64_t version;
    bool has_files;
    bool asked; // on_refreshed is due
    uint64_t last_read_ms;
    bool was_read;
    struct read_job *job;
    struct loop_timer *timer; // the next periodic reread
    struct loop_timer *soon;  // a refresh in a later turn
};

// One reading of the files. The thread sees only its own copies.
struct read_job {
    struct message message; // first
    struct loop *loop;
    struct credentials *owner; // NULL: gone
    pthread_t thread;
    bool threaded, joined;
    char *path[FILE_COUNT];
    char *text[FILE_COUNT];
};

const char *credentials_token(void *credentials)
{
    struct credentials *c = credentials;
    return c->text[TOKEN];
}

uint64_t credentials_version(const struct credentials *c)
{
    return c->version;
}

static void job_read(struct read_job *j)
{
    if (j->path[TOKEN] != NULL)
        (void)token_read(j->path[TOKEN], &j->text[TOKEN], NULL);
    for (int i = CA; i < FILE_COUNT; i++)
        if (j->path[i] != NULL)
            (void)files_read(j->path[i], &j->text[i], NULL, NULL);
}

static void job_free(struct read_job *j)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        free(j->path[i]);
        free(j->text[i]);
    }
    free(j);
}

static void take_token(struct credentials *c, struct read_job *j)
{
    if (j->text[TOKEN] == NULL || str_eq(j->text[TOKEN], c->text[TOKEN]))
        return;
    free(c->text[TOKEN]);
    c->text[TOKEN] = j->text[TOKEN];
    j->text[TOKEN] = NULL;
    c->version++;
}

// All that is read anew, or nothing: a certificate and its key change together.
static void take_tls(struct credentials *c, struct read_job *j)
{
    const char *now[FILE_COUNT];
    bool changed = false;
    for (int i = CA; i < FILE_COUNT; i++) {
        bool read = j->text[i] != NULL && j->text[i][0] != '\0';
        if (c->path[i] != NULL && !read)
            return;
        now[i] = read ? j->text[i] : c->text[i];
        changed = changed || !str_eq(now[i], c->text[i]);
    }
    if (!changed || c->cb.on_tls == NULL || c->cb.on_tls(c->cb.ud, now[CA], now[CERT], now[KEY]) != 0)
        return;
    for (int i = CA; i < FILE_COUNT; i++) {
        if (c->path[i] == NULL)
            continue;
        free(c->text[i]);
        c->text[i] = j->text[i];
        j->text[i] = NULL;
    }
    c->version++;
}

static void tell_refreshed(struct credentials *c)
{
    if (!c->asked)
        return;
    c->asked = false;
    c->cb.on_refreshed(c->cb.ud); // last: may free c
}

static void job_done(struct message *m)
{
    struct read_job *j = (struct read_job *)m;
    struct credentials *c = j->owner;
    if (j->threaded && !j->joined)
        pthread_join(j->thread, NULL);
    if (c != NULL) {
        c->job = NULL;
        c->last_read_ms = loop_now_ms(c->loop);
        c->was_read = true;
        take_token(c, j);
        take_tls(c, j);
        loop_timer_start(c->timer, REREAD_MS);
    }
    job_free(j);
    if (c != NULL)
        tell_refreshed(c);
}

static void *job_thread(void *arg)
{
    struct read_job *j = arg;
    job_read(j);
    loop_post(j->loop, &j->message);
    return NULL;
}

static void read_files(struct credentials *c)
{
    if (c->job != NULL)
        return;
    struct read_job *j = xcalloc(1, sizeof(*j));
    j->message.run = job_done;
    j->loop = c->loop;
    j->owner = c;
    for (int i = 0; i < FILE_COUNT; i++)
        j->path[i] = xstrdup(c->path[i]);
    c->job = j;
    if (clock_is_virtual(loop_clock(c->loop))) {
        job_read(j);
        job_done(&j->message);
        return;
    }
    j->threaded = true;
    if (pthread_create(&j->thread, NULL, job_thread, j) == 0)
        return;
    c->job = NULL; // no thread to be had: at the next turn of the timer
    job_free(j);
    loop_timer_start(c->timer, REREAD_MIN_MS);
    tell_refreshed(c);
}

static void on_timer(void *ud)
{
    read_files(ud);
}

static void on_soon(void *ud)
{
    struct credentials *c = ud;
    if (c->job != NULL)
        return;
    uint64_t now = loop_now_ms(c->loop);
    if (!c->has_files || (c->was_read && now - c->last_read_ms < REREAD_MIN_MS))
        tell_refreshed(c);
    else
        read_files(c);
}

void credentials_refresh(struct credentials *c)
{
    c->asked = true;
    if (!loop_timer_active(c->soon))
        loop_timer_start(c->soon, 0);
}

struct credentials *credentials_new(struct loop *l, const struct kube_config *cfg,
                                    const struct credentials_callbacks *cb)
{
    struct credentials *c = xcalloc(1, sizeof(*c));
    c->loop = l;
    c->cb = *cb;
    c->path[TOKEN] = xstrdup(cfg->token_file);
    c->path[CA] = xstrdup(cfg->ca_file);
    c->path[CERT] = xstrdup(cfg->client_cert_file);
    c->path[KEY] = xstrdup(cfg->client_key_file);
    c->text[TOKEN] = xstrdup(cfg->token);
    c->text[CA] = xstrdup(cfg->ca_pem);
    c->text[CERT] = xstrdup(cfg->client_cert_pem);
    c->text[KEY] = xstrdup(cfg->client_key_pem);
    if (cfg->token == NULL && cfg->token_file != NULL)
        (void)token_read(cfg->token_file, &c->text[TOKEN], NULL);
    for (int i = 0; i < FILE_COUNT; i++)
        c->has_files = c->has_files || c->path[i] != NULL;
    c->timer = loop_timer_new(l, on_timer, c);
    c->soon = loop_timer_new(l, on_soon, c);
    if (c->has_files)
        loop_timer_start(c->timer, REREAD_MS);
    return c;
}

void credentials_free(struct credentials *c)
{
    if (c == NULL)
        return;
    if (c->job != NULL) {
        pthread_join(c->job->thread, NULL); // its message is posted then, and frees it
        c->job->joined = true;
        c->job->owner = NULL;
    }
    loop_timer_free(c->timer);
    loop_timer_free(c->soon);
    for (int i = 0; i < FILE_COUNT; i++) {
        free(c->path[i]);
        free(c->text[i]);
    }
    free(c);
}
