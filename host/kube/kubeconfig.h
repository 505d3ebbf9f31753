// Kubeconfig files, merged and read as kubectl does: of several files the first that has an entry or a
// current-context wins, and file references resolve against the file they stand in. Start-up only: reads
// files.
#ifndef KUBE_KUBECONFIG_H
#define KUBE_KUBECONFIG_H

#include "base/err.h"
#include "base/strset.h"
#include "kube/config.h"

// Reads `paths`, which exist, and fills what the context says into *ret (server, TLS, credentials, namespace,
// source); on failure *ret holds part of it and is freed by the caller. context and server as in
// kube_config_options.
int kubeconfig_load(const struct strset *paths, const char *context, const char *server,
                    struct kube_config *ret, struct err *e);

#endif
