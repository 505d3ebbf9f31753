--- When the children of a kind count as ready without a word of the script's: what is made `after` them is made then, and
-- not before.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

local rights = [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-readiness}
rules:
- {apiGroups: [batch], resources: [jobs], verbs: ["*"]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-readiness}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-readiness}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]

local definition = [[
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.readiness.test}
spec:
  group: readiness.test
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: Gizmo}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
]]

functional.describe("readiness", function()
    local plane, namespace, host

    functional.around_widgets("readiness", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    setup(function()
        plane:apply_text(rights)
    end)

    teardown(function()
        plane:kubectl { "delete", "clusterrolebinding,clusterrole", "tidelock-readiness" }
    end)

    -- `children`: Lua, a table of objects by name. For each there is a ConfigMap after-NAME. Unless `spec` says `open`, they
    -- wait for a ConfigMap "gate" too, so that the spec can first bring the child where it should be.
    local function start(children, spec, args)
        plane:put_scripts("ready", { ["ready.lua"] = widgets.script("ready", [[
    local function workload(kind, name)
      local app = { app = name }
      return { apiVersion = "apps/v1", kind = kind, metadata = { name = name }, spec = {
        replicas = kind ~= "DaemonSet" and 1 or nil, serviceName = kind == "StatefulSet" and "s" or nil,
        selector = { matchLabels = app },
        template = { metadata = { labels = app }, spec = { containers = { { name = "c", image = "i" } } } } } }
    end
    local gate = { object = cm("gate", { a = "1" }), ready = function(live) return live.data.open == "yes" end }
    local all = { not o.spec.open and gate or nil }
    for name, object in pairs(]] .. children .. [[) do
      all[#all + 1] = object
      all[#all + 1] = { object = cm("after-" .. name, { a = "1" }), after = { object, not o.spec.open and gate.object or nil } }
    end
    return { apply = all }]]) })
        host = functional.host.start { plane = plane, args = args }
        host:await_ready()
        plane:create("widgets", namespace, widgets.object("Widget", "w", spec or {}))
    end

    local function set(spec)
        plane:patch("widgets", namespace, "w", { spec = spec })
    end

    local function is_after(name)
        return plane:get("configmaps", namespace, "after-" .. name)
    end

    local function await_after(name)
        eventually(30, name .. " is ready", function()
            return is_after(name), host:log_text():sub(-500)
        end)
    end

    local function await_child(resource, name)
        eventually(10, name .. " is there", function()
            return plane:get(resource, namespace, name), host:log_text():sub(-500)
        end)
    end

    local function open_gate()
        plane:patch("configmaps", namespace, "gate", { data = { open = "yes" } })
    end

    local function set_status(name, status)
        assert(plane.api:json("PATCH", ("/apis/x.test/v1/namespaces/%s/widgets/%s/status"):format(namespace, name),
            { status = status }, "application/merge-patch+json"))
    end

    it("of built-in kinds is what their controllers say", function()
        start([[{
      deployment = workload("Deployment", "deployment"), stateful = workload("StatefulSet", "stateful"),
      daemon = workload("DaemonSet", "daemon"),
      pod = { apiVersion = "v1", kind = "Pod", metadata = { name = "pod" }, spec = { containers = { { name = "c", image = "i" } } } },
      service = { apiVersion = "v1", kind = "Service", metadata = { name = "service" }, spec = { ports = { { port = 80 } } } },
      balancer = { apiVersion = "v1", kind = "Service", metadata = { name = "balancer" }, spec = {
        type = "LoadBalancer", ports = { { port = 80 } } } },
      plain = child("Plain", "plain", { a = "1" }),
    }]], { open = true })
        for _, name in ipairs { "deployment", "stateful", "daemon", "pod", "service", "plain" } do
            await_after(name)
        end
        assert.equal(1, plane:get("deployments", namespace, "deployment").status.availableReplicas)
        assert.equal(1, plane:get("statefulsets", namespace, "stateful").status.readyReplicas)
        assert.is_nil(is_after "balancer")
        plane:kubectl {
            "patch", "service", "balancer", "-n", namespace, "--subresource=status", "--type=merge",
            "-p", '{"status":{"loadBalancer":{"ingress":[{"ip":"10.1.1.1"}]}}}',
        }
        await_after "balancer"
    end)

    it("of a Pod comes with its condition, of a Job with its completion, of a claim with its volume", function()
        start([[{
      pod = { apiVersion = "v1", kind = "Pod", metadata = { name = "pod" }, spec = {
        schedulingGates = not o.spec.go and { { name = "x.test/gate" } } or nil, containers = { { name = "c", image = "i" } } } },
      job = { apiVersion = "batch/v1", kind = "Job", metadata = { name = "job" }, spec = { suspend = not o.spec.go,
        template = { spec = { restartPolicy = "Never", containers = { { name = "c", image = "i" } } } } } },
      claim = { apiVersion = "v1", kind = "PersistentVolumeClaim", metadata = { name = "claim" }, spec = {
        accessModes = { "ReadWriteOnce" }, storageClassName = "", resources = { requests = { storage = "1Gi" } } } },
    }]], { open = true })
        await_child("pods", "pod")
        await_child("jobs", "job")
        await_child("persistentvolumeclaims", "claim")
        process.sleep(1)
        for _, name in ipairs { "pod", "job", "claim" } do
            assert.is_nil(is_after(name), name)
        end
        set { go = true }
        await_after "pod"
        await_after "job"
        assert.equal(1, plane:get("jobs", namespace, "job").status.succeeded)
        plane:apply_text(([[
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], claimRef: {namespace: %s, name: claim}, hostPath: {path: /x}}
]]):format(namespace, namespace))
        finally(function()
            plane:kubectl { "delete", "persistentvolume", namespace, "--wait=false" }
        end)
        await_after "claim"
        assert.equal("Bound", plane:get("persistentvolumeclaims", namespace, "claim").status.phase)
    end)

    it("of a CustomResourceDefinition is that it is established", function()
        plane:apply_text(definition:format("others", "others", "other")) -- it has the kind's name
        finally(function()
            host:stop() -- it would make it again
            plane:kubectl { "delete", "crd", "others.readiness.test", "gizmos.readiness.test", "--ignore-not-found" }
        end)
        start([[{ definition = {
      apiVersion = "apiextensions.k8s.io/v1", kind = "CustomResourceDefinition", metadata = { name = "gizmos.readiness.test" },
      spec = { group = "readiness.test", scope = "Namespaced", names = { plural = "gizmos", singular = "gizmo", kind = "Gizmo" },
        versions = { { name = "v1", served = true, storage = true, schema = { openAPIV3Schema = { type = "object" } } } } } } }]],
            { open = true }, { "--grant", "ready=apiextensions.k8s.io/CustomResourceDefinition" })
        local condition = 'jsonpath={.status.conditions[?(@.type=="Established")].status}'
        local function established()
            return plane:kubectl { "get", "crd", "gizmos.readiness.test", "--ignore-not-found", "-o", condition }
        end
        eventually(10, "the name is refused", function()
            return established() == "False", host:log_text():sub(-500)
        end)
        process.sleep(1)
        assert.is_nil(is_after "definition")
        plane:kubectl { "delete", "crd", "others.readiness.test" }
        await_after "definition"
        assert.equal("True", established())
    end)

    it("of any other kind is its condition Ready, as old as the generation, and no older", function()
        start [[{ none = child("Widget", "none", { a = "1" }), ready = child("Widget", "ready", { a = "1" }),
      status = child("Widget", "status", { a = "1" }), condition = child("Widget", "condition", { a = "1" }) }]]
        for _, name in ipairs { "none", "ready", "status", "condition" } do
            await_child("widgets", name)
        end
        set_status("ready", { observedGeneration = 1, conditions = { { type = "Ready", status = "False" } } })
        local is_ready = { { type = "Ready", status = "True", observedGeneration = 1 } }
        set_status("status", { observedGeneration = 1, conditions = { { type = "Ready", status = "True" } } })
        set_status("condition", { observedGeneration = 1, conditions = is_ready })
        for _, name in ipairs { "status", "condition" } do
            assert.equal(2, plane:patch("widgets", namespace, name, { spec = { b = "1" } }).metadata.generation)
        end
        set_status("condition", { observedGeneration = 2, conditions = is_ready })
        process.sleep(1)
        open_gate()
        await_after "none" -- nobody says anything about it
        process.sleep(1)
        for _, name in ipairs { "ready", "status", "condition" } do
            assert.is_nil(is_after(name), name)
        end
        set_status("ready", { conditions = { { type = "Ready", status = "True" } } })
        await_after "ready"
        set_status("status", { observedGeneration = 2 })
        await_after "status"
        is_ready[1].observedGeneration = 2
        set_status("condition", { conditions = is_ready })
        await_after "condition"
    end)
end)
