// Is an object ready, as far as its kind tells? Pure; any thread. Rules of the kinds' own controllers:
// Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, Pod, PersistentVolumeClaim, Service (always, but for
// LoadBalancer), CustomResourceDefinition, Namespace; anything else by a `Ready` condition that is not older
// than the generation, and without one as soon as it exists.
#ifndef RUN_PLAN_READINESS_H
#define RUN_PLAN_READINESS_H

#include <stdbool.h>

#include "data/json.h"
#include "kube/gvk.h"

bool readiness_of(const struct gvk *gvk, const json *live);

#endif
