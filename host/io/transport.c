#include "io/transport.h"

#include "base/assert.h"

const char *transport_method_name(enum transport_method m)
{
    static const char *const names[] = {
        [METHOD_GET] = "GET",     [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",
        [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
    };
    ASSERT((size_t)m < sizeof(names) / sizeof(names[0]));
    return names[m];
}

struct transfer *transport_send(struct transport *t, const struct transport_request *r,
                                const struct transport_callbacks *cb)
{
    return t->ops->send(t, r, cb);
}

void transport_cancel(struct transfer *x)
{
    x->transport->ops->cancel(x);
}

void transport_free(struct transport *t)
{
    if (t != NULL)
        t->ops->free(t);
}
