// A transport straight into the server. Loop thread.
#ifndef APISERVER_TRANSPORT_LOCAL_H
#define APISERVER_TRANSPORT_LOCAL_H

#include "apiserver/impl.h"

struct transport *transport_local_new(struct apiserver *s, const char *user);
// The server goes: transfers end without a callback, later ones get no answer.
void transport_local_detach(struct local_transport *t);

#endif
