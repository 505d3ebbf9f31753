// A whole host against the embedded API server, on a virtual clock, with inline workers: one thread, and the
// same trace for the same seed. Also plays the Deployment controller, the kubelets and the garbage collector,
// so that a Deployment gets pods and what lost its owner goes.
#ifndef SPEC_RUN_SIM_H
#define SPEC_RUN_SIM_H

#include "apiserver/apiserver.h"
#include "base/buf.h"
#include "base/metrics.h"
#include "base/random.h"
#include "run/host.h"

struct sim {
    struct clock *clock;
    struct loop *loop;
    struct random random; // of the server and the latencies
    struct apiserver *server;
    struct client *client;
    struct metrics *metrics;
    struct grants *grants;
    struct host *host;
    struct loop_timer *player;
    struct buf trace;   // a line a request
    size_t host_writes; // requests of the host other than GET
    bool stopped;
    // What happens to requests of the host on their way, see apiserver_set_fault; NULL: nothing.
    enum apiserver_fault (*fault)(struct sim *s, const struct apiserver_passage *p,
                                  struct apiserver_answer *ret_answer);
    size_t dies_in; // writes of the host until it dies; 0: it lives
    bool dead;      // nothing of the host's reaches the server, and no answer reaches the host
};

void sim_init(struct sim *s, uint64_t seed);
void sim_fini(struct sim *s);             // stops the host first
void sim_run(struct sim *s, uint64_t ms); // lets time pass
void sim_restart_host(struct sim *s);     // another process with nothing remembered
void sim_stop_host(struct sim *s);        // and what happens while none runs
void sim_start_host(struct sim *s);
// Lets time pass; the host dies right after its n-th write from now was executed, without an answer. True: it
// did, and another one with nothing remembered has been started.
bool sim_run_and_die(struct sim *s, size_t n, uint64_t ms);
// A ConfigMap of that name with the file as its only key, labelled as scripts are.
void sim_put_script(struct sim *s, const char *name, const char *path);
void sim_put_script_text(struct sim *s, const char *name, const char *file, const char *text);
void sim_apply_file(struct sim *s, const char *path); // a YAML file, as kubectl
void sim_apply(struct sim *s, const char *user, const char *json);
// As that user; asserts that the answer is 2xx.
void sim_request(struct sim *s, const char *user, const char *method, const char *path, const char *type,
                 const char *body);
// The object, or NULL; json_doc_free.
struct json_doc *sim_get(struct sim *s, const char *api_version, const char *plural, const char *name);

#endif
