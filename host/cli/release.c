#include "cli/release.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strset.h"
#include "kube/config.h"
#include "run/release/release.h"

enum { EXIT_DONE = 0, EXIT_PARTLY = 1, EXIT_CONFIG = 2, EXIT_NOTHING = 3 };

static const char help[] =
    "Usage: tidelock release NAME [flags]\n"
    "\n"
    "Hands back what a script left in the cluster that was removed or renamed: its children lose its marks "
    "and\n"
    "stay as they are, owned by nobody; fields it patched are given up (which removes them); its subjects "
    "lose\n"
    "its finalizer, so that they can be deleted; its inventory is deleted last. It can be broken off and "
    "repeated.\n"
    "\n"
    "Remove the script first. This command can not know whether a host still runs it: such a host would "
    "make\n"
    "the objects its own again. With --adopt-by, start the other script afterwards.\n"
    "\n"
    "  --namespace-of-script NS   namespace of the script's ConfigMap, \"-\" for a file (default: the "
    "host's)\n"
    "  --adopt-by [NS/]OTHER      another script takes all of it over: its next pass finds its children as "
    "they\n"
    "                             are to be (it must want the same, for subjects of the same kind)\n"
    "  --dry-run                  only print what would be done\n"
    "  --instance NAME            name of the host the script ran on (default: tidelock)\n"
    "  --namespace NS             where that host keeps its inventories (default: the pod's, or "
    "tidelock-system)\n"
    "  --namespaces A,B           look into these namespaces only\n"
    "\n"
    "Where the API server is (default: $KUBECONFIG, ~/.kube/config, or the pod's service account):\n"
    "  --kubeconfig FILE          kubeconfig to read\n"
    "  --context NAME             its context (default: current-context)\n"
    "  --server, --master URL     another address for its cluster\n"
    "\n"
    "Exit code: 0 done, 1 some of it could not be done, 2 wrong flags or configuration, 3 nothing to "
    "release.\n";

enum {
    OPT_KUBECONFIG = 256,
    OPT_CONTEXT,
    OPT_SERVER,
    OPT_INSTANCE,
    OPT_NAMESPACE,
    OPT_NAMESPACES,
    OPT_SCRIPT_NS,
    OPT_ADOPT_BY,
    OPT_DRY_RUN,
};

static const struct option flags[] = {
    {"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
    {"context", required_argument, NULL, OPT_CONTEXT},
    {"server", required_argument, NULL, OPT_SERVER},
    {"master", required_argument, NULL, OPT_SERVER},
    {"instance", required_argument, NULL, OPT_INSTANCE},
    {"namespace", required_argument, NULL, OPT_NAMESPACE},
    {"namespaces", required_argument, NULL, OPT_NAMESPACES},
    {"namespace-of-script", required_argument, NULL, OPT_SCRIPT_NS},
    {"adopt-by", required_argument, NULL, OPT_ADOPT_BY},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct program_state {
    const char *kubeconfig, *context, *server, *instance, *namespace_, *script_ns, *script, *adopt_by;
    struct strset namespaces;
    bool dry_run, help;
    struct kube_config *config;
    struct loop *loop;
    struct client *client;
    struct release *release;
    char *to_ns;
    int exit_code;
};

static void take_flag(struct program_state *p, int option, const char *arg)
{
    switch (option) {
    case OPT_KUBECONFIG:
        p->kubeconfig = arg;
        break;
    case OPT_CONTEXT:
        p->context = arg;
        break;
    case OPT_SERVER:
        p->server = arg;
        break;
    case OPT_INSTANCE:
        p->instance = arg;
        break;
    case OPT_NAMESPACE:
        p->namespace_ = arg;
        break;
    case OPT_NAMESPACES:
        strset_add_split(&p->namespaces, arg, ',');
        break;
    case OPT_SCRIPT_NS:
        p->script_ns = arg;
        break;
    case OPT_ADOPT_BY:
        p->adopt_by = arg;
        break;
    case OPT_DRY_RUN:
        p->dry_run = true;
        break;
    default:
        p->help = true;
    }
}

static int parse(struct program_state *p, int argc, char **argv, struct err *e)
{
    int option;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":h", flags, NULL)) != -1) {
        if (option == ':')
            return err_set(e, ERR_INVALID, "%s needs a value (see tidelock release --help)",
                           argv[optind - 1]);
        if (option == '?')
            return err_set(e, ERR_INVALID, "unknown flag %s (see tidelock release --help)", argv[optind - 1]);
        take_flag(p, option, optarg);
    }
    if (p->help)
        return 0;
    if (optind + 1 != argc)
        return err_set(e, ERR_INVALID, "%s (see tidelock release --help)",
                       optind == argc ? "which script? give its name" : "one script's name is expected");
    p->script = argv[optind];
    return 0;
}

static int choose_names(struct program_state *p, struct err *e)
{
    if (p->namespace_ == NULL)
        p->namespace_ = p->config->in_cluster && p->config->namespace_ != NULL ? p->config->namespace_
                                                                               : "tidelock-system";
    if (p->script_ns == NULL)
        p->script_ns = p->namespace_;
    if (p->adopt_by == NULL)
        return 0;
    const char *slash = strchr(p->adopt_by, '/');
    p->to_ns = slash == NULL ? strdup(p->script_ns) : strndup(p->adopt_by, (size_t)(slash - p->adopt_by));
    if (slash != NULL)
        p->adopt_by = slash + 1;
    if (strcmp(p->adopt_by, p->script) == 0 && strcmp(p->to_ns, p->script_ns) == 0)
        return err_set(e, ERR_INVALID, "--adopt-by %s: that is the script itself", p->adopt_by);
    return 0;
}

static int open_client(struct program_state *p, struct err *e)
{
    struct kube_config_options c = {
        .kubeconfig = p->kubeconfig,
        .context = p->context,
        .server = p->server,
        .env_kubeconfig = getenv("KUBECONFIG"),
        .home = getenv("HOME"),
        .service_host = getenv("KUBERNETES_SERVICE_HOST"),
        .service_port = getenv("KUBERNETES_SERVICE_PORT"),
    };
    int r = kube_config_load(&c, &p->config, e);
    if (r == 0)
        r = choose_names(p, e);
    if (r < 0)
        return r;
    p->loop = loop_new(clock_real());
    r = client_new(p->loop, p->config, NULL, &p->client, e);
    return r < 0 ? err_prefix(e, "%s", p->config->source) : 0;
}

// ---- running

static void print_line(void *ud, const char *line)
{
    (void)ud;
    puts(line);
}

static void on_done(void *ud, int r, const struct err *e, size_t done)
{
    struct program_state *p = ud;
    fflush(stdout);
    if (r == 0)
        printf("%zu objects %s%s\n", done, p->dry_run ? "would be " : "",
               p->adopt_by == NULL ? "released" : "handed over");
    else
        fprintf(stderr, "tidelock: %s\n", e->text);
    if (r < 0)
        p->exit_code = r == -ERR_NOT_FOUND && done == 0 ? EXIT_NOTHING : EXIT_PARTLY;
    if (r < 0 && p->exit_code == EXIT_PARTLY && !client_was_accepted(p->client))
        p->exit_code = EXIT_CONFIG;
    loop_stop(p->loop);
}

static void run(struct program_state *p)
{
    p->release = release_start(&(struct release_options){.client = p->client,
                                                         .instance = p->instance,
                                                         .namespace_ = p->namespace_,
                                                         .script_ns = p->script_ns,
                                                         .script = p->script,
                                                         .to_ns = p->to_ns,
                                                         .to = p->adopt_by,
                                                         .namespaces = &p->namespaces,
                                                         .dry_run = p->dry_run,
                                                         .say = print_line,
                                                         .on_done = on_done,
                                                         .ud = p});
    loop_run(p->loop);
}

static void close_all(struct program_state *p)
{
    release_free(p->release);
    client_free(p->client);
    if (p->loop != NULL)
        loop_free(p->loop);
    kube_config_free(p->config);
    strset_fini(&p->namespaces);
    free(p->to_ns);
}

int cli_release(int argc, char **argv)
{
    struct program_state p = {.instance = "tidelock"};
    struct err e = {0};
    strset_init(&p.namespaces);
    int r = parse(&p, argc, argv, &e);
    if (r == 0 && p.help) {
        fputs(help, stdout);
        close_all(&p);
        return 0;
    }
    log_start(STDERR_FILENO, LOG_WARN, LOG_TEXT);
    if (r == 0)
        r = open_client(&p, &e);
    if (r == 0) {
        run(&p);
    } else {
        fprintf(stderr, "tidelock: %s\n", e.text);
        p.exit_code = EXIT_CONFIG;
    }
    close_all(&p);
    log_stop();
    return p.exit_code;
}
