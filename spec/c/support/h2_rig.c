#include "support/h2_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

struct pki h2_rig_ca, h2_rig_server, h2_rig_client;

int h2_rig_set_up(void **state)
{
    (void)state;
    h2_rig_ca = pki_make(PKI_CA, NULL, "ca", NULL, 1);
    h2_rig_server = pki_make(PKI_SERVER, &h2_rig_ca, "server", "IP:127.0.0.1,DNS:kubernetes", 1);
    h2_rig_client = pki_make(PKI_CLIENT, &h2_rig_ca, "client", NULL, 1);
    return 0;
}

int h2_rig_tear_down(void **state)
{
    (void)state;
    pki_fini(&h2_rig_ca);
    pki_fini(&h2_rig_server);
    pki_fini(&h2_rig_client);
    return 0;
}

void h2_rig_echo(struct h2_peer *p, struct h2_stream *s)
{
    struct h2_rig *f = p->ud;
    struct buf b;
    buf_init(&b, 4 << 20);
    buf_addf(&b, "%s %s ", s->method, s->path);
    buf_add(&b, evbuffer_pullup(s->body, -1), evbuffer_get_length(s->body));
    f->handled++;
    h2_reply(s, "200", b.data);
    buf_fini(&b);
}

void h2_rig_init(struct h2_rig *f, void (*handle)(struct h2_peer *p, struct h2_stream *s))
{
    *f = (struct h2_rig){0};
    rig_init_raw(&f->rig);
    h2_peer_init(&f->peer, f->rig.loop, &h2_rig_server);
    f->peer.handle = handle != NULL ? handle : h2_rig_echo;
    f->peer.ud = f;
}

void h2_rig_connect(struct h2_rig *f, struct transport_curl_options o)
{
    struct err e = {0};
    char *url = xasprintf("https://127.0.0.1:%d", f->peer.port);
    if (o.server == NULL)
        o.server = url;
    if (o.ca_pem == NULL)
        o.ca_pem = h2_rig_ca.cert;
    if (rig_connect(&f->rig, o, &e) != 0)
        fail_msg("%s", e.text);
    free(url);
}

void h2_rig_open(struct h2_rig *f, void (*handle)(struct h2_peer *p, struct h2_stream *s))
{
    h2_rig_init(f, handle);
    h2_rig_connect(f, (struct transport_curl_options){0});
}

void h2_rig_fini(struct h2_rig *f)
{
    transport_free(f->rig.transport);
    f->rig.transport = NULL;
    h2_peer_fini(&f->peer);
    rig_fini(&f->rig);
}

void h2_rig_assert_works(struct h2_rig *f)
{
    struct rig_result x;
    rig_do(&f->rig, &x, H2_GET("/works"));
    if (x.response.err.code != 0)
        fail_msg("%s", x.response.err.text);
    assert_int_equal(x.response.status, 200);
    assert_string_equal(x.body.data, "GET /works ");
    rig_result_fini(&x);
}

void h2_rig_assert_error(const struct rig_result *x, int code, bool sent_maybe, const char *part)
{
    if (x->response.err.code != code || strstr(x->response.err.text, part) == NULL)
        fail_msg("%d %s (status %d), not %d with \"%s\"", x->response.err.code, x->response.err.text,
                 x->response.status, code, part);
    assert_int_equal(x->response.status, 0);
    assert_int_equal(x->response.body_len, 0);
    assert_int_equal(x->response.sent_maybe, sent_maybe);
}

void h2_rig_assert_fails(struct h2_rig *f, struct transport_request q, int code, bool sent_maybe,
                         const char *part)
{
    struct rig_result x;
    rig_do(&f->rig, &x, q);
    h2_rig_assert_error(&x, code, sent_maybe, part);
    rig_result_fini(&x);
}
