#include "kube/config_url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/strset.h"

struct url {
    char *scheme; // lower case
    char *host;   // with its brackets
    char *port;   // "" when there is none
    char *path;   // "" or "/..."
};

static void url_fini(struct url *u)
{
    free(u->scheme);
    free(u->host);
    free(u->port);
    free(u->path);
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool only(const char *s, const char *also)
{
    for (; *s != '\0'; s++)
        if (!is_alnum(*s) && strchr(also, *s) == NULL)
            return false;
    return true;
}

static int check_port(const char *port, struct err *e)
{
    size_t n = strlen(port);
    if (n == 0 || n > 5 || strspn(port, "0123456789") != n || atoi(port) < 1 || atoi(port) > 65535)
        return err_set(e, ERR_INVALID, "\"%.60s\" is no port number (1 to 65535)", port);
    return 0;
}

static bool is_ipv6(const char *text)
{
    struct in6_addr a;
    return inet_pton(AF_INET6, text, &a) == 1;
}

// The inside of "[...]": an address, perhaps with a zone ("%25eth0").
static int check_bracketed(const char *inside, struct err *e)
{
    const char *zone = strchr(inside, '%');
    char *address = zone == NULL ? xstrdup(inside) : xstrndup(inside, (size_t)(zone - inside));
    bool good = is_ipv6(address);
    free(address);
    if (!good)
        return err_set(e, ERR_INVALID, "\"[%.100s]\" is no IPv6 address", inside);
    if (zone != NULL && (!str_has_prefix(zone, "%25") || zone[3] == '\0' || !only(zone + 3, "._-")))
        return err_set(e, ERR_INVALID, "the zone in \"[%.100s]\" must be written %%25name", inside);
    return 0;
}

static int check_host(const char *host, struct err *e)
{
    if (*host == '\0')
        return err_set(e, ERR_INVALID, "it has no host: write https://host:port");
    if (strlen(host) > 255 || !only(host, ".-_"))
        return err_set(e, ERR_INVALID, "\"%.100s\" is no host name", host);
    return 0;
}

// host, host:port, [v6], [v6]:port
static int split_authority(const char *text, struct url *u, struct err *e)
{
    const char *after = text + strcspn(text, ":");
    if (*text == '[') {
        const char *end = strchr(text, ']');
        if (end == NULL)
            return err_set(e, ERR_INVALID, "\"%.100s\" has no closing bracket", text);
        after = end + 1;
    } else if (*after == ':' && strchr(after + 1, ':') != NULL) {
        return err_set(e, ERR_INVALID, "an IPv6 address stands in brackets: [%.100s]", text);
    }
    u->host = xstrndup(text, (size_t)(after - text));
    u->port = xstrdup(*after == ':' ? after + 1 : "");
    if (*after != '\0' && *after != ':')
        return err_set(e, ERR_INVALID, "\"%.100s\" has something between the address and the port", text);
    int rc = *after == ':' ? check_port(u->port, e) : 0;
    if (rc < 0)
        return rc;
    if (*text != '[')
        return check_host(u->host, e);
    char *inside = xstrndup(text + 1, strlen(u->host) - 2);
    rc = check_bracketed(inside, e);
    free(inside);
    return rc;
}

static int check_characters(const char *text, struct err *e)
{
    for (const char *s = text; *s != '\0'; s++)
        if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f)
            return err_set(e, ERR_INVALID,
                           "it holds a blank or another character that an address can not have");
    if (strpbrk(text, "?#") != NULL)
        return err_set(e, ERR_INVALID, "it has a query or fragment ('?', '#'): leave it away");
    return 0;
}

// `scheme`: of a text without one; NULL: it must have one.
static int split(const char *text, const char *scheme, struct url *u, struct err *e)
{
    int rc = check_characters(text, e);
    if (rc < 0)
        return rc;
    const char *rest = strstr(text, "://");
    if (rest == NULL && scheme == NULL)
        return err_set(e, ERR_INVALID, "\"%.100s\" has no scheme: write https://%.100s", text, text);
    u->scheme = rest == NULL ? xstrdup(scheme) : xstrndup(text, (size_t)(rest - text));
    rest = rest == NULL ? text : rest + 3;
    for (char *s = u->scheme; *s != '\0'; s++)
        *s = *s >= 'A' && *s <= 'Z' ? (char)(*s + 'a' - 'A') : *s;
    size_t n = strcspn(rest, "/"), path_len = strlen(rest + n);
    while (path_len > 0 && rest[n + path_len - 1] == '/')
        path_len--;
    u->path = xstrndup(rest + n, path_len);
    char *authority = xstrndup(rest, n);
    if (strchr(authority, '@') != NULL)
        rc = err_set(e, ERR_INVALID,
                     "it holds a user name or password: credentials belong into the user's entry");
    else
        rc = split_authority(authority, u, e);
    free(authority);
    return rc;
}

static bool is_http(const char *scheme)
{
    return strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0;
}

int config_url_server(const char *text, bool tls, char **ret, struct err *e)
{
    struct url u = {0};
    bool bare = strstr(text, "://") == NULL;
    int rc = split(text, tls ? "https" : NULL, &u, e);
    if (rc == 0 && !is_http(u.scheme))
        rc = err_set(e, ERR_INVALID, "the scheme \"%.60s\" is neither https nor http", u.scheme);
    else if (rc == 0 && bare && u.path[0] != '\0')
        rc = err_set(e, ERR_INVALID, "\"%.100s\" has a path but no scheme: write https://%.100s", text, text);
    if (rc == 0)
        *ret = xasprintf("%s://%s%s%s%s", u.scheme, u.host, u.port[0] == '\0' ? "" : ":", u.port, u.path);
    url_fini(&u);
    return rc;
}

int config_url_in_cluster(const char *host, const char *port, char **ret, struct err *e)
{
    size_t n = strlen(host);
    bool bracketed = n > 2 && host[0] == '[' && host[n - 1] == ']';
    char *bare = bracketed ? xstrndup(host + 1, n - 2) : xstrdup(host);
    bool v6 = strchr(bare, ':') != NULL;
    int rc = v6 ? check_bracketed(bare, e) : check_host(bare, e);
    if (rc < 0) {
        err_prefix(e, "KUBERNETES_SERVICE_HOST");
    } else if ((rc = check_port(port == NULL ? "" : port, e)) < 0) {
        err_prefix(e, "KUBERNETES_SERVICE_PORT");
    } else {
        *ret = xasprintf(v6 ? "https://[%s]:%s" : "https://%s:%s", bare, port);
    }
    free(bare);
    return rc;
}

int config_url_check_proxy(const char *text, struct err *e)
{
    const char *end = strstr(text, "://");
    if (end == NULL)
        return err_set(e, ERR_INVALID,
                       "it has no scheme: write http://, https:// or socks5:// before the host");
    size_t n = (size_t)(end - text);
    static const char *const schemes[] = {"http", "https", "socks5"};
    bool known = false;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        known = known || (strlen(schemes[i]) == n && strncasecmp(text, schemes[i], n) == 0);
    if (!known)
        return err_set(e, ERR_INVALID, "the scheme \"%.*s\" is none of http, https, socks5",
                       n > 30 ? 30 : (int)n, text);
    const char *at = strrchr(end + 3, '@'); // a proxy may want a name and password
    if (check_characters(text, e) < 0)
        return -ERR_INVALID;
    struct url u = {0};
    char *authority = xstrdup(at == NULL ? end + 3 : at + 1);
    authority[strcspn(authority, "/")] = '\0';
    int rc = split_authority(authority, &u, e);
    free(authority);
    url_fini(&u);
    return rc;
}
