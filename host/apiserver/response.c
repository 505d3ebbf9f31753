#include "apiserver/response.h"

void response_init(struct response *r)
{
    *r = (struct response){.status = 200, .content_type = "application/json"};
    buf_init(&r->body, RESPONSE_BODY_MAX);
}

void response_fini(struct response *r)
{
    buf_fini(&r->body);
}
