#include "io/curl_impl.h"

#include <string.h>

#include "io/tls.h"

static bool has_text(const char *detail, const char *text)
{
    return strstr(detail, text) != NULL;
}

static const struct curl_problem {
    CURLcode result;
    enum err_code code;
    const char *text;
} curl_problems[] = {
    {CURLE_COULDNT_RESOLVE_HOST, ERR_NETWORK, "its name can not be resolved"},
    {CURLE_COULDNT_RESOLVE_PROXY, ERR_NETWORK, "the name of the proxy can not be resolved"},
    {CURLE_COULDNT_CONNECT, ERR_NETWORK, "no connection"},
    {CURLE_PROXY, ERR_NETWORK, "the proxy does not let it through"},
    {CURLE_OPERATION_TIMEDOUT, ERR_TIMEOUT, "no answer in time"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_TLS, "its certificate is not trusted by the certificate-authority"},
    {CURLE_SSL_CONNECT_ERROR, ERR_TLS, "the TLS handshake failed"},
    {CURLE_SSL_CERTPROBLEM, ERR_TLS, "the client-certificate or client-key can not be used"},
    {CURLE_SSL_CACERT_BADFILE, ERR_TLS, "the certificate-authority can not be used"},
    {CURLE_SSL_ISSUER_ERROR, ERR_TLS, "its certificate is not trusted by the certificate-authority"},
    {CURLE_SSL_CIPHER, ERR_TLS, "no common cipher"},
    {CURLE_BAD_CONTENT_ENCODING, ERR_NETWORK, "the compressed answer is damaged"},
    {CURLE_GOT_NOTHING, ERR_NETWORK, "it closed the connection without an answer"},
    {CURLE_PARTIAL_FILE, ERR_NETWORK, "it closed the connection in the middle of the answer"},
    {CURLE_RECV_ERROR, ERR_NETWORK, "the connection was lost"},
    {CURLE_SEND_ERROR, ERR_NETWORK, "the connection was lost"},
    {CURLE_URL_MALFORMAT, ERR_INVALID, "this is no usable URL"},
};

static struct curl_problem problem_of(const char *detail, CURLcode result)
{
    static const char *const broken[] = {"reset", "SSL_ERROR_SYSCALL", "unexpected eof", "Broken pipe"};
    bool handshake = result == CURLE_SSL_CONNECT_ERROR;
    for (size_t i = 0; handshake && i < sizeof(broken) / sizeof(broken[0]); i++) {
        if (has_text(detail, broken[i]))
            return (struct curl_problem){result, ERR_NETWORK, "the connection was lost in the TLS handshake"};
    }
    if (handshake && has_text(detail, "wrong version number"))
        return (struct curl_problem){result, ERR_TLS, "it does not speak TLS on this port (is it http:// ?)"};
    bool alert =
        has_text(detail, " alert ") && (has_text(detail, "certificate") || has_text(detail, "unknown ca"));
    if (alert && (handshake || result == CURLE_RECV_ERROR || result == CURLE_SEND_ERROR))
        return (struct curl_problem){result, ERR_TLS, "it does not take the client-certificate"};
    for (size_t i = 0; i < sizeof(curl_problems) / sizeof(curl_problems[0]); i++) {
        if (curl_problems[i].result == result)
            return curl_problems[i];
    }
    return (struct curl_problem){result, ERR_NETWORK, "the request failed"};
}

void curl_problem_describe_stop(const struct call *x, struct err *e)
{
    const char *server = curl_impl_transport(x)->server;
    switch (-x->stop) {
    case ERR_LIMIT:
        err_set(e, ERR_LIMIT, "%s: the answer is larger than %zu bytes", server, x->answer.max);
        break;
    case ERR_TIMEOUT:
        err_set(e, ERR_TIMEOUT, "%s: nothing came on the stream for %u ms", server, x->idle_ms);
        break;
    case ERR_NETWORK:
        err_set(e, ERR_NETWORK, "%s: the connection was lost before the answer, the %s is not repeated",
                server, transport_method_name(x->method));
        break;
    default:
        err_set(e, ERR_CANCELED, "%s: the stream was ended by its reader", server);
    }
}

static const char *verify_hint(CURL *easy, const char *detail)
{
    long verify = 0;
    if (has_text(detail, "subject name"))
        return "it is for another name; use a server name that it lists, or set the TLS server name";
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verify);
    return tls_verify_hint(verify);
}

void curl_problem_describe_connection(const struct curl_transport *t, CURL *easy, const char *detail,
                                      CURLcode result, struct err *e)
{
    struct curl_problem p = problem_of(detail, result);
    const char *hint = result == CURLE_PEER_FAILED_VERIFICATION ? verify_hint(easy, detail) : NULL;
    if (detail[0] == '\0')
        detail = curl_easy_strerror(result);
    err_set(e, p.code, "%s: %s: %s%s%s", t->server, p.text, hint != NULL ? hint : detail,
            hint != NULL ? ": " : "", hint != NULL ? detail : "");
}

void curl_problem_describe(struct call *x, CURLcode result, struct err *e)
{
    if (x->stop != 0)
        curl_problem_describe_stop(x, e);
    else
        curl_problem_describe_connection(curl_impl_transport(x), x->easy, x->detail, result, e);
}

// Is the connection to blame, so that others on it will fare no better?
bool curl_problem_is_of_connection(const struct call *x, CURLcode result)
{
    switch (result) {
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    case CURLE_ABORTED_BY_CALLBACK:
        return x->stop == -ERR_NETWORK;
    case CURLE_OPERATION_TIMEDOUT:
        return x->pool->last_byte_ms <= x->sent_ms;
    default:
        return false;
    }
}
