// The command line of `tidelock run`. Plain values, borrowed from argv or owned by the struct.
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/source/grants.h"

struct run_options {
    const char *kubeconfig, *context, *server;
    const char *scripts_folder, *scripts_namespace, *namespace_, *instance;
    const char *admin_address;
    const char *env_json;
    struct strset namespaces;
    struct grants *grants;
    unsigned workers, max_writes;
    uint64_t grace_ms, script_cpu_us, max_pass_cpu_us;
    size_t max_pass_memory;
    enum log_level log_level;
    enum log_format log_format;
    bool allow_scripts_anywhere;
    bool help;
};

// 0, or -ERR_INVALID with one line that names the flag.
int run_options_parse(struct run_options *o, int argc, char **argv, struct err *e);
void run_options_fini(struct run_options *o);
extern const char run_options_help[];

#endif
