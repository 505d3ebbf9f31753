--- Writes that the real server refuses, children that can not be changed, namespaces that go, fields that others set.
local functional = require "spec.functional.support"
local eventually, process = functional.eventually, functional.process

-- `body` is that of reconcile(memcached, world); `rest` stands beside it in the script's table.
local function script(name, body, rest)
    return ([[
local k8s = require "tidelock"
local function config_map(name, data)
  return { apiVersion = "v1", kind = "ConfigMap", metadata = { name = name }, data = data }
end
return {
  name = "%s",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
%s
  end,
%s
}
]]):format(name, body, rest or "")
end

-- What these scripts need beyond host-rbac.yaml: finalizers on the subject, Jobs, and a look at namespaces that go.
local rights = [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-failures}
rules:
- {apiGroups: [cache.example.com], resources: [memcacheds], verbs: [patch]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [""], resources: [namespaces], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-failures}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-failures}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]

functional.describe("failures", function()
    local plane, namespace, host, mark

    setup(function()
        plane = functional.controlplane.shared()
        plane:apply_text(rights)
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "failures"
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    local function put(body, rest)
        plane:put_scripts("things", { ["things.lua"] = script("things", body, rest) })
    end

    local function start(body, rest)
        put(body, rest)
        mark = plane.audit:mark()
        host = functional.host.start { plane = plane }
        host:await_ready()
        plane:create("memcacheds", namespace, functional.memcached "a")
    end

    -- Writes of the host to objects of that name, refused ones included.
    local function writes_to(name)
        local found = {}
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            if write.entry.objectRef and write.entry.objectRef.name == name then
                found[#found + 1] = write
            end
        end
        return found
    end

    local function await_event(seconds, ...)
        local needles = { ... }
        return eventually(seconds, "an Event says " .. table.concat(needles, ", "), function()
            local text = plane:events_about("a", namespace)
            for _, needle in ipairs(needles) do
                if not text:find(needle, 1, true) then
                    return nil, text
                end
            end
            return true
        end)
    end

    local function await_reconciled(reason, ...)
        local needles = { ... }
        return eventually(10, "Reconciled is False, " .. reason, function()
            local status = plane:get("memcacheds", namespace, "a").status
            for _, condition in ipairs(status and status.conditions or {}) do
                if condition.type == "Reconciled" then
                    for _, needle in ipairs(needles) do
                        if not condition.message:find(needle, 1, true) then
                            return nil, condition.message
                        end
                    end
                    return condition.status == "False" and condition.reason == reason, condition.reason
                end
            end
        end)
    end

    -- The server tells these with a 500, as if it would pass.
    local permanent = {
        ["two items of one key"] = {
            [[local bad = { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "bad" }, spec = {
                selector = { matchLabels = { app = "bad" } }, template = { metadata = { labels = { app = "bad" } },
                spec = { containers = { { name = "c", image = "i", env = {
                  { name = "A", value = "1" }, { name = "A", value = "2" } } } } } } } }]], "duplicate entries for key",
        },
        ["an object that is too large"] = { [[local x = ("x"):rep(900000) local bad = config_map("bad", { a = x, b = x })]], "oo l" },
    }
    for what, case in pairs(permanent) do
        it("back off from " .. what .. ", and heal at once when it is fixed", function()
            start(case[1] .. [[ return { apply = { bad, config_map("good", { a = "1" }) } }]])
            await_event(15, case[2])
            process.sleep(5)
            local tried = writes_to "bad"
            assert.is_true(#tried >= 3 and #tried <= 14, functional.audit.describe(tried))
            assert.is_truthy(plane:get("configmaps", namespace, "good"))
            assert.are.equal(1, #writes_to "good")
            put [[return { apply = { config_map("bad", { a = "fixed" }), config_map("good", { a = "1" }) } }]]
            eventually(3, "it is fixed", function()
                local fixed = plane:get("configmaps", namespace, "bad")
                return fixed and fixed.data.a == "fixed"
            end)
        end)
    end

    it("that pass, told by the same 500, heal by themselves, and are said once", function()
        local hooks = "validatingwebhookconfigurations"
        plane:apply_text(([[
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: tidelock-failures}
webhooks:
- name: nobody.answers.test
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 1
  failurePolicy: Fail
  clientConfig: {url: "https://127.0.0.1:1/"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
]]):format(namespace))
        finally(function()
            plane:kubectl { "delete", hooks, "tidelock-failures", "--ignore-not-found" }
        end)
        eventually(10, "the server asks it", function()
            local made, why = pcall(plane.create, plane, "configmaps", namespace, { metadata = { generateName = "probe-" } })
            return not made and tostring(why):find("failed calling webhook", 1, true)
        end)
        start [[ return { apply = { config_map("c", { a = "1" }) }, status = { readyReplicas = 1 } } ]]
        await_event(15, "failed calling webhook", "nobody.answers.test")
        process.sleep(3)
        assert.is_true(#writes_to "c" >= 3 and #writes_to "c" <= 14, functional.audit.describe(writes_to "c"))
        assert.equal(1, #host:log_matching "pass failed", host:log_text())
        await_reconciled("ApplyFailed", "failed calling webhook")
        local seen = plane:get("memcacheds", namespace, "a").metadata.resourceVersion
        plane:kubectl { "delete", hooks, "tidelock-failures" }
        eventually(20, "it is there by itself", function()
            return plane:get("configmaps", namespace, "c")
        end)
        process.sleep(1)
        -- the conditions that anybody could see: from False to True, and no way back
        local _, text = plane.api:request("GET", ("/apis/cache.example.com/v1alpha1/namespaces/%s/memcacheds?watch=1"
            .. "&timeoutSeconds=1&resourceVersion=%s"):format(namespace, seen))
        local states = {}
        for line in text:gmatch "[^\n]+" do
            for _, condition in ipairs(require("cjson").decode(line).object.status.conditions or {}) do
                states[#states + 1] = condition.type == "Reconciled" and condition.status or nil
            end
        end
        assert.equal("True", states[#states], text)
        assert.is_true(#states <= 2, text)
    end)

    -- What the kind's schema tells is not sent at all.
    local told = {
        ["a value of another type"] = {
            [[local bad = { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "bad" }, spec = {
                replicas = "3", selector = { matchLabels = { app = "bad" } }, template = {
                metadata = { labels = { app = "bad" } }, spec = { containers = { { name = "c", image = "i" } } } } } }]],
            'apply[2].spec.replicas: expected integer, got "3" (Deployment bad)',
        },
        ["a field that is not in the schema"] = {
            [[local bad = config_map("bad", { a = "1" }) bad.notYet = 1]],
            "apply[2].notYet: field not declared in schema (ConfigMap bad)",
        },
        ["a field deep in a custom resource"] = {
            [[local bad = { apiVersion = "cache.example.com/v1alpha1", kind = "Memcached", metadata = { name = "bad" },
                spec = { sise = 1 } }]],
            "apply[2].spec.sise: field not declared in schema, did you mean size? (Memcached bad)",
        },
    }
    for what, case in pairs(told) do
        it("tell " .. what .. " by its place in the result, and go on with the others", function()
            start(case[1] .. [[ return memcached.metadata.name == "a" and
                { apply = { config_map("good", { a = "1" }), bad } } or nil]])
            await_event(15, case[2])
            assert.is_truthy(plane:get("configmaps", namespace, "good"))
            assert.are.equal(0, #writes_to "bad")
            put [[return { apply = { config_map("good", { a = "2" }) } }]]
            eventually(3, "it is fixed", function()
                return plane:get("configmaps", namespace, "good").data.a == "2"
            end)
        end)
    end

    local job = [[
    local job = { apiVersion = "batch/v1", kind = "Job", metadata = { name = "job" }, spec = { template = { spec = {
      restartPolicy = "Never", containers = { { name = "c", image = memcached.spec.image } } } } } }]]

    local function image()
        local live = plane:get("jobs", namespace, "job")
        return live and live.spec.template.spec.containers[1].image, live and live.metadata.uid
    end

    it("tell of a change that is not possible, and go on with the rest", function()
        start(job .. [[ return { apply = { job, config_map("good", { image = memcached.spec.image }) } }]])
        eventually(15, "the job is there", image)
        plane:patch("memcacheds", namespace, "a", { spec = { image = "memcached:1.7" } })
        await_event(15, "Job", "field is immutable")
        eventually(5, "its sibling has the new image", function()
            return plane:get("configmaps", namespace, "good").data.image == "memcached:1.7"
        end)
        assert.are.equal("memcached:1.6", (image()))
        process.sleep(3)
        local tried = #writes_to "job"
        assert.is_true(tried <= 14, tried .. " writes")
    end)

    it("replace what can not be changed when they may", function()
        start(job .. [[ return { apply = { { object = job, replace = true } } }]])
        eventually(15, "the job is there", image)
        local _, uid = image()
        plane:patch("memcacheds", namespace, "a", { spec = { image = "memcached:1.7" } })
        eventually(20, "the job is another", function()
            local now, other = image()
            return now == "memcached:1.7" and other ~= uid, now
        end)
        process.sleep(2)
        local again = #writes_to "job"
        assert.is_true(again <= 8, functional.audit.describe(writes_to "job"))
        assert.are.equal(0, #plane:list("pods", namespace, "labelSelector=job-name%3Djob,batch.kubernetes.io/controller-uid%3D"
            .. uid))
        put [[return { apply = {} }]]
        eventually(15, "the job and its pods are gone", function()
            return not image() and #plane:list("pods", namespace) == 0
        end)
    end)

    it("let go of subjects whose namespace goes", function()
        local elsewhere = plane:namespace "elsewhere"
        start(([[
    local far = config_map("far-" .. memcached.metadata.name, { a = "1" })
    far.metadata.namespace = "%s"
    return { apply = { config_map("near-" .. memcached.metadata.name, { a = "1" }), far } }]]):format(elsewhere), [[
  finalize = function(memcached)
    if memcached.metadata.name == "c" then
      return { apply = { config_map("late", { a = "1" }) }, done = true }
    end
    return { done = true }
  end,]])
        for _, name in ipairs { "b", "c", "d", "e" } do
            plane:create("memcacheds", namespace, functional.memcached(name))
        end
        eventually(20, "all have their children", function()
            for _, name in ipairs { "a", "b", "c", "d", "e" } do
                if not plane:get("configmaps", elsewhere, "far-" .. name) then
                    return nil, name
                end
            end
            return true
        end)
        plane:delete("namespaces", nil, namespace)
        eventually(40, "the namespace is gone", function()
            local left = plane:get("namespaces", nil, namespace)
            return not left, left and require("cjson").encode(left.status)
        end)
        eventually(5, "the children elsewhere are gone", function()
            return not plane:get("configmaps", elsewhere, "far-a") and not plane:get("configmaps", elsewhere, "far-c")
        end)
        assert.is_true(#writes_to "late" <= 10, functional.audit.describe(writes_to "late"))
    end)

    it("log what the server warns of, once", function()
        start [[
    local pod = { metadata = { labels = { app = "w" } }, spec = { containers = { { name = "c", image = "i",
      resources = { requests = { memory = "100m" } } } } } }
    return { apply = { { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = memcached.metadata.name },
      spec = { replicas = memcached.spec.size, selector = { matchLabels = { app = "w" } }, template = pod } } } }]]
        host:await_log(15, "the server warns", "fractional byte value")
        for size = 2, 4 do
            plane:patch("memcacheds", namespace, "a", { spec = { size = size } })
            process.sleep(0.3)
        end
        eventually(10, "it has the last size", function()
            return plane:get("deployments", namespace, "a").spec.replicas == 4
        end)
        assert.are.equal(1, #host:log_matching("the server warns", "fractional byte value"))
    end)

    it("report a field that an autoscaler sets, and do not hammer it", function()
        start [[
    return { apply = { { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "d" }, spec = { replicas = 2,
      selector = { matchLabels = { app = "d" } }, template = { metadata = { labels = { app = "d" } },
      spec = { containers = { { name = "c", image = "i" } } } } } } } }]]
        eventually(15, "the deployment is there", function()
            return plane:get("deployments", namespace, "d")
        end)
        local before = #writes_to "d"
        for i = 1, 20 do
            plane:scale("deployment", namespace, "d", 4 + i % 3)
            process.sleep(0.5)
        end
        await_event(10, "FieldConflict", ".spec.replicas", "kubectl")
        local wrote = #writes_to "d" - before
        assert.is_true(wrote >= 5 and wrote <= 8, functional.audit.describe(writes_to "d"))
        assert.is_true(host:metric("tidelock_field_fights_total", {}) >= 1)
        await_reconciled("FieldConflict", "Deployment", "/d: field .spec.replicas", "kubectl")
    end)

    -- Each forces its value into the object that is the other's or nobody's.
    local fights = {
        ["two patches"] = "patch = { { force = true, object = %s } }",
        ["a child and a patch"] = "apply = { %s }",
    }
    for which, entry in pairs(fights) do
        it("name both scripts that set one field, and both values, of " .. which, function()
            local function of(name, text)
                return script(name, ("    return { %s }"):format(text:format(
                    ('config_map("fought", { v = "of %s" })'):format(name))))
            end
            if which == "two patches" then
                plane:create("configmaps", namespace, { metadata = { name = "fought" } })
            end
            plane:put_scripts("one", { ["one.lua"] = of("one", entry) })
            plane:put_scripts("two", { ["two.lua"] = of("two", fights["two patches"]) })
            mark = plane.audit:mark()
            host = functional.host.start { plane = plane }
            host:await_ready()
            plane:create("memcacheds", namespace, functional.memcached "a")
            eventually(20, "both have said, each with both scripts and both values", function()
                local said = plane:events_about("a", namespace)
                for _, pair in ipairs { { "one", "two" }, { "two", "one" } } do
                    local found
                    for line in said:gmatch "[^\n]+" do
                        found = found or (line:find("FieldConflict: ConfigMap " .. namespace .. "/fought: field .data.v flips", 1, true)
                            and line:find(('manager "tidelock-%s-'):format(pair[1]), 1, true)
                            and line:find(('sets it to "of %s"'):format(pair[1]), 1, true)
                            and line:find(('this script (manager "tidelock-%s-'):format(pair[2]), 1, true)
                            and line:find(('to "of %s": leave'):format(pair[2]), 1, true))
                    end
                    if not found or #host:log_matching("FieldConflict", ('"script":"%s"'):format(pair[2])) ~= 1
                        or host:metric("tidelock_field_fights_total", { script = pair[2] }) ~= 1 then
                        return nil, said .. host:log_text():sub(-1000)
                    end
                end
                return true
            end)
            process.sleep(3)
            local wrote = #writes_to "fought"
            process.sleep(2)
            assert.is_true(#writes_to "fought" <= 16, functional.audit.describe(writes_to "fought"))
            assert.equal(wrote, #writes_to "fought") -- until one of them is set again, after 30 s
        end)
    end

    it("make a child that somebody deletes again less and less often", function()
        start [[
    return { apply = { config_map("c", { a = "1" }),
      config_map("sibling", { size = tostring(memcached.spec.size) }) } }]]
        for _ = 1, 20 do
            if plane:get("configmaps", namespace, "c") then
                plane:delete("configmaps", namespace, "c")
            end
            process.sleep(0.3)
        end
        await_event(10, "ChildDeleted", "ConfigMap", "/c is deleted")
        await_reconciled("ChildDeleted", "ConfigMap", "/c is deleted by somebody again and again")
        assert.equal(5, #writes_to "c", functional.audit.describe(writes_to "c"))
        assert.equal(1, host:metric("tidelock_child_fights_total", {}))
        plane:patch("memcacheds", namespace, "a", { spec = { size = 5 } })
        eventually(5, "its sibling is not slowed", function()
            return plane:get("configmaps", namespace, "sibling").data.size == "5"
        end)
    end)
end)
