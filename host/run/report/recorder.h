// Kubernetes Events: events.k8s.io/v1 where the server has it, core/v1 otherwise.
//
// Equal events become one object with a series, written at most every 30 s. Of an object's events with one
// type and reason the first ten texts within ten minutes are told apart, those after them are one "combined"
// series; a burst of 25, then one every 5 minutes; each reason counts apart, so that none hides another. An
// event that got no answer, or 429, is tried again a few times; one that was refused is not, and an object in
// a namespace that goes away is not written about again. Never delays or fails a pass: a bounded queue
// (1,000), what does not fit is counted. Loop thread.
#ifndef RUN_REPORT_RECORDER_H
#define RUN_REPORT_RECORDER_H

#include "base/metrics.h"
#include "base/random.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "kube/object.h"

struct recorder;

struct recorder_options {
    struct loop *loop;
    struct client *client;
    struct discovery *discovery;
    struct metrics *metrics;
    const char *instance; // reportingInstance
    uint64_t seed;        // of the names
};

struct recorder *recorder_new(const struct recorder_options *o);
void recorder_free(struct recorder *r);
// About an object. type "Normal" or "Warning"; reason CamelCase, cut to 128 bytes ("" becomes "Unknown");
// action: what was being done ("Reconcile"); note cut to 1024 bytes at a UTF-8 border. Events about
// cluster-scoped objects go to namespace default.
void recorder_event(struct recorder *r, const struct object *about, const char *type, const char *reason,
                    const char *action, const char *note);
// Nothing new is taken; what is under way ends.
void recorder_drain(struct recorder *r);

#endif
