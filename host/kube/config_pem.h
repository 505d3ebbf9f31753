// First checks of PEM texts, so that a wrong file is told with the name of its field; io/tls.h looks deeper.
// Pure.
#ifndef KUBE_CONFIG_PEM_H
#define KUBE_CONFIG_PEM_H

#include "base/err.h"

// 0, or -ERR_TLS with a sentence that does not name the field.
int config_pem_check_certificates(const char *text, struct err *e);
int config_pem_check_key(const char *text, struct err *e);

#endif
