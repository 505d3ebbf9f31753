// One request as a stream of an HTTP/2 connection; for io/h2_conn.c, which owns the session. Loop thread.
#ifndef IO_H2_CALL_H
#define IO_H2_CALL_H

#include <nghttp2/nghttp2.h>

#include "io/curl_impl.h"

int h2_call_submit(struct call *x,
                   nghttp2_session *s); // 0 or a code of nghttp2: the connection takes no more
void h2_call_detach(struct call *x, nghttp2_session *s); // resets its stream: no callback finds x any more
void h2_call_reset(struct call *x);                      // as before it was submitted
// What comes on its stream. Each sets x->stop where it can not go on.
void h2_call_on_header(struct call *x, const uint8_t *name, size_t name_len, const uint8_t *value,
                       size_t value_len);
void h2_call_on_header_end(struct call *x);
void h2_call_on_data(struct call *x, const uint8_t *data, size_t n);
// How the call has ended, after its answer, the end of its stream, or when we stopped it: 0 or e's code.
int h2_call_judge(struct call *x, struct err *e);

#endif
