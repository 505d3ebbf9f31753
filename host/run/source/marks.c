#include "run/source/marks.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/digest.h"

#include <stdlib.h>

static void short_hash(char out[MARKS_HASH_MAX], const char *text)
{
    char hex[DIGEST_SHA256_HEX];
    digest_sha256_hex(text, strlen(text), hex);
    memcpy(out, hex, MARKS_HASH_MAX - 1);
    out[MARKS_HASH_MAX - 1] = '\0';
}

void marks_script_hash(char out[MARKS_HASH_MAX], const char *instance, const char *ns, const char *name)
{
    char *text = xasprintf("%s/%s/%s", instance, ns, name);
    short_hash(out, text);
    free(text);
}

void marks_manager(char out[MARKS_MANAGER_MAX], const char *name, const char *hash)
{
    snprintf(out, MARKS_MANAGER_MAX, "tidelock-%.63s-%.16s", name, hash);
}

void marks_finalizer(char out[MARKS_FINALIZER_MAX], const char *hash)
{
    snprintf(out, MARKS_FINALIZER_MAX, "tidelock.dev/%.16s", hash);
}

void marks_subject_hash(char out[MARKS_HASH_MAX], const char *subject_uid)
{
    short_hash(out, subject_uid);
}

void marks_patch_manager(char out[MARKS_MANAGER_MAX], const char *manager, const char *subject_uid)
{
    char hash[MARKS_HASH_MAX];
    short_hash(hash, subject_uid);
    snprintf(out, MARKS_MANAGER_MAX, "%.100s-%s", manager, hash);
}

void marks_report_manager(char out[MARKS_MANAGER_MAX], const char *script_hash)
{
    snprintf(out, MARKS_MANAGER_MAX, "tidelock.host-%.16s", script_hash);
}
