// Addresses as people write them into kubeconfigs and environments, checked and put into one form. Pure. The
// texts of errors do not name the field: the caller does, and they never hold a password.
#ifndef KUBE_CONFIG_URL_H
#define KUBE_CONFIG_URL_H

#include <stdbool.h>

#include "base/err.h"

// "https://host:6443/prefix" (no trailing slash, scheme in lower case) from a URL, or, when `tls` says that
// the configuration has something to do TLS with, from host:port. *ret: free(). 0 or -ERR_INVALID.
int config_url_server(const char *text, bool tls, char **ret, struct err *e);
// From KUBERNETES_SERVICE_HOST and _PORT; IPv6 with or without brackets. Names the variable.
int config_url_in_cluster(const char *host, const char *port, char **ret, struct err *e);
// http, https or socks5 with a host. 0 or -ERR_INVALID.
int config_url_check_proxy(const char *text, struct err *e);

#endif
