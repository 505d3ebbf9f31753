--- Fields that change hands while the object lives: replicas that an autoscaler takes over and gives back, and any other
-- field whose next owner sets it first. What anybody could see in between is part of it.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

functional.describe("ownership of a field", function()
    local plane, namespace, host, mark

    functional.around_widgets("handover", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    local function put(body)
        plane:put_scripts("own", { ["own.lua"] = widgets.script("own", body) })
    end

    local function start()
        host = functional.host.start { plane = plane }
        host:await_ready()
    end

    local function create(name, spec)
        plane:create("widgets", namespace, widgets.object("Widget", name, spec))
    end

    local function set(name, spec)
        plane:patch("widgets", namespace, name, { spec = spec })
    end

    local function data(name)
        local object = plane:get("configmaps", namespace, name)
        return object and object.data
    end

    local function await_data(name, wanted)
        eventually(10, name .. " holds what it should", function()
            assert.same(wanted, data(name))
            return true
        end)
    end

    describe("such as replicas", function()
        local deployment = [[
    return { apply = { { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "d" }, spec = {
      replicas = not o.spec.autoscale and 2 or nil, minReadySeconds = o.spec.seconds,
      selector = { matchLabels = { app = "d" } }, template = { metadata = { labels = { app = "d" } },
      spec = { containers = { { name = "c", image = "i" } } } } } } } }]]
        local path

        local function replicas()
            local object = plane:get("deployments", namespace, "d")
            return object and object.spec.replicas
        end

        local function await(n)
            eventually(10, "it has " .. n .. " replicas", function()
                return replicas() == n, tostring(replicas())
            end)
        end

        local function await_seconds(n)
            eventually(10, "other fields go on", function()
                return plane:get("deployments", namespace, "d").spec.minReadySeconds == n
            end)
        end

        -- The numbers of replicas that anybody could see, from that version of the Deployment on.
        local function history(version)
            local _, text = plane.api:request("GET",
                ("/apis/apps/v1/namespaces/%s/deployments?watch=1&timeoutSeconds=1&resourceVersion=%s"):format(namespace, version))
            local seen = { 2 }
            for line in text:gmatch "[^\n]+" do
                local n = require("cjson").decode(line).object.spec.replicas
                if seen[#seen] ~= n then
                    seen[#seen + 1] = n
                end
            end
            return seen
        end

        local function owners()
            local found = {}
            for _, entry in ipairs(plane:get("deployments", namespace, "d").metadata.managedFields) do
                local spec = entry.fieldsV1["f:spec"]
                if spec and spec["f:replicas"] then
                    found[#found + 1] = entry.manager:match "^tidelock" or entry.manager
                end
            end
            return table.concat(found, " ")
        end

        before_each(function()
            path = ("/apis/apps/v1/namespaces/%s/deployments/d"):format(namespace)
            put(deployment)
            start()
            create("w", { autoscale = false, seconds = 1 })
            await(2)
        end)

        local scalers = {
            ["a PUT of the scale subresource"] = function(n)
                eventually(5, "nobody writes in between", function()
                    local scale = plane.api:json("GET", path .. "/scale")
                    scale.spec.replicas = n
                    return plane.api:json("PUT", path .. "/scale?fieldManager=hpa", scale)
                end)
            end,
            ["a merge patch of the scale subresource"] = function(n)
                plane.api:json("PATCH", path .. "/scale?fieldManager=hpa", { spec = { replicas = n } }, "application/merge-patch+json")
            end,
            ["a merge patch of the Deployment"] = function(n)
                plane.api:json("PATCH", path .. "?fieldManager=hpa", { spec = { replicas = n } }, "application/merge-patch+json")
            end,
        }
        for how, scale in pairs(scalers) do
            it("goes to an autoscaler that writes by " .. how .. ", never through the default, and back", function()
                local version = plane:get("deployments", namespace, "d").metadata.resourceVersion
                scale(5)
                await(2) -- it is the script's
                set("w", { autoscale = true })
                process.sleep(0.5)
                assert.equal(2, replicas()) -- nobody has written it yet
                set("w", { seconds = 2 })
                await_seconds(2)
                assert.equal(2, replicas())
                for n = 5, 7 do
                    scale(n)
                    set("w", { seconds = n })
                    await_seconds(n)
                    process.sleep(0.3)
                    assert.equal(n, replicas())
                end
                assert.equal("hpa", owners())
                set("w", { autoscale = false })
                await(2)
                assert.equal("2 5 2 5 6 7 2", table.concat(history(version), " "))
                assert.equal(0, #host:log_matching "pass failed", host:log_text())
            end)
        end

        it("is given up at once to who has applied the same number", function()
            local function apply(n)
                assert(plane.api:json("PATCH", path .. "?fieldManager=hpa",
                    ('{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":%d}}'):format(n),
                    "application/apply-patch+yaml"))
            end
            apply(2)
            set("w", { autoscale = true })
            eventually(10, "the script owns it no more", function()
                return owners() == "hpa", owners()
            end)
            assert.equal(2, replicas())
            apply(4) -- no conflict
            set("w", { seconds = 9 })
            await_seconds(9)
            assert.equal(4, replicas())
        end)

        it("costs a restart nothing while nobody has taken it", function()
            set("w", { autoscale = true })
            process.sleep(0.5)
            mark = plane.audit:mark()
            host:stop()
            host = functional.host.start { plane = plane }
            host:await_ready()
            process.sleep(1.5)
            local writes = widgets.writes(plane, mark, namespace)
            assert.equal(0, #writes, functional.audit.describe(writes))
            assert.equal(2, replicas())
        end)
    end)

    describe("of a patch", function()
        local path

        local function owner_applies(manager, n, force)
            assert(plane.api:json("PATCH", ("%s?fieldManager=%s%s"):format(path, manager, force and "&force=true" or ""),
                ([[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":%d}}]]):format(n),
                "application/apply-patch+yaml"))
        end

        local function await(n)
            eventually(10, "it has " .. n .. " replicas", function()
                local now = plane:get("deployments", namespace, "d").spec.replicas
                return now == n, tostring(now)
            end)
        end

        before_each(function()
            path = ("/apis/apps/v1/namespaces/%s/deployments/d"):format(namespace)
            plane:create("deployments", namespace, { metadata = { name = "d" }, spec = {
                replicas = 4, selector = { matchLabels = { app = "d" } }, template = { metadata = { labels = { app = "d" } },
                spec = { containers = { { name = "c", image = "i" } } } } } })
            put [[ return { patch = { { force = true, object = { apiVersion = "apps/v1", kind = "Deployment",
                metadata = { name = "d" }, spec = { replicas = o.spec.replicas, minReadySeconds = 1 } } } } }]]
            start()
            create("w", { replicas = 3 })
            await(3)
        end)

        it("goes back to its default when nobody else has set it, replicas too", function()
            set("w", { replicas = functional.null })
            await(1)
            assert.equal(1, plane:get("deployments", namespace, "d").spec.minReadySeconds)
        end)

        it("stays as it is when somebody else has applied it", function()
            owner_applies("helm", 3)
            set("w", { replicas = functional.null })
            process.sleep(1.5)
            await(3)
            owner_applies("helm", 5) -- no conflict
            process.sleep(1)
            await(5)
        end)
    end)

    it("that is any other goes in two steps: the other sets it, then the script leaves it out", function()
        put [[ return { apply = { cm("c", o.spec.data) } }]]
        start()
        create("w", { data = { shared = "1", own = "1", stays = "1" } })
        await_data("c", { shared = "1", own = "1", stays = "1" })
        local function alice_applies(value)
            plane.api:json("PATCH", ("/api/v1/namespaces/%s/configmaps/c?fieldManager=alice"):format(namespace),
                { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "c" }, data = { shared = value } },
                "application/apply-patch+yaml")
        end
        alice_applies "1"
        set("w", { data = { shared = functional.null, own = functional.null } })
        await_data("c", { shared = "1", stays = "1" })
        alice_applies "2" -- no conflict
        process.sleep(1)
        assert.same({ shared = "2", stays = "1" }, data "c")
    end)
end)
