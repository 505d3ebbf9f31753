// Certificates for tests, made on the spot: a CA and what it issues. Texts are PEM.
#ifndef SPEC_SUPPORT_PKI_H
#define SPEC_SUPPORT_PKI_H

struct pki {
    char *cert;
    char *key;
};

enum pki_use { PKI_CA, PKI_SERVER, PKI_CLIENT };

// issuer NULL: signed by itself. san: "DNS:localhost,IP:127.0.0.1" or NULL. Valid from an hour ago until days
// from now.
struct pki pki_make(enum pki_use use, const struct pki *issuer, const char *name, const char *san, int days);
void pki_fini(struct pki *p);

#endif
