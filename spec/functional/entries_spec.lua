--- What an entry of a result can ask for beside its object: order by readiness, created once, kept, and fields and deletions of
-- objects that are not the script's own.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

functional.describe("entries", function()
    local plane, namespace, host, mark

    functional.around_widgets("entries", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    local function put(body, rest)
        plane:put_scripts("entries", { ["entries.lua"] = widgets.script("entries", body, rest) })
    end

    local function start(body, spec)
        put(body)
        host = functional.host.start { plane = plane }
        host:await_ready()
        mark = plane.audit:mark()
        plane:create("widgets", namespace, widgets.object("Widget", "w", spec or {}))
    end

    local function set(spec)
        plane:patch("widgets", namespace, "w", { spec = spec })
    end

    local function data(name)
        local object = plane:get("configmaps", namespace, name)
        return object and (object.data or {})
    end

    local function await_data(name, wanted)
        eventually(15, name .. " holds what it should", function()
            assert.same(wanted, data(name), host:log_text():sub(-600))
            return true
        end)
    end

    local function await_gone(name)
        eventually(15, name .. " is gone", function()
            return not data(name)
        end)
    end

    local function await_event(...)
        local needles = { ... }
        eventually(10, "an Event says " .. table.concat(needles, ", "), function()
            local text = plane:events_about("w", namespace)
            for _, needle in ipairs(needles) do
                if not text:find(needle, 1, true) then
                    return nil, text
                end
            end
            return true
        end)
    end

    local function config_map(name, manager, change, content_type)
        local path = ("/api/v1/namespaces/%s/configmaps/%s?fieldManager=%s"):format(namespace, name, manager)
        return plane.api:json("PATCH", path, change, content_type or "application/merge-patch+json")
    end

    -- Names of what the host created or deleted, in order.
    local function order(verb)
        local names = {}
        for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
            local entry = write.entry
            local created = entry.verb == "patch" and entry.responseStatus.code == 201
            if entry.responseStatus.code < 300 and (verb == "create" and created or entry.verb == verb) then
                names[#names + 1] = entry.objectRef.name
            end
        end
        return table.concat(names, " ")
    end

    describe("with an order", function()
        it("are made when what they wait for is ready, stay when it is not for a while, and go in reverse", function()
            start [[
    local database, server, front = cm("database", { a = "1" }), cm("server", { a = "1" }), cm("front", { a = "1" })
    local ready = function(live) return live.data.ready == "yes" end
    if o.spec.none then
      return { apply = {} }
    end
    return { apply = { { object = front, after = { server } }, { object = server, after = { database }, ready = ready },
      { object = database, ready = ready } } }]]
            await_data("database", { a = "1" })
            process.sleep(1)
            assert.is_nil(data "server")
            config_map("database", "alice", { data = { ready = "yes" } })
            await_data("server", { a = "1" })
            process.sleep(0.5)
            assert.is_nil(data "front")
            config_map("server", "alice", { data = { ready = "yes" } })
            await_data("front", { a = "1" })
            config_map("database", "alice", { data = { ready = "no" } })
            process.sleep(1)
            config_map("front", "alice", { data = { a = "2" } })
            await_data("front", { a = "1" }) -- it is kept right meanwhile
            assert.truthy(data "server")
            assert.equal("database server front", order "create")
            set { none = true }
            await_gone "database"
            assert.equal("front server database", order "delete")
        end)

        it("go in reverse with their subject too, also when the host is started in between", function()
            start [[
    local database, server = cm("database", { a = "1" }), cm("server", { a = "1" })
    return { apply = { database, { object = server, after = { database } } } }]]
            await_data("server", { a = "1" })
            plane:patch("configmaps", namespace, "server", { metadata = { finalizers = { "x.test/hold" } } })
            plane:delete("widgets", namespace, "w")
            eventually(10, "the server goes", function()
                return plane:get("configmaps", namespace, "server").metadata.deletionTimestamp
            end)
            host:stop()
            host = functional.host.start { plane = plane }
            host:await_ready()
            process.sleep(1)
            assert.truthy(data "database")
            assert.truthy(plane:get("widgets", namespace, "w"))
            plane:patch("configmaps", namespace, "server", { metadata = { finalizers = functional.null } })
            eventually(10, "the subject is gone", function()
                return not plane:get("widgets", namespace, "w")
            end)
            eventually(90, "the collector, which looks for new kinds now and then, has taken the first one", function()
                return not data "database"
            end)
        end)
    end)

    it("once are made and left alone, kept ones stay", function()
        start([[
    local all = { { object = cm("once", { a = o.spec.a }), once = true }, { object = cm("kept", { a = o.spec.a }), keep = true },
      cm("plain", { a = o.spec.a }) }
    return { apply = o.spec.none and {} or all }]], { a = "1" })
        await_data("plain", { a = "1" })
        await_data("once", { a = "1" })
        config_map("once", "alice", { data = { a = "hers", more = "1" } })
        set { a = "2" }
        await_data("plain", { a = "2" })
        await_data("kept", { a = "2" })
        assert.same({ a = "hers", more = "1" }, data "once")
        plane:delete("configmaps", namespace, "once")
        await_data("once", { a = "2" })
        set { none = true }
        await_gone "plain"
        await_gone "once"
        assert.same({ a = "2" }, data "kept")
        set { none = functional.null }
        await_data("plain", { a = "2" })
        plane:delete("widgets", namespace, "w")
        await_gone "plain"
        process.sleep(1)
        assert.same({ a = "2" }, data "kept")
    end)

    describe("of patch", function()
        local script = [[
    return { patch = o.spec.none and {} or { { force = o.spec.force, object = {
      apiVersion = "v1", kind = "ConfigMap", metadata = { name = "hers" }, data = o.spec.data } } } }]]

        local function hers(values)
            plane:create("configmaps", namespace, { metadata = { name = "hers" }, data = values })
        end

        it("wait for their object, make none, and are given up when they are no longer returned", function()
            start(script, { data = { a = "1" } })
            process.sleep(1.5)
            assert.is_nil(data "hers")
            hers { hers = "1" }
            await_data("hers", { hers = "1", a = "1" })
            set { data = { a = functional.null, b = "2" } }
            await_data("hers", { hers = "1", b = "2" })
            plane:delete("configmaps", namespace, "hers") -- another of the name gets them too
            hers { other = "1" }
            await_data("hers", { other = "1", b = "2" })
            set { none = true }
            await_data("hers", { other = "1" })
            assert.is_nil(plane:get("configmaps", namespace, "hers").metadata.labels)
            assert.is_nil(plane:get("configmaps", namespace, "hers").metadata.ownerReferences)
        end)

        it("take no field of another manager, whose name is told, unless they are forced: once, and in peace", function()
            hers { a = "hers" }
            config_map("hers", "alice", { data = { a = "alice's" } })
            start(script, { data = { a = "ours" } })
            await_event("alice", ".data.a")
            process.sleep(2)
            assert.same({ a = "alice's" }, data "hers")
            local tried = #widgets.writes(plane, mark, namespace)
            assert.is_true(tried <= 20, tried .. " attempts")
            set { force = true }
            await_data("hers", { a = "ours" })
            process.sleep(0.5)
            mark = plane.audit:mark()
            plane:patch("widgets", namespace, "w", { metadata = { annotations = { touched = "1" } } })
            process.sleep(1)
            for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
                assert.is_nil(write.text:find("/hers", 1, true), write.text)
            end
        end)

        it("go to an object that could not be applied as a whole", function()
            local env = { { name = "A", value = "1" }, { name = "A", value = "2" } }
            plane:create("deployments", namespace, { metadata = { name = "d" }, spec = {
                replicas = 0, selector = { matchLabels = { app = "d" } }, template = { metadata = { labels = { app = "d" } },
                spec = { containers = { { name = "c", image = "i", env = env } } } } } })
            start [[
    return { patch = { { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "d", labels = { ours = "yes" } } } } }]]
            eventually(10, "it has the label", function()
                return plane:get("deployments", namespace, "d").metadata.labels.ours == "yes", host:log_text():sub(-500)
            end)
            assert.equal(2, #plane:get("deployments", namespace, "d").spec.template.spec.containers[1].env)
        end)
    end)

    it("of delete go by UID, and nothing there is no error", function()
        for _, name in ipairs { "named", "other", "mine" } do
            plane:create("configmaps", namespace, { metadata = { name = name }, data = { a = "1" } })
        end
        local uid = plane:get("configmaps", namespace, "mine").metadata.uid
        start([[
    local function ref(name, uid)
      return { apiVersion = "v1", kind = "ConfigMap", metadata = { name = name, uid = uid } }
    end
    return { delete = { ref("named"), ref("missing"), ref("other", "00000000-0000-0000-0000-000000000000"), ref("mine", o.spec.uid) },
      status = { phase = "Up" } }]], { uid = uid })
        await_gone "named"
        await_gone "mine"
        eventually(5, "the pass has gone through", function()
            return plane:get("widgets", namespace, "w").status.phase == "Up"
        end)
        assert.truthy(data "other")
        assert.equal(0, #host:log_matching "pass failed", host:log_text())
        plane:create("configmaps", namespace, { metadata = { name = "mine" }, data = { a = "2" } })
        process.sleep(1)
        assert.same({ a = "2" }, data "mine") -- another one
    end)
end)
