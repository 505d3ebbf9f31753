#include "cli/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "data/json.h"
#include "data/quantity.h"
#include "run/source/script.h"

enum { PASS_CPU_MAX_US = 60 * 1000 * 1000, PASS_MEMORY_MAX = 1024 * 1024 * 1024 };

const char run_options_help[] =
    "Usage: tidelock run [flags]\n"
    "\n"
    "Runs the scripts of a folder and of the ConfigMaps labelled tidelock.dev/scripts=true against a "
    "cluster.\n"
    "\n"
    "Where the API server is (default: $KUBECONFIG, ~/.kube/config, or the pod's service account):\n"
    "  --kubeconfig FILE          kubeconfig to read\n"
    "  --context NAME             its context (default: current-context)\n"
    "  --server, --master URL     another address for its cluster\n"
    "\n"
    "Scripts:\n"
    "  --scripts DIR              run the .lua files of this folder, and of each folder in it\n"
    "  --scripts-namespace NS     take ConfigMaps from here (default: the host's own namespace)\n"
    "  --allow-shared-namespace   accept default or kube-system for that: everybody who may edit ConfigMaps "
    "there\n"
    "                             then acts with the host's rights\n"
    "  --grant SCRIPT=group/Kind  let a script touch a kind that is denied by default (Secrets, RBAC, CRDs "
    "...); repeatable\n"
    "  --namespaces A,B           look into and write to these namespaces only\n"
    "  --env JSON                 object that scripts see as world.env\n"
    "\n"
    "The host:\n"
    "  --instance NAME            name of this host, part of its scripts' identity (default: tidelock)\n"
    "  --namespace NS             where it keeps its inventories (default: the pod's, or tidelock-system)\n"
    "  --workers N                passes side by side (default: number of processors, 2 at least)\n"
    "  --max-writes N             writes in flight (default: 64)\n"
    "  --script-cpu DURATION      CPU time a script may use a minute, over all workers; one that uses more "
    "waits\n"
    "                             (default: 10s)\n"
    "  --max-pass-cpu DURATION    the most that a script's limits.cpu may ask for (default: 1s, or\n"
    "                             --script-cpu where that is less)\n"
    "  --max-pass-memory SIZE     the most that its limits.memory may ask for; a worker may need four times "
    "as "
    "much\n"
    "                             for a moment (default: 64Mi)\n"
    "  --grace DURATION           time for passes and writes under way after SIGTERM (default: 30s)\n"
    "  --admin-address HOST:PORT  /metrics, /healthz, /readyz (default: 127.0.0.1:8080; empty: none)\n"
    "\n"
    "Logs:\n"
    "  --log-level LEVEL          error, warn, info, debug or trace (default: info)\n"
    "  -v N                       the same as klog users know it: 4 is debug, 6 trace\n"
    "  --log-format FORMAT        json or text (default: text on a terminal, json otherwise)\n";

enum {
    OPT_KUBECONFIG = 256,
    OPT_CONTEXT,
    OPT_SERVER,
    OPT_SCRIPTS,
    OPT_SCRIPTS_NAMESPACE,
    OPT_SHARED,
    OPT_GRANT,
    OPT_NAMESPACES,
    OPT_ENV,
    OPT_INSTANCE,
    OPT_NAMESPACE,
    OPT_WORKERS,
    OPT_MAX_WRITES,
    OPT_SCRIPT_CPU,
    OPT_MAX_PASS_CPU,
    OPT_MAX_PASS_MEMORY,
    OPT_GRACE,
    OPT_ADMIN,
    OPT_LOG_LEVEL,
    OPT_LOG_FORMAT,
};

static const struct option flags[] = {
    {"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
    {"context", required_argument, NULL, OPT_CONTEXT},
    {"server", required_argument, NULL, OPT_SERVER},
    {"master", required_argument, NULL, OPT_SERVER},
    {"scripts", required_argument, NULL, OPT_SCRIPTS},
    {"scripts-namespace", required_argument, NULL, OPT_SCRIPTS_NAMESPACE},
    {"allow-shared-namespace", no_argument, NULL, OPT_SHARED},
    {"grant", required_argument, NULL, OPT_GRANT},
    {"namespaces", required_argument, NULL, OPT_NAMESPACES},
    {"env", required_argument, NULL, OPT_ENV},
    {"instance", required_argument, NULL, OPT_INSTANCE},
    {"namespace", required_argument, NULL, OPT_NAMESPACE},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"max-writes", required_argument, NULL, OPT_MAX_WRITES},
    {"script-cpu", required_argument, NULL, OPT_SCRIPT_CPU},
    {"max-pass-cpu", required_argument, NULL, OPT_MAX_PASS_CPU},
    {"max-pass-memory", required_argument, NULL, OPT_MAX_PASS_MEMORY},
    {"grace", required_argument, NULL, OPT_GRACE},
    {"admin-address", required_argument, NULL, OPT_ADMIN},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"log-format", required_argument, NULL, OPT_LOG_FORMAT},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int parse_number(const char *flag, const char *text, unsigned long max, unsigned *ret, struct err *e)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || v == 0 || v > max)
        return err_set(e, ERR_INVALID, "%s %s: expected a number from 1 to %lu", flag, text, max);
    *ret = (unsigned)v;
    return 0;
}

static int parse_grace(struct run_options *o, const char *text, struct err *e)
{
    int64_t us;
    if (duration_parse(text, &us) < 0 || us < 0)
        return err_set(e, ERR_INVALID, "--grace %s: expected a duration such as 30s or 1m30s", text);
    o->grace_ms = (uint64_t)us / 1000;
    return 0;
}

static int parse_script_cpu(struct run_options *o, const char *text, struct err *e)
{
    int64_t us;
    if (duration_parse(text, &us) < 0 || us < 100 * 1000 || us > 24 * 3600 * (int64_t)1000000)
        return err_set(e, ERR_INVALID, "--script-cpu %s: expected a duration from 100ms, such as 10s", text);
    o->script_cpu_us = (uint64_t)us;
    return 0;
}

// Not below what every script has without asking.
static int parse_max_pass_cpu(struct run_options *o, const char *text, struct err *e)
{
    int64_t us;
    if (duration_parse(text, &us) < 0 || us < PROGRAM_CPU_US || us > PASS_CPU_MAX_US)
        return err_set(e, ERR_INVALID, "--max-pass-cpu %s: expected a duration from 100ms to 1m, such as 1s",
                       text);
    o->max_pass_cpu_us = (uint64_t)us;
    return 0;
}

static int parse_max_pass_memory(struct run_options *o, const char *text, struct err *e)
{
    uint64_t n;
    if (quantity_whole(text, &n) < 0 || n < PROGRAM_MEMORY || n > PASS_MEMORY_MAX)
        return err_set(e, ERR_INVALID, "--max-pass-memory %s: expected a size from 16Mi to 1Gi, such as 64Mi",
                       text);
    o->max_pass_memory = (size_t)n;
    return 0;
}

// A pass that its script's share could not hold would be paid for by nobody.
static int check_share(struct run_options *o, struct err *e)
{
    if (o->max_pass_cpu_us == 0)
        o->max_pass_cpu_us =
            o->script_cpu_us < SCRIPT_MAX_PASS_CPU_US ? o->script_cpu_us : SCRIPT_MAX_PASS_CPU_US;
    if (o->max_pass_cpu_us <= o->script_cpu_us)
        return 0;
    return err_set(
        e, ERR_INVALID,
        "--max-pass-cpu must not be more than --script-cpu: one pass has to fit into what its script may "
        "use a minute");
}

static int parse_env(struct run_options *o, const char *text, struct err *e)
{
    struct json_doc *doc;
    int r = json_parse(text, strlen(text), &doc, e);
    if (r < 0)
        return err_prefix(e, "--env");
    bool object = json_is_object(json_root(doc));
    json_doc_free(doc);
    if (!object)
        return err_set(e, ERR_INVALID, "--env: expected a JSON object such as {\"name\":\"staging\"}");
    o->env_json = text;
    return 0;
}

static int parse_log(struct run_options *o, int option, const char *text, struct err *e)
{
    char *end;
    long v;
    switch (option) {
    case OPT_LOG_LEVEL:
        if (log_level_parse(text, &o->log_level) < 0)
            return err_set(e, ERR_INVALID, "--log-level %s: expected error, warn, info, debug or trace",
                           text);
        return 0;
    case OPT_LOG_FORMAT:
        if (strcmp(text, "json") != 0 && strcmp(text, "text") != 0)
            return err_set(e, ERR_INVALID, "--log-format %s: expected json or text", text);
        o->log_format = strcmp(text, "json") == 0 ? LOG_JSON : LOG_TEXT;
        return 0;
    default:
        v = strtol(text, &end, 10);
        if (*end != '\0' || end == text || v < 0 || v > 99)
            return err_set(e, ERR_INVALID, "-v %s: expected a number from 0 to 99", text);
        o->log_level = log_level_of_v((int)v);
        return 0;
    }
}

static int parse_limit(struct run_options *o, int option, const char *text, struct err *e)
{
    switch (option) {
    case OPT_WORKERS:
        return parse_number("--workers", text, 256, &o->workers, e);
    case OPT_MAX_WRITES:
        return parse_number("--max-writes", text, 10000, &o->max_writes, e);
    case OPT_GRACE:
        return parse_grace(o, text, e);
    case OPT_SCRIPT_CPU:
        return parse_script_cpu(o, text, e);
    case OPT_MAX_PASS_CPU:
        return parse_max_pass_cpu(o, text, e);
    case OPT_MAX_PASS_MEMORY:
        return parse_max_pass_memory(o, text, e);
    case OPT_GRANT:
        return grants_add(o->grants, text, e);
    case OPT_ENV:
        return parse_env(o, text, e);
    default:
        strset_add_split(&o->namespaces, text, ',');
        strset_sort(&o->namespaces);
        return 0;
    }
}

// Flags that are only a text; NULL for others.
static const char **text_of(struct run_options *o, int option)
{
    switch (option) {
    case OPT_KUBECONFIG:
        return &o->kubeconfig;
    case OPT_CONTEXT:
        return &o->context;
    case OPT_SERVER:
        return &o->server;
    case OPT_SCRIPTS:
        return &o->scripts_folder;
    case OPT_SCRIPTS_NAMESPACE:
        return &o->scripts_namespace;
    case OPT_INSTANCE:
        return &o->instance;
    case OPT_NAMESPACE:
        return &o->namespace_;
    case OPT_ADMIN:
        return &o->admin_address;
    default:
        return NULL;
    }
}

static int take_flag(struct run_options *o, int option, const char *arg, struct err *e)
{
    const char **text = text_of(o, option);
    if (text != NULL) {
        *text = arg;
        return 0;
    }
    switch (option) {
    case 'h':
        o->help = true;
        return 0;
    case OPT_SHARED:
        o->allow_scripts_anywhere = true;
        return 0;
    case 'v':
    case OPT_LOG_LEVEL:
    case OPT_LOG_FORMAT:
        return parse_log(o, option, arg, e);
    default:
        return parse_limit(o, option, arg, e);
    }
}

static void set_defaults(struct run_options *o)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *o = (struct run_options){
        .instance = "tidelock",
        .admin_address = "127.0.0.1:8080",
        .workers = cpus < 2    ? 2
                   : cpus > 16 ? 16
                               : (unsigned)cpus,
        .max_writes = 64,
        .grace_ms = 30 * 1000,
        .script_cpu_us = 10 * 1000 * 1000,
        .max_pass_memory = SCRIPT_MAX_PASS_MEMORY,
        .log_level = LOG_INFO,
        .log_format = isatty(STDERR_FILENO) ? LOG_TEXT : LOG_JSON,
        .grants = grants_new(),
    };
    strset_init(&o->namespaces);
}

int run_options_parse(struct run_options *o, int argc, char **argv, struct err *e)
{
    int option, r = 0;
    set_defaults(o);
    opterr = 0;
    optind = 1;
    while (r == 0 && (option = getopt_long(argc, argv, ":hv:", flags, NULL)) != -1) {
        if (option == ':')
            r = err_set(e, ERR_INVALID, "%s needs a value (see tidelock run --help)", argv[optind - 1]);
        else if (option == '?')
            r = err_set(e, ERR_INVALID, "unknown flag %s (see tidelock run --help)", argv[optind - 1]);
        else
            r = take_flag(o, option, optarg, e);
    }
    if (r == 0 && optind < argc)
        r = err_set(e, ERR_INVALID, "unexpected argument %s (see tidelock run --help)", argv[optind]);
    if (r == 0)
        r = check_share(o, e);
    return r;
}

void run_options_fini(struct run_options *o)
{
    strset_fini(&o->namespaces);
    grants_free(o->grants);
}
