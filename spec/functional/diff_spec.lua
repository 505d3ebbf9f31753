--- Equal in meaning is equal: whatever a script writes and the API server stores otherwise costs one write a child, and
-- then none, also for a host that was started again and remembers nothing.
local functional = require "spec.functional.support"
local eventually = functional.eventually

local access = [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-diff}
rules:
- apiGroups: ["", apps, networking.k8s.io, autoscaling, batch, policy, rbac.authorization.k8s.io, diff.tidelock.dev]
  resources: ["*"]
  verbs: ["*"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-diff}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-diff}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]

local samples_crd = [[
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: samples.diff.tidelock.dev}
spec:
  group: diff.tidelock.dev
  scope: Namespaced
  names: {plural: samples, singular: sample, kind: Sample}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              "num": {type: integer, default: 5}
              obj: {type: object, nullable: true, required: [value], properties: {value: {type: integer}}}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              arr: {type: array, items: {type: string}}
              m: {type: object, additionalProperties: {type: string}}
              text: {type: string}
              ios: {x-kubernetes-int-or-string: true}
              atomic:
                type: array
                items: {type: object, properties: {a: {type: string}, b: {type: integer, default: 7}}}
              lm:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name, ns]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, ns: {type: string, default: default}, v: {type: string}}
]]

-- The top of every script: makers of children that differ in one thing.
local makers = [[
local k8s = require "tidelock"
local children = {}

local function add(api_version, kind, name, fields)
  local object = { apiVersion = api_version, kind = kind, metadata = { name = name } }
  for key, value in pairs(fields) do
    if key == "metadata" then
      for k, v in pairs(value) do object.metadata[k] = v end
    else
      object[key] = value
    end
  end
  children[#children + 1] = object
end

local function deployment(name, container, pod)
  container = container or {}
  container.name, container.image = "c", container.image or "x"
  local spec = pod or {}
  spec.containers = { container }
  local labels = { app = name }
  add("apps/v1", "Deployment", name, { spec = {
    replicas = 0, selector = { matchLabels = labels }, template = { metadata = { labels = labels }, spec = spec } } })
end

local function requests(name, cpu, memory)
  deployment(name, { resources = { requests = { cpu = cpu, memory = memory } } })
end
]]

local function script(rows)
    return makers .. rows .. [[
return {
  name = "diff",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
    return { apply = children }
  end,
}
]]
end

local rows = {
    quantities = [[
for i, cpu in ipairs { "1000m", 1, "1.0", " 1", 0.5, "0.5", ".5", "0.1m", "100u", "5.", "+1", "1e-3" } do
  requests("cpu-" .. i, cpu)
end
for i, memory in ipairs {
  "2048Mi", "1024Ki", "1.5Gi", "1000", "1500", "1024", "1e3", "1E3", "12E", "9223372036854775808",
} do
  requests("memory-" .. i, nil, memory)
end
deployment("size-limit", {}, { volumes = { { name = "v", emptyDir = { sizeLimit = "2048Mi" } } } })
add("v1", "PersistentVolumeClaim", "storage", { spec = {
  accessModes = { "ReadWriteOnce" }, resources = { requests = { storage = "1024Mi" } } } })
add("v1", "ResourceQuota", "hard", { spec = { hard = { cpu = "1000m", pods = 1000, ["requests.memory"] = "0.1m" } } })
add("autoscaling/v2", "HorizontalPodAutoscaler", "average", { spec = {
  maxReplicas = 3, scaleTargetRef = { apiVersion = "apps/v1", kind = "Deployment", name = "none" },
  metrics = { { type = "Pods", pods = {
    metric = { name = "m" }, target = { type = "AverageValue", averageValue = "1000m" } } } } } })
]],
    nulls = [[
deployment("env", { env = { { name = "A", value = "" }, { name = "B", value = "b" } } })
add("v1", "ConfigMap", "meta", { metadata = { annotations = k8s.null, labels = {} } })
add("v1", "ConfigMap", "data", { data = { a = k8s.null, b = "" } })
add("v1", "Secret", "secret", { data = { n = k8s.null, e = "", b = "aGVs\nbG8=" }, stringData = { text = "hello" } })
add("diff.tidelock.dev/v1", "Sample", "null-object", { spec = { obj = k8s.null } })
add("diff.tidelock.dev/v1", "Sample", "null-default", { spec = { num = k8s.null } })
add("diff.tidelock.dev/v1", "Sample", "unknown", { spec = { any = { nu = k8s.null, l = k8s.array {}, m = {} } } })
add("diff.tidelock.dev/v1", "Sample", "empties", { spec = { arr = {}, m = {}, lm = {}, atomic = {} } })
deployment("pod", { args = {}, env = {} },
  { nodeSelector = {}, securityContext = {}, volumes = { { name = "t", emptyDir = {} } } })
children[#children].spec.template.metadata.creationTimestamp = k8s.null
]],
    defaults = [[
add("apps/v1", "StatefulSet", "claims", { spec = {
  serviceName = "s", replicas = 0, selector = { matchLabels = { app = "claims" } },
  template = { metadata = { labels = { app = "claims" } }, spec = { containers = { { name = "c", image = "x" } } } },
  volumeClaimTemplates = {
    { metadata = { name = "a" }, spec = { accessModes = { "ReadWriteOnce" },
      resources = { requests = { storage = "1024Mi" } } } },
    { metadata = { name = "b" }, spec = { accessModes = { "ReadWriteOnce" }, storageClassName = "",
      resources = { requests = { storage = 1000 } } } },
  } } })
deployment("volumes", {
  env = { { name = "N", valueFrom = { fieldRef = { fieldPath = "metadata.name" } } },
          { name = "C", valueFrom = { resourceFieldRef = { resource = "limits.cpu" } } } },
  ports = { { containerPort = 53 }, { containerPort = 53, protocol = "UDP" } },
  readinessProbe = { httpGet = { path = "/", port = 80 } },
}, { volumes = {
  { name = "d", downwardAPI = { items = { { path = "l", fieldRef = { fieldPath = "metadata.labels" } } } } },
  { name = "c", configMap = { name = "x" } },
  { name = "p", projected = { sources = {
    { serviceAccountToken = { path = "t" } },
    { downwardAPI = { items = { { path = "l", fieldRef = { fieldPath = "metadata.labels" } } } } } } } },
} })
for i, image in ipairs { "x", "x:latest", "x:1" } do
  deployment("image-" .. i, { image = image })
end
add("v1", "Service", "ports", { spec = { selector = { app = "x" }, ports = {
  { name = "a", port = 80, targetPort = 80 }, { name = "b", port = 81, targetPort = "http" },
  { name = "u", port = 80, protocol = "UDP" } } } })
add("networking.k8s.io/v1", "Ingress", "host", { spec = { rules = { { host = "", http = { paths = {
  { path = "/", pathType = "Prefix", backend = { service = { name = "x", port = { number = 80 } } } } } } } } } })
add("networking.k8s.io/v1", "NetworkPolicy", "policy", { spec = {
  podSelector = {}, ingress = { { ports = { { port = 80 } } } }, egress = {}, policyTypes = { "Ingress" } } })
add("autoscaling/v2", "HorizontalPodAutoscaler", "behavior", { spec = {
  maxReplicas = 3, scaleTargetRef = { apiVersion = "apps/v1", kind = "Deployment", name = "none" },
  metrics = { { type = "Resource", resource = {
    name = "cpu", target = { type = "Utilization", averageUtilization = 50 } } } },
  behavior = { scaleDown = { policies = { { type = "Pods", value = 1, periodSeconds = 15 } } } } } })
add("batch/v1", "CronJob", "cron", { spec = { schedule = "0 0 1 1 *", suspend = true,
  jobTemplate = { spec = { template = { spec = {
  restartPolicy = "Never", containers = { { name = "c", image = "x" } },
  tolerations = { { key = "k", operator = "Exists" } } } } } } } })
add("policy/v1", "PodDisruptionBudget", "half", {
  spec = { minAvailable = "50%", selector = { matchLabels = { app = "x" } } } })
add("rbac.authorization.k8s.io/v1", "RoleBinding", "subjects", {
  roleRef = { kind = "Role", name = "x" },
  subjects = { { kind = "User", name = "u" }, { kind = "ServiceAccount", name = "s", namespace = "default" } } })
add("diff.tidelock.dev/v1", "Sample", "lists", { spec = {
  lm = { { name = "a", v = "x" }, { name = "a", ns = "other", v = "y" } }, atomic = { { a = "x" }, { b = 8 } } } })
]],
}

-- What is stored of some of these: resource and name, a path, its text.
local stored_as = {
    nulls = {
        { "deployment/env", "{.spec.template.spec.containers[0].env}", '[{"name":"A"},{"name":"B","value":"b"}]' },
        { "configmap/meta", "{.metadata.annotations}", "" },
        { "configmap/data", "{.data}", '{"a":"","b":""}' },
        { "sample/null-object", "{.spec}", '{"num":5,"obj":null}' },
        { "sample/null-default", "{.spec}", '{"num":5}' },
        { "sample/unknown", "{.spec.any}", '{"l":[],"m":{},"nu":null}' },
        { "sample/empties", "{.spec}", '{"arr":[],"atomic":[],"lm":[],"m":{},"num":5}' },
    },
    quantities = {
        { "deployment/cpu-8", "{.spec.template.spec.containers[0].resources.requests.cpu}", "1m" },
        { "deployment/memory-3", "{.spec.template.spec.containers[0].resources.requests.memory}", "1536Mi" },
        { "persistentvolumeclaim/storage", "{.spec.resources.requests.storage}", "1Gi" },
    },
    defaults = {
        { "statefulset/claims", "{.spec.volumeClaimTemplates[*].spec.volumeMode}", "Filesystem Filesystem" },
        { "service/ports", "{.spec.ports[*].targetPort}", "80 http 80" },
    },
}

local grants = {}
for _, kind in ipairs { "v1/Secret", "rbac.authorization.k8s.io/v1/RoleBinding" } do
    for _, text in ipairs { "--grant", "diff=" .. kind:gsub("^v1/", "/"):gsub("/v1/", "/") } do
        grants[#grants + 1] = text
    end
end

functional.describe("equality in meaning", function()
    local plane, host, namespace

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
        plane:apply_text(access)
        plane:apply_text(samples_crd)
        -- Established is too early: the server tells the new kind's schema a moment later
        functional.eventually(20, "the schema of the new kind is published", function()
            local there, text = pcall(plane.kubectl, plane, { "get", "--raw", "/openapi/v3/apis/diff.tidelock.dev/v1" })
            return there and text:find("Sample", 1, true)
        end)
    end)

    teardown(function()
        plane:kubectl { "delete", "clusterrolebinding,clusterrole", "tidelock-diff" }
        plane:kubectl { "delete", "crd", "samples.diff.tidelock.dev" }
    end)

    before_each(function()
        namespace = plane:namespace "diff"
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    local function start()
        host = functional.host.start { plane = plane, args = grants }
        host:await_ready()
    end

    -- Writes to children in the namespace, Events left out.
    local function writes_since(mark)
        local found = {}
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            local ref = write.entry.objectRef
            if ref and ref.namespace == namespace and ref.resource ~= "events" and ref.resource ~= "memcacheds" then
                found[#found + 1] = write
            end
        end
        return found
    end

    local function passes()
        return host:metric("controller_runtime_reconcile_total", { controller = "diff" }) or 0
    end

    local function force_pass(i)
        local before = passes()
        plane:patch("memcacheds", namespace, "a", { metadata = { annotations = { touched = tostring(i) } } })
        eventually(5, "the pass is through", function()
            return passes() > before
        end)
    end

    -- Until nothing was written for a second.
    local function await_quiet(mark)
        local seen, since = -1, functional.process.now()
        eventually(30, "the writes have ended", function()
            local n = #writes_since(mark)
            if n ~= seen then
                seen, since = n, functional.process.now()
            end
            return n > 0 and functional.process.now() - since > 1
        end)
    end

    local function failures()
        local lines = {}
        for _, line in ipairs(host:log_matching "pass failed") do
            lines[#lines + 1] = line.text
        end
        return table.concat(lines, "\n")
    end

    for name, text in pairs(rows) do
        it("writes each child once: " .. name, function()
            start()
            plane:put_scripts("diff", { ["diff.lua"] = script(text) })
            local mark = plane.audit:mark()
            plane:create("memcacheds", namespace, functional.memcached "a")
            await_quiet(mark)
            assert.equal("", failures())
            local count = {}
            for _, write in ipairs(writes_since(mark)) do
                local what = write.text:match "^%S+ (.+) %d+$"
                count[what] = (count[what] or 0) + 1
                assert.equal(1, count[what], functional.audit.describe(writes_since(mark)))
            end
            for _, row in ipairs(stored_as[name]) do
                assert.equal(row[3], plane:kubectl { "get", row[1], "-n", namespace, "-o", "jsonpath=" .. row[2] }, row[1])
            end

            mark = plane.audit:mark()
            for i = 1, 20 do
                force_pass(i)
            end
            assert.equal(0, #writes_since(mark), functional.audit.describe(writes_since(mark)))

            host:stop()
            mark = plane.audit:mark()
            start()
            force_pass "again"
            assert.equal(0, #writes_since(mark), functional.audit.describe(writes_since(mark)))
        end)
    end

    it("applies what does change, and keeps texts apart that are quantities elsewhere", function()
        local source = [[
requests("cpu", "%s")
add("v1", "ConfigMap", "text", { data = { cpu = "%s" } })
add("diff.tidelock.dev/v1", "Sample", "text", { spec = { text = "%s", ios = "%s" } })
]]
        start()
        local mark
        for i, cpu in ipairs { "1000m", "1", "1001m" } do
            mark = plane.audit:mark()
            plane:put_scripts("diff", { ["diff.lua"] = script(source:format(cpu, cpu, cpu, cpu)) })
            if i == 1 then
                plane:create("memcacheds", namespace, functional.memcached "a")
            end
            eventually(10, "the text is there", function()
                local object = plane:get("configmaps", namespace, "text")
                return object and object.data.cpu == cpu
            end)
            await_quiet(mark)
            local deployments = 0
            for _, write in ipairs(writes_since(mark)) do
                deployments = deployments + (write.entry.objectRef.resource == "deployments" and 1 or 0)
            end
            assert.equal(cpu == "1" and 0 or 1, deployments, functional.audit.describe(writes_since(mark)))
        end
        local container = plane:get("deployments", namespace, "cpu").spec.template.spec.containers[1]
        assert.equal("1001m", container.resources.requests.cpu)
    end)

    it("keeps a null where the kind has one, and takes it back", function()
        start()
        local mark
        for _, value in ipairs { "k8s.null", "{ value = 1 }", "k8s.null" } do
            mark = plane.audit:mark()
            plane:put_scripts("diff", { ["diff.lua"] = script(
                ([[
add("diff.tidelock.dev/v1", "Sample", "null", { spec = { obj = %s, text = "t" } })
]]):format(value)) })
            if value == "k8s.null" and #plane:list("memcacheds", namespace) == 0 then
                plane:create("memcacheds", namespace, functional.memcached "a")
            end
            await_quiet(mark)
            assert.equal(1, #writes_since(mark), functional.audit.describe(writes_since(mark)))
            local stored = plane:kubectl { "get", "samples", "-n", namespace, "-o", "jsonpath={.items[0].spec}" }
            assert.truthy(stored:find(value == "k8s.null" and '"obj":null' or '"obj":{"value":1}', 1, true), stored)
        end
    end)

    it("puts back lists that somebody took away as a whole, in one write each", function()
        start()
        plane:put_scripts("diff", { ["diff.lua"] = script [[
deployment("lists", { env = { { name = "A", value = "1" } }, ports = { { containerPort = 80 } } },
  { volumes = { { name = "v", emptyDir = {} } } })
add("v1", "Service", "lists", { spec = { selector = { app = "x" }, ports = {
  { name = "a", port = 80 }, { name = "b", port = 81 } } } })
add("networking.k8s.io/v1", "NetworkPolicy", "lists", { spec = {
  podSelector = {}, ingress = { { ports = { { port = 80 } } } }, policyTypes = { "Ingress" } } })
]] })
        local mark = plane.audit:mark()
        plane:create("memcacheds", namespace, functional.memcached "a")
        await_quiet(mark)
        mark = plane.audit:mark()
        plane:patch("networkpolicies", namespace, "lists", { spec = { ingress = functional.null } })
        plane:patch("services", namespace, "lists", { spec = { ports = { { name = "a", port = 80 } } } })
        local container = '{"spec":{"template":{"spec":{"volumes":null,"containers":[{"name":"c","image":"x"}]}}}}'
        plane:kubectl { "patch", "deployment", "lists", "-n", namespace, "--type=merge", "-p", container }
        await_quiet(mark)
        local pod = plane:get("deployments", namespace, "lists").spec.template.spec
        assert.equal("1", pod.containers[1].env[1].value)
        assert.equal(80, pod.containers[1].ports[1].containerPort)
        assert.equal("v", pod.volumes[1].name)
        assert.equal(2, #plane:get("services", namespace, "lists").spec.ports)
        assert.equal(1, #plane:get("networkpolicies", namespace, "lists").spec.ingress)
        assert.equal(3, #writes_since(mark), functional.audit.describe(writes_since(mark)))
        assert.equal("", failures())
    end)

    it("takes away what a script no longer gives, wherever it stood", function()
        start()
        local full = [[
deployment("gone", { env = { { name = "A", value = "" }, { name = "B", value = "b" } }, args = { "x" },
  resources = { requests = { cpu = "1000m", memory = "1Gi" } } }, { nodeSelector = { a = "b" }, hostNetwork = true })
add("v1", "ConfigMap", "gone", { data = { a = k8s.null, b = "1", c = "1" }, metadata = { annotations = { a = "1" } } })
add("diff.tidelock.dev/v1", "Sample", "gone", { spec = { obj = { value = 1 }, num = 7, arr = { "a" }, m = { a = "1", b = "2" },
  lm = { { name = "a", v = "x" }, { name = "b", v = "y" } } } })
]]
        local fewer = [[
deployment("gone", { env = { { name = "B", value = "b" } }, resources = { requests = { memory = "1024Mi" } } })
add("v1", "ConfigMap", "gone", { data = { c = "1" } })
add("diff.tidelock.dev/v1", "Sample", "gone", { spec = { m = { b = "2" }, lm = { { name = "b", v = "y" } } } })
]]
        local mark = plane.audit:mark()
        plane:put_scripts("diff", { ["diff.lua"] = script(full) })
        plane:create("memcacheds", namespace, functional.memcached "a")
        await_quiet(mark)
        mark = plane.audit:mark()
        plane:put_scripts("diff", { ["diff.lua"] = script(fewer) })
        await_quiet(mark)
        assert.equal(3, #writes_since(mark), functional.audit.describe(writes_since(mark)))
        local pod = plane:get("deployments", namespace, "gone").spec.template.spec
        assert.same({ { name = "B", value = "b" } }, pod.containers[1].env)
        assert.same({ requests = { memory = "1Gi" } }, pod.containers[1].resources)
        assert.is_nil(pod.containers[1].args)
        assert.is_nil(pod.nodeSelector)
        assert.is_nil(pod.hostNetwork)
        local map = plane:get("configmaps", namespace, "gone")
        assert.same({ c = "1" }, map.data)
        assert.is_nil(map.metadata.annotations)
        local sample = plane.api:json("GET", ("/apis/diff.tidelock.dev/v1/namespaces/%s/samples/gone"):format(namespace))
        assert.same({ num = 5, m = { b = "2" }, lm = { { name = "b", ns = "default", v = "y" } } }, sample.spec)
        assert.equal("", failures())
    end)

    it("has a null that is no nil", function()
        start()
        plane:put_scripts("diff", { ["diff.lua"] = script [[
local null = k8s.null
assert(null ~= nil and null == k8s.null and (null and true), "it is a value")
assert(k8s.copy({ a = null }).a == null and k8s.merge({ a = 1, b = 2 }, { a = null }).a == nil)
add("diff.tidelock.dev/v1", "Sample", "nulls", { spec = { any = {
  one = k8s.array { null }, two = k8s.array { 1, null, 2 }, map = { a = null } } } })
]] })
        local mark = plane.audit:mark()
        plane:create("memcacheds", namespace, functional.memcached "a")
        await_quiet(mark)
        local stored = plane:kubectl { "get", "samples", "-n", namespace, "-o", "jsonpath={.items[0].spec.any}" }
        assert.equal('{"map":{"a":null},"one":[null],"two":[1,null,2]}', stored)
        plane:put_scripts("diff", { ["diff.lua"] = script [[
add("diff.tidelock.dev/v1", "Sample", "nulls", { spec = { any = { [k8s.null] = 1 } } })
]] })
        host:await_log(10, "pass failed", "apply[1].spec.any")
        assert.equal(stored, plane:kubectl { "get", "samples", "-n", namespace, "-o", "jsonpath={.items[0].spec.any}" })
    end)

    it("reports what the server refuses, and backs off", function()
        start()
        plane:put_scripts("diff", { ["diff.lua"] = script [[
add("diff.tidelock.dev/v1", "Sample", "refused", { spec = { arr = k8s.null } })
add("v1", "ConfigMap", "sibling", { data = { a = "b" } })
]] })
        local mark = plane.audit:mark()
        plane:create("memcacheds", namespace, functional.memcached "a")
        host:await_log(10, "pass failed", "spec.arr")
        functional.process.sleep(2)
        local sibling = plane:get("configmaps", namespace, "sibling")
        assert.equal("b", sibling and sibling.data.a)
        local refused = 0
        for _, write in ipairs(writes_since(mark)) do
            refused = refused + (write.entry.objectRef.resource == "samples" and 1 or 0)
        end
        assert.is_true(refused > 0 and refused < 20, refused .. " attempts")
        assert.equal(1, #host:log_matching "pass failed") -- said once
    end)

    it("names the place of a quantity that is none, and applies the others", function()
        start()
        plane:put_scripts("diff", { ["diff.lua"] = script [[
requests("bad", "1gi")
requests("good", "1")
]] })
        plane:create("memcacheds", namespace, functional.memcached "a")
        host:await_log(10, "pass failed", "containers[1].resources.requests.cpu: ", "is not a quantity")
        eventually(5, "the other one is there", function()
            return plane:get("deployments", namespace, "good")
        end)
        assert.is_nil(plane:get("deployments", namespace, "bad"))
    end)

    it("names the place of a list where the API has a map", function()
        start()
        plane:put_scripts("diff", { ["diff.lua"] = script [[
deployment("bad", {}, { nodeSelector = k8s.array {} })
]] })
        plane:create("memcacheds", namespace, functional.memcached "a")
        host:await_log(10, "pass failed", "spec.template.spec.nodeSelector", "an empty list")
    end)

    it("takes a field away from an atomic list", function()
        local source = [[
add("networking.k8s.io/v1", "NetworkPolicy", "policy", { spec = {
  podSelector = {}, ingress = { { ports = { { port = 80%s } } } }, policyTypes = { "Ingress" } } })
]]
        start()
        plane:put_scripts("diff", { ["diff.lua"] = script(source:format ", endPort = 90") })
        plane:create("memcacheds", namespace, functional.memcached "a")
        local function port()
            return plane:kubectl {
                "get", "networkpolicies", "-n", namespace, "-o", "jsonpath={.items[*].spec.ingress[0].ports[0]}",
            }
        end
        eventually(10, "the policy is there", function()
            return port():find("endPort", 1, true)
        end)
        plane:put_scripts("diff", { ["diff.lua"] = script(source:format "") })
        eventually(10, "the end is gone", function()
            local text = port()
            return text ~= "" and not text:find("endPort", 1, true)
        end)
    end)
end)
