// What a broken server may send once TLS stands: each call ends, in an answer or in an error, and nothing is
// left. The first byte says how it goes, the rest is what each connection reads, and then finds its end.
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "io/curl_link.h"

enum {
    CALLS = 4,
    LINKS_MAX = 3 * (CALLS + 1),
    SETTINGS = 1, // the server's settings come first
    SLOW = 2,     // a byte at a time, both ways
    CANCEL = 4,   // a call when another has ended
    AGAIN = 8,    // another one then
    FREE = 16,    // the transport then
    SMALL = 32,   // little may come as an answer
};

static struct {
    struct loop *loop;
    struct transport *transport;
    const uint8_t *data;
    size_t n;
    int how;
    int links;
    int left; // calls to end
    struct transfer *transfers[CALLS + 1];
    bool first_is_done;
} run;

// ---- in place of io/curl_link.c

struct curl_link {
    struct curl_link_callbacks cb;
    struct loop_timer *tick;
    bool up, blocked;
    int want;
    struct buf in;
    struct buf out; // of the client
    size_t at;
};

static void on_tick(void *ud)
{
    struct curl_link *l = ud;
    loop_timer_start(l->tick, 0);
    if (!l->up) {
        l->up = true;
        l->want = LOOP_READ;
        l->cb.on_up(l->cb.ud, true);
    } else {
        l->blocked = false;
        l->cb.on_ready(l->cb.ud, l->want & LOOP_WRITE && l->at % 2 == 0 ? LOOP_WRITE : LOOP_READ);
    }
}

struct curl_link *curl_link_new(struct curl_transport *t, const struct curl_link_callbacks *cb)
{
    static const char settings[] =
        "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x02"; // 2 at a time
    struct curl_link *l = xcalloc(1, sizeof(*l));
    ASSERT(++run.links <= LINKS_MAX); // repeats are bounded
    l->cb = *cb;
    l->tick = loop_timer_new(t->loop, on_tick, l);
    buf_init(&l->in, SIZE_MAX);
    buf_init(&l->out, SIZE_MAX);
    if (run.how & SETTINGS)
        buf_add(&l->in, settings, sizeof(settings) - 1);
    buf_add(&l->in, run.data, run.n);
    loop_timer_start(l->tick, 0);
    return l;
}

// What the client has written is its preface and then frames, the last of which may be cut.
static void check_written(const struct buf *b)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    size_t at = sizeof(preface) - 1;
    ASSERT(b->len == 0 || memcmp(b->data, preface, at < b->len ? at : b->len) == 0);
    while (at + 9 <= b->len) {
        const unsigned char *head = (const unsigned char *)b->data + at;
        size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        ASSERT(n <= 16384 && head[3] <= 9);
        at += 9 + n;
    }
}

void curl_link_free(struct curl_link *l)
{
    check_written(&l->out);
    buf_fini(&l->out);
    loop_timer_free(l->tick);
    buf_fini(&l->in);
    free(l);
}

void curl_link_want(struct curl_link *l, int what)
{
    l->want = what;
}

static size_t share_of(struct curl_link *l, size_t n)
{
    if (!(run.how & SLOW) || n == 0)
        return n;
    l->blocked = !l->blocked;
    return l->blocked ? 1 : 0;
}

int curl_link_recv(struct curl_link *l, void *data, size_t size, size_t *ret, struct err *e)
{
    size_t left = l->in.len - l->at;
    *ret = 0;
    if (left == 0)
        return err_set(e, ERR_NETWORK, "it closed the connection");
    *ret = share_of(l, left < size ? left : size);
    memcpy(data, l->in.data + l->at, *ret);
    l->at += *ret;
    return 0;
}

int curl_link_send(struct curl_link *l, const void *data, size_t size, size_t *ret, struct err *e)
{
    (void)e;
    *ret = run.how & SLOW && size > 40 ? (l->blocked ? 0 : size / 2) : size;
    buf_add(&l->out, data, *ret);
    l->blocked = !l->blocked;
    return 0;
}

// ---- the calls

static void send_call(int i);

static void on_done(void *ud, const struct transport_response *r)
{
    struct transfer **own = ud;
    ASSERT(*own != NULL);
    *own = NULL;
    ASSERT(r->err.code == 0 ? r->status >= 200 && r->status <= 999 : r->status == 0 && r->body_len == 0);
    ASSERT(strlen(r->body) <= r->body_len && r->content_type != NULL);
    if (--run.left == 0)
        loop_stop(run.loop);
    if (run.first_is_done)
        return;
    run.first_is_done = true;
    if (run.how & AGAIN)
        send_call(CALLS);
    for (int i = 0; run.how & CANCEL && i < CALLS; i += 2) {
        if (run.transfers[i] != NULL) {
            transport_cancel(run.transfers[i]);
            run.transfers[i] = NULL;
            run.left--;
        }
    }
    if (run.how & FREE) {
        transport_free(run.transport);
        run.transport = NULL;
        run.left = 0;
    }
    if (run.left == 0)
        loop_stop(run.loop);
}

static void send_call(int i)
{
    static const enum transport_method methods[] = {METHOD_GET, METHOD_POST, METHOD_PATCH, METHOD_GET,
                                                    METHOD_PUT};
    static const char body[100 << 10];
    bool has_body = methods[i] != METHOD_GET;
    struct transport_request q = {.method = methods[i],
                                  .path = "/x",
                                  .body = has_body ? body : NULL,
                                  .body_len = has_body ? sizeof(body) : 0,
                                  .max_response = run.how & SMALL ? 8 : 1 << 20};
    struct transport_callbacks cb = {.on_done = on_done, .ud = &run.transfers[i]};
    run.left++;
    run.transfers[i] = transport_send(run.transport, &q, &cb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct transport_curl_options o = {
        .server = "https://fuzz.invalid", .user_agent = "fuzz", .insecure = true};
    struct err e;
    if (n == 0)
        return 0;
    run = (typeof(run)){.loop = loop_new(clock_real()), .data = data + 1, .n = n - 1, .how = data[0]};
    ASSERT(transport_curl_new(run.loop, &o, &run.transport, &e) == 0);
    for (int i = 0; i < CALLS; i++)
        send_call(i);
    loop_run(run.loop);
    if (run.transport != NULL)
        transport_free(run.transport);
    loop_free(run.loop);
    return 0;
}
