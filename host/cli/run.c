#include "cli/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "cli/options.h"
#include "kube/config.h"
#include "run/admin.h"
#include "run/host.h"

enum { EXIT_CLEAN = 0, EXIT_CUT = 1, EXIT_CONFIG = 2 };

struct program_state {
    struct run_options options;
    struct kube_config *config;
    struct loop *loop;
    struct metrics *metrics;
    struct client *client;
    struct host *host;
    struct admin *admin;
    struct loop_timer *grace;
    int exit_code;
    bool stopping, stopped;
};

static int complain(const struct err *e)
{
    fprintf(stderr, "tidelock: %s\n", e->text);
    return EXIT_CONFIG;
}

// ---- stopping

static void on_stopped(void *ud)
{
    struct program_state *p = ud;
    p->stopped = true;
    log_info("stopped", F_INT("exit", p->exit_code));
    loop_stop(p->loop);
}

static void on_grace_over(void *ud)
{
    struct program_state *p = ud;
    log_error("writes under way did not end in time", F_INT("grace_ms", (int64_t)p->options.grace_ms));
    p->exit_code = EXIT_CUT;
    loop_stop(p->loop);
}

static void stop(struct program_state *p)
{
    p->stopping = true;
    loop_timer_start(p->grace, p->options.grace_ms);
    host_stop(p->host, on_stopped, p);
}

static void on_signal(void *ud, int signo)
{
    struct program_state *p = ud;
    if (p->stopping) { // the second one: at once
        log_warn("stopping at once", F_INT("signal", signo));
        log_stop();
        _exit(128 + signo);
    }
    log_info("stopping: writes under way finish", F_INT("signal", signo),
             F_INT("grace_ms", (int64_t)p->options.grace_ms));
    stop(p);
}

static void on_fatal(void *ud, const struct err *e)
{
    struct program_state *p = ud;
    struct err line = *e;
    err_prefix(&line, "%s", p->config->source);
    log_stop(); // what was logged comes first
    p->exit_code = complain(&line);
    stop(p);
}

// ---- starting

static int read_config(struct program_state *p, struct err *e)
{
    const struct run_options *o = &p->options;
    struct kube_config_options c = {
        .kubeconfig = o->kubeconfig,
        .context = o->context,
        .server = o->server,
        .env_kubeconfig = getenv("KUBECONFIG"),
        .home = getenv("HOME"),
        .service_host = getenv("KUBERNETES_SERVICE_HOST"),
        .service_port = getenv("KUBERNETES_SERVICE_PORT"),
    };
    return kube_config_load(&c, &p->config, e);
}

static int choose_namespaces(struct program_state *p, struct err *e)
{
    struct run_options *o = &p->options;
    if (o->namespace_ == NULL)
        o->namespace_ = p->config->in_cluster && p->config->namespace_ != NULL ? p->config->namespace_
                                                                               : "tidelock-system";
    if (o->scripts_namespace == NULL)
        o->scripts_namespace = o->namespace_;
    bool shared =
        strcmp(o->scripts_namespace, "default") == 0 || strcmp(o->scripts_namespace, "kube-system") == 0;
    if (shared && !o->allow_scripts_anywhere)
        return err_set(e, ERR_INVALID,
                       "--scripts-namespace %s: whoever may edit ConfigMaps there would act with the host's "
                       "rights; use a namespace of its "
                       "own, or add --allow-shared-namespace",
                       o->scripts_namespace);
    return 0;
}

static int open_host(struct program_state *p, struct err *e)
{
    const struct run_options *o = &p->options;
    struct random random;
    random_init_kernel(&random);
    int r = client_new(p->loop, p->config, p->metrics, &p->client, e);
    if (r < 0)
        return r;
    r = host_new(&(struct host_options){.loop = p->loop,
                                        .client = p->client,
                                        .metrics = p->metrics,
                                        .grants = o->grants,
                                        .instance = o->instance,
                                        .namespace_ = o->namespace_,
                                        .scripts_namespace = o->scripts_namespace,
                                        .scripts_folder = o->scripts_folder,
                                        .env_json = o->env_json,
                                        .namespaces = &o->namespaces,
                                        .workers = o->workers,
                                        .max_writes = o->max_writes,
                                        .script_cpu_us = o->script_cpu_us,
                                        .max_pass_cpu_us = o->max_pass_cpu_us,
                                        .max_pass_memory = o->max_pass_memory,
                                        .seed = random_u64(&random),
                                        .on_fatal = on_fatal,
                                        .ud = p},
                 &p->host, e);
    if (r == 0 && o->admin_address[0] != '\0')
        r = admin_new(p->loop, o->admin_address, p->host, p->metrics, &p->admin, e);
    return r;
}

static void run_loop(struct program_state *p)
{
    signal(SIGPIPE, SIG_IGN);
    loop_on_signal(p->loop, SIGTERM, on_signal, p);
    loop_on_signal(p->loop, SIGINT, on_signal, p);
    log_info("tidelock starts", F_STR("version", TIDELOCK_VERSION), F_STR("server", p->config->server),
             F_STR("config", p->config->source), F_STR("scripts_namespace", p->options.scripts_namespace),
             F_STR("scripts", p->options.scripts_folder), F_INT("workers", (int64_t)p->options.workers));
    if (p->admin != NULL)
        log_info("admin address", F_STR("address", p->options.admin_address),
                 F_INT("port", (int64_t)admin_port(p->admin)));
    host_start(p->host);
    loop_run(p->loop);
}

static void close_all(struct program_state *p)
{
    // Something is still under way: nothing can be freed in order.
    if (p->exit_code == EXIT_CUT || (p->host != NULL && host_stuck_workers(p->host) > 0)) {
        log_stop();
        _exit(p->exit_code);
    }
    admin_free(p->admin);
    host_free(p->host);
    client_free(p->client);
    metrics_free(p->metrics);
    if (p->grace != NULL)
        loop_timer_free(p->grace);
    if (p->loop != NULL)
        loop_free(p->loop);
    kube_config_free(p->config);
    log_stop();
}

static int start(struct program_state *p, struct err *e)
{
    int r = read_config(p, e);
    if (r == 0)
        r = choose_namespaces(p, e);
    if (r < 0)
        return r;
    p->loop = loop_new(clock_real());
    p->metrics = metrics_new();
    p->grace = loop_timer_new(p->loop, on_grace_over, p);
    return open_host(p, e);
}

int cli_run(int argc, char **argv)
{
    struct program_state p = {.exit_code = EXIT_CLEAN};
    struct err e = {0};
    int r = run_options_parse(&p.options, argc, argv, &e);
    if (r == 0 && p.options.help) {
        fputs(run_options_help, stdout);
        run_options_fini(&p.options);
        return 0;
    }
    if (r == 0) {
        log_start(STDERR_FILENO, p.options.log_level, p.options.log_format);
        r = start(&p, &e);
    }
    if (r == 0)
        run_loop(&p);
    else
        p.exit_code = complain(&e);
    close_all(&p);
    run_options_fini(&p.options);
    return p.exit_code;
}
