#include "run/plan/readiness.h"

#include "base/strset.h"

static int64_t number(const json *o, const char *part, const char *key, int64_t absent)
{
    return json_get_int(json_get(o, part), key, absent);
}

// Has the kind's controller seen the latest spec?
static bool is_observed(const json *o)
{
    int64_t generation = number(o, "metadata", "generation", 0);
    return number(o, "status", "observedGeneration", generation) >= generation;
}

// The condition's status is "True", and it is not about an older generation.
static bool has_condition(const json *o, const char *type)
{
    for (struct json_iter i = json_iter(json_path(o, "status", "conditions", NULL)); json_next(&i);) {
        if (!str_eq(json_get_str(i.value, "type"), type))
            continue;
        int64_t generation = number(o, "metadata", "generation", 0);
        return str_eq(json_get_str(i.value, "status"), "True") &&
               json_get_int(i.value, "observedGeneration", generation) >= generation;
    }
    return false;
}

static bool knows_condition(const json *o, const char *type)
{
    for (struct json_iter i = json_iter(json_path(o, "status", "conditions", NULL)); json_next(&i);)
        if (str_eq(json_get_str(i.value, "type"), type))
            return true;
    return false;
}

static bool deployment_ready(const json *o)
{
    int64_t wanted = number(o, "spec", "replicas", 1);
    return is_observed(o) && number(o, "status", "updatedReplicas", 0) >= wanted &&
           number(o, "status", "availableReplicas", 0) >= wanted;
}

static bool stateful_set_ready(const json *o)
{
    int64_t wanted = number(o, "spec", "replicas", 1);
    return is_observed(o) && number(o, "status", "readyReplicas", 0) >= wanted &&
           number(o, "status", "updatedReplicas", wanted) >= wanted;
}

static bool daemon_set_ready(const json *o)
{
    int64_t wanted = number(o, "status", "desiredNumberScheduled", -1);
    return is_observed(o) && wanted >= 0 && number(o, "status", "updatedNumberScheduled", 0) >= wanted &&
           number(o, "status", "numberAvailable", 0) >= wanted;
}

static bool replica_set_ready(const json *o)
{
    return is_observed(o) && number(o, "status", "availableReplicas", 0) >= number(o, "spec", "replicas", 1);
}

static bool job_ready(const json *o)
{
    return has_condition(o, "Complete");
}

static bool pod_ready(const json *o)
{
    return has_condition(o, "Ready") || str_eq(json_get_str(json_get(o, "status"), "phase"), "Succeeded");
}

static bool claim_ready(const json *o)
{
    return str_eq(json_get_str(json_get(o, "status"), "phase"), "Bound");
}

static bool service_ready(const json *o)
{
    return !str_eq(json_get_str(json_get(o, "spec"), "type"), "LoadBalancer") ||
           json_count(json_path(o, "status", "loadBalancer", "ingress", NULL)) > 0;
}

static bool definition_ready(const json *o)
{
    return has_condition(o, "Established");
}

static bool namespace_ready(const json *o)
{
    return str_eq(json_get_str(json_get(o, "status"), "phase"), "Active");
}

static const struct {
    const char *group, *kind;
    bool (*ready)(const json *o);
} rules[] = {
    {"apps", "Deployment", deployment_ready},
    {"apps", "StatefulSet", stateful_set_ready},
    {"apps", "DaemonSet", daemon_set_ready},
    {"apps", "ReplicaSet", replica_set_ready},
    {"batch", "Job", job_ready},
    {"", "Pod", pod_ready},
    {"", "PersistentVolumeClaim", claim_ready},
    {"", "Service", service_ready},
    {"", "Namespace", namespace_ready},
    {"apiextensions.k8s.io", "CustomResourceDefinition", definition_ready},
};

bool readiness_of(const struct gvk *gvk, const json *live)
{
    if (json_path(live, "metadata", "deletionTimestamp", NULL) != NULL)
        return false;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (str_eq(rules[i].group, gvk->group) && str_eq(rules[i].kind, gvk->kind))
            return rules[i].ready(live);
    return is_observed(live) && (!knows_condition(live, "Ready") || has_condition(live, "Ready"));
}
