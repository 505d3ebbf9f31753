// Where the API server is and who we are: kubeconfig files (as kubectl reads them) or the in-cluster service
// account. Loading reads files and belongs to start-up; the token is reread later by a timer of the client.
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H

#include <stdbool.h>

#include "base/err.h"

struct kube_config {
    char *server;                                       // URL, scheme included, no trailing slash
    char *ca_pem;                                       // or NULL
    char *client_cert_pem;                              // or NULL
    char *client_key_pem;                               // or NULL
    char *token;                                        // or NULL
    char *token_file;                                   // beats `token`; or NULL
    char *ca_file, *client_cert_file, *client_key_file; // where the PEMs came from, for rereading; or NULL
    char *tls_server_name;                              // or NULL
    char *proxy_url;                                    // or NULL
    char *namespace_;                                   // context's or pod's, or NULL
    char *source; // for messages: "in-cluster" or "/path/config (context \"x\")"
    bool insecure;
    bool in_cluster;
};

struct kube_config_options {
    const char *kubeconfig; // --kubeconfig or NULL: then $KUBECONFIG (several paths, merged), ~/.kube/config,
                            // in-cluster
    const char *context;    // --context or NULL
    const char *server;     // --server/--master or NULL: beats the file's
    const char *env_kubeconfig, *home, *service_host, *service_port; // what the environment says; NULL: unset
    const char *service_account_dir; // NULL: /var/run/secrets/kubernetes.io/serviceaccount
};

// 0, or negative with ONE line that names file and field and says what to change. *ret: kube_config_free.
int kube_config_load(const struct kube_config_options *o, struct kube_config **ret, struct err *e);
void kube_config_free(struct kube_config *c);

#endif
