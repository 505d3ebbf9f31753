#include "run/apply/unfinalize.h"

#include "run/plan/finalizer_patch.h"

struct call *unfinalize_send(struct client *client, const struct resource *resource, const json *metadata,
                             const char *finalizer, void (*on_done)(void *ud, struct client_result *res),
                             void *ud)
{
    struct buf path, body;
    struct call *call = NULL;
    buf_init(&path, 64 << 10);
    buf_init(&body, 4096);
    if (finalizer_patch_write(metadata, finalizer, &body)) {
        resource_path(resource, json_get_str(metadata, "namespace"), json_get_str(metadata, "name"), NULL,
                      NULL, &path);
        call = client_send(client,
                           &(struct client_request){.method = METHOD_PATCH,
                                                    .path = path.data,
                                                    .content_type = "application/json-patch+json",
                                                    .body = body.data,
                                                    .body_len = body.len,
                                                    .as = &identity_host},
                           on_done, ud);
    }
    buf_fini(&path);
    buf_fini(&body);
    return call;
}
