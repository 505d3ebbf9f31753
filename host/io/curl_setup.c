// What all of libcurl's handles of a transport have in common: how to reach the server, and whom to trust.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/curl_impl.h"

struct material *curl_setup_material_new(const char *ca, const char *cert, const char *key)
{
    struct material *m = xcalloc(1, sizeof(*m));
    m->refs = 1;
    m->ca = xstrdup(ca);
    m->cert = xstrdup(cert);
    m->key = xstrdup(key);
    return m;
}

void curl_setup_material_unref(struct material *m)
{
    if (m == NULL || --m->refs > 0)
        return;
    free(m->ca);
    free(m->cert);
    if (m->key != NULL)
        explicit_bzero(m->key, strlen(m->key));
    free(m->key);
    free(m);
}

static void set_blob(CURL *easy, CURLoption option, char *pem)
{
    if (pem == NULL)
        return;
    struct curl_blob blob = {pem, strlen(pem), CURL_BLOB_NOCOPY};
    curl_easy_setopt(easy, option, &blob);
}

void curl_setup_material(CURL *easy, struct material **kept, struct material *m)
{
    if (*kept == m)
        return;
    if (m->ca != NULL) {
        // A CA that is given is the only one; libcurl would still read the system's directory.
        curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    set_blob(easy, CURLOPT_CAINFO_BLOB, m->ca);
    set_blob(easy, CURLOPT_SSLCERT_BLOB, m->cert);
    set_blob(easy, CURLOPT_SSLKEY_BLOB, m->key);
    m->refs++;
    curl_setup_material_unref(*kept);
    *kept = m;
}

void curl_setup_connection(CURL *easy, const struct curl_transport *t)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_URL, t->base);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, t->connect_to);
    if (t->options.insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (t->proxy != NULL) {
        curl_easy_setopt(easy, CURLOPT_PROXY, t->proxy);
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    }
}
