// Who a read or write is done as. Passed to every one of them, so that a script's own service account is a
// setting.
#ifndef KUBE_IDENTITY_H
#define KUBE_IDENTITY_H

struct identity {
    const char *user; // "system:serviceaccount:ns:name"; NULL: the host itself
};

extern const struct identity identity_host;

#endif
