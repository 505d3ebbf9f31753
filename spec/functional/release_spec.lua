--- What is given back: patches of subjects that are gone, the objects of removed scripts; and generated secrets.
local functional = require "spec.functional.support"
local eventually, process = functional.eventually, functional.process

-- For each Memcached: a ConfigMap NAME-note, and the label NAME on the ConfigMap `target`; with a finalizer.
local script = [[
return {
  name = "%s",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
    local name = memcached.metadata.name
    return {
      apply = { { apiVersion = "v1", kind = "ConfigMap", metadata = { name = name .. "-note" }, data = { text = "%s" } } },
      patch = { { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "target", labels = { [name] = "here" } } } },
    }
  end,
  finalize = function() return { done = true } end,
}
]]

-- Without finalizer: a label on the ConfigMap `target` for each Deployment.
local labels = [[
return {
  name = "labels",
  subject = "apps/v1/Deployment",
  reconcile = function(deployment)
    return { patch = { { apiVersion = "v1", kind = "ConfigMap",
      metadata = { name = "target", labels = { [deployment.metadata.name] = "here" } } } } }
  end,
}
]]

local function deployment(name)
    return {
        apiVersion = "apps/v1", kind = "Deployment", metadata = { name = name },
        spec = {
            replicas = 0, selector = { matchLabels = { app = name } },
            template = {
                metadata = { labels = { app = name } },
                spec = { containers = { { name = "c", image = "c:1" } } },
            },
        },
    }
end

functional.describe("what is given back", function()
    local plane, namespace

    local function start()
        local host = functional.host.start { plane = plane }
        host:await_ready()
        return host
    end

    local function target_label(name)
        return (plane:get("configmaps", namespace, "target").metadata.labels or {})[name]
    end

    local function managers(object)
        local names = {}
        for _, entry in ipairs(object.metadata.managedFields or {}) do
            names[#names + 1] = entry.manager
        end
        return table.concat(names, " ")
    end

    local function release(...)
        return process.run { functional.host.binary(), "release", "--kubeconfig", plane:kubeconfig "admin", ... }
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "release"
        plane:create("configmaps", namespace, { metadata = { name = "target" } })
    end)

    after_each(function()
        functional.host.stop_all()
        release("old")
        release("new")
        plane:clean()
    end)

    it("are patches of a subject that was deleted while no host ran", function()
        plane:put_scripts("labels", { ["labels.lua"] = labels })
        local host = start()
        plane:create("deployments", namespace, deployment "a")
        plane:create("deployments", namespace, deployment "b")
        eventually(10, "both are patched in", function()
            return target_label "a" == "here" and target_label "b" == "here"
        end)
        host:expect_failure():signal "KILL"
        host:await_exit(5)
        plane:delete("deployments", namespace, "a")
        eventually(20, "the Deployment is gone", function()
            return plane:get("deployments", namespace, "a") == nil
        end)
        assert.equal("here", target_label "a")
        start()
        eventually(10, "the patch is released", function()
            return target_label "a" == nil
        end)
        assert.equal("here", target_label "b")
    end)

    it("are patches of a subject that is deleted", function()
        plane:put_scripts("labels", { ["labels.lua"] = labels })
        start()
        plane:create("deployments", namespace, deployment "a")
        eventually(10, "it is patched in", function()
            return target_label "a" == "here"
        end)
        plane:delete("deployments", namespace, "a")
        eventually(30, "the patch is released", function()
            return target_label "a" == nil
        end)
    end)

    describe("of a removed script", function()
        before_each(function()
            plane:put_scripts("old", { ["old.lua"] = script:format("old", "one") })
            local host = start()
            plane:create("memcacheds", namespace, functional.memcached "a")
            eventually(10, "the script has done its work", function()
                return functional.note(plane, namespace, "a") == "one" and target_label "a" == "here"
            end)
            assert.equal(1, #plane:get("memcacheds", namespace, "a").metadata.finalizers)
            plane:delete("configmaps", "tidelock-system", "old")
            host:await_log(15, "tidelock release old --namespace-of-script tidelock-system")
        end)

        it("is said by an Event while finalizers wait", function()
            eventually(10, "an Event names the command", function()
                for _, item in ipairs(plane:list("events", "tidelock-system")) do
                    if item.reason == "FinalizersWait" then
                        return item.message:find("tidelock release old", 1, true)
                    end
                end
            end)
        end)

        it("are its objects, when asked", function()
            functional.host.stop_all()
            local code, printed = release("old", "--dry-run")
            assert.equal(0, code, printed)
            assert.truthy(printed:find("would be", 1, true))
            assert.equal(1, #plane:get("memcacheds", namespace, "a").metadata.finalizers)

            local complained
            code, printed, complained = release("old")
            assert.equal(0, code, printed .. complained)
            assert.truthy(printed:find("3 objects released", 1, true), printed)
            local note = plane:get("configmaps", namespace, "a-note")
            assert.equal("one", note.data.text)
            assert.is_nil(note.metadata.labels)
            assert.is_nil(note.metadata.ownerReferences)
            assert.is_nil(managers(note):find("tidelock-old", 1, true))
            local subject = plane:get("memcacheds", namespace, "a")
            assert.is_nil(subject.metadata.finalizers)
            assert.is_nil(managers(subject):find("tidelock-old", 1, true))
            assert.is_nil(target_label "a")

            code, printed, complained = release("old")
            assert.equal(3, code, printed)
            assert.truthy(complained:find("no inventory of script tidelock-system/old", 1, true), complained)
        end)

        it("are not those of a script for another kind, which is refused before anything is touched", function()
            functional.host.stop_all()
            plane:put_scripts("maps", { ["maps.lua"] = [[
return { name = "maps", subject = "v1/ConfigMap", selector = "kind=map", reconcile = function() return {} end,
  finalize = function() return { done = true } end }]] })
            plane:create("configmaps", namespace, { metadata = { name = "m", labels = { kind = "map" } } })
            start()
            eventually(10, "it has subjects", function()
                return plane:get("configmaps", namespace, "m").metadata.finalizers
            end)
            functional.host.stop_all()
            local mark = plane.audit:mark()
            for _, flags in ipairs { { "--dry-run" }, {} } do
                local code, printed, complained = release("old", "--adopt-by", "maps", unpack(flags))
                assert.equal(1, code, printed)
                assert.truthy(complained:find("maps: its subjects are of kind ConfigMap, those of tidelock-system/old of kind "
                    .. "cache.example.com/Memcached", 1, true), complained)
                assert.truthy(complained:find("leave --adopt-by out", 1, true), complained)
            end
            assert.equal(0, #plane.audit:writes_since(mark))
            plane:patch("configmaps", namespace, "m", { metadata = { finalizers = functional.null } })
        end)

        it("are another script's, which has nothing to change", function()
            functional.host.stop_all()
            local code, printed, complained = release("old", "--adopt-by", "new")
            assert.equal(0, code, printed .. complained)
            local before = plane:get("configmaps", namespace, "a-note")
            local subject = plane:get("memcacheds", namespace, "a")
            assert.truthy(managers(before):find("tidelock-new", 1, true))
            assert.is_nil(managers(before):find("tidelock-release", 1, true))
            local mark = plane.audit:mark()
            plane:put_scripts("new", { ["new.lua"] = script:format("new", "one") })
            local host = start()
            host:await_log(10, "script runs")
            process.sleep(3)
            for _, write in ipairs(plane.audit:writes_since(mark)) do
                assert.is_nil(write.text:find(namespace, 1, true) and not write.text:find("events", 1, true) and write.text)
            end
            assert.same(before.metadata.resourceVersion, plane:get("configmaps", namespace, "a-note").metadata.resourceVersion)
            assert.same(subject.metadata.resourceVersion, plane:get("memcacheds", namespace, "a").metadata.resourceVersion)
            plane:put_scripts("new", { ["new.lua"] = script:format("new", "two") })
            eventually(5, "it is its own", function()
                return functional.note(plane, namespace, "a") == "two"
            end)
        end)
    end)
end)

functional.describe("a script that is taken away", function()
    local plane, namespace

    local hook = [[
return {
  name = "leaves",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
    return { apply = { { apiVersion = "v1", kind = "ConfigMap", metadata = { name = memcached.metadata.name .. "-note" },
      data = { text = "one" } } } }
  end,
  finalize = function(memcached, world)
    if not world.get("v1/ConfigMap", "gate") then
      error("no gate yet", 0)
    end
    return { done = true }
  end,
}
]]

    local function finalizers(name)
        local object = plane:get("memcacheds", namespace, name)
        return object and #(object.metadata.finalizers or {})
    end

    local function release(...)
        return process.run { functional.host.binary(), "release", "--kubeconfig", plane:kubeconfig "admin", ... }
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "leaves"
        plane:put_scripts("leaves", { ["leaves.lua"] = hook })
        functional.host.start({ plane = plane }):await_ready()
        for i = 1, 12 do
            plane:create("memcacheds", namespace, functional.memcached("m" .. i))
        end
        eventually(10, "all have their child and finalizer", function()
            for i = 1, 12 do
                if not functional.note(plane, namespace, "m" .. i) or finalizers("m" .. i) ~= 1 then
                    return nil, "m" .. i
                end
            end
            return true
        end)
        plane:patch("memcacheds", namespace, "m1", { metadata = { finalizers = {
            "x.test/hers", plane:get("memcacheds", namespace, "m1").metadata.finalizers[1], } } })
        plane:delete("memcacheds", namespace, "m11")
        plane:delete("memcacheds", namespace, "m12")
        eventually(10, "the hook fails", function()
            return plane:events_about("m11", namespace):find("no gate yet", 1, true)
        end)
        assert.equal(1, finalizers "m11")
    end)

    after_each(function()
        functional.host.stop_all()
        release("leaves")
        plane:clean()
    end)

    -- Ten live subjects and two that are being deleted: all are let go of, nothing that lives is deleted.
    local function assert_released()
        local code, printed, complained = release("leaves")
        assert.equal(0, code, printed .. complained)
        eventually(10, "those that were being deleted are gone", function()
            return finalizers "m11" == nil and finalizers "m12" == nil
        end)
        assert.same({ "x.test/hers" }, plane:get("memcacheds", namespace, "m1").metadata.finalizers)
        for i = 2, 10 do
            local object = plane:get("memcacheds", namespace, "m" .. i)
            assert.is_nil(object.metadata.finalizers)
            assert.is_nil(object.metadata.deletionTimestamp)
            assert.equal("one", functional.note(plane, namespace, "m" .. i))
        end
        plane:patch("memcacheds", namespace, "m1", { metadata = { finalizers = functional.null } })
    end

    it("while the host runs keeps its finalizers, also of what is being deleted, until it is released", function()
        plane:delete("configmaps", "tidelock-system", "leaves")
        process.sleep(3)
        for _, name in ipairs { "m2", "m11", "m12" } do
            assert.equal(1, finalizers(name))
        end
        functional.host.stop_all()
        assert_released()
    end)

    it("while no host runs is found by the next one, which says what to do", function()
        functional.host.stop_all()
        plane:delete("configmaps", "tidelock-system", "leaves")
        local host = functional.host.start { plane = plane }
        host:await_ready()
        host:await_log(15, "tidelock release leaves --namespace-of-script tidelock-system")
        for _, name in ipairs { "m2", "m11", "m12" } do
            assert.equal(1, finalizers(name))
        end
        assert_released() -- beside the running host
    end)

    it("and comes back goes on where it was", function()
        plane:delete("configmaps", "tidelock-system", "leaves")
        process.sleep(1)
        plane:create("configmaps", namespace, { metadata = { name = "gate" } })
        assert.equal(1, finalizers "m11")
        plane:put_scripts("leaves", { ["leaves.lua"] = hook })
        eventually(15, "those that were being deleted are gone", function()
            return finalizers "m11" == nil and finalizers "m12" == nil
        end)
        assert.equal(1, finalizers "m2")
        plane:patch("memcacheds", namespace, "m1", { metadata = { finalizers = functional.null } })
    end)
end)

functional.describe("world.secret_value", function()
    local plane, namespace

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
        namespace = plane:namespace "secret"
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    it("is the same after a restart, differs by subject and name, and is told nowhere", function()
        plane:put_scripts("passwords", {
            ["passwords.lua"] = functional.note_script("passwords", "x")
                :gsub('data = { text = "x" }',
                    'data = { text = world.secret_value("db", { length = 24 }), other = world.secret_value("web") }'),
        })
        local host = functional.host.start { plane = plane, args = { "--log-level", "trace" } }
        host:await_ready()
        plane:create("memcacheds", namespace, functional.memcached "a")
        plane:create("memcacheds", namespace, functional.memcached "b")
        local function values(name)
            local note = plane:get("configmaps", namespace, name .. "-note")
            return note and note.data
        end
        local a = eventually(10, "a has its values", function()
            return values "a"
        end)
        local b = eventually(10, "b has its values", function()
            return values "b"
        end)
        assert.equal(24, #a.text)
        assert.equal(32, #a.other)
        assert.truthy(a.text:find "^%w+$")
        assert.not_equal(a.text, b.text)
        assert.not_equal(a.text, a.other:sub(1, 24))
        local log = host:log_text()
        local mark = plane.audit:mark()
        functional.host.stop_all()
        host = functional.host.start { plane = plane, args = { "--log-level", "trace" } }
        host:await_ready()
        process.sleep(2)
        assert.same(a, values "a")
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            assert.is_nil(write.text:find(namespace, 1, true) and write.text)
        end
        assert.is_nil((log .. host:log_text()):find(a.text, 1, true))
        local key = plane:get("secrets", "tidelock-system", "tidelock-host-key").data.key
        assert.is_nil((log .. host:log_text()):find(key, 1, true))
    end)
end)
