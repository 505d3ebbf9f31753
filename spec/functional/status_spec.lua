--- Status and finalizers on a real server: what the host writes of a status and when, times as the server wants them, kinds
-- without the status subresource, and finalize hooks that fail, take long, come and go.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

local count = functional.sanitized and 10 or 300 -- Widgets that must not wake themselves

functional.describe("status", function()
    local plane, namespace, host, mark

    functional.around_widgets("status", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    local function put(name, body, rest, kind)
        plane:put_scripts(name, { [name .. ".lua"] = widgets.script(name, body, rest, kind) })
    end

    local function start(env)
        host = functional.host.start { plane = plane, env = env }
        host:await_ready()
        mark = plane.audit:mark()
    end

    local function create(name, spec, kind)
        plane:create((kind or "Widget"):lower() .. "s", namespace, widgets.object(kind or "Widget", name, spec or {}))
    end

    local function set(name, spec)
        plane:patch("widgets", namespace, name, { spec = spec })
    end

    local function status(name)
        return plane:get("widgets", namespace, name or "w").status or {}
    end

    local function writes()
        return widgets.writes(plane, mark, namespace)
    end

    local function passes(name)
        return host:metric("controller_runtime_reconcile_total", { controller = name or "status" }) or 0
    end

    -- Changes the Widget w and waits for the pass; how many writes that made.
    local function change(spec)
        local before = passes()
        mark = plane.audit:mark()
        set("w", spec)
        eventually(5, "the pass is through", function()
            return passes() > before
        end)
        process.sleep(0.4)
        return #writes()
    end

    local function await_condition(value)
        return (eventually(10, "the condition is " .. value, function()
            local conditions = status().conditions
            for _, condition in ipairs(conditions or {}) do
                if condition.type == "Ready" and condition.status == value then
                    return condition
                end
            end
        end))
    end

    local conditions = [[
    local ready = k8s.condition("Ready", o.spec.up, "Because", o.spec.message or "all good")
    local other = k8s.condition("Other", true, "Always", "")
    ready.observedGeneration = o.metadata.generation
    if o.spec.stamp then
      ready.lastTransitionTime = k8s.format_time(world.now())
    end
    return { status = { phase = "Up", observedGeneration = o.metadata.generation,
      conditions = o.spec.turned and { other, ready } or { ready, other } } }]]

    it("is written once, and wakes nobody", function()
        put("status", conditions)
        start()
        for i = 1, count do
            create("w" .. i, { up = true })
        end
        eventually(30, "all have their status", function()
            local left = 0
            for _, item in ipairs(plane:list("widgets", namespace)) do
                left = left + (item.status and item.status.phase == "Up" and 0 or 1)
            end
            return left == 0, left .. " are missing"
        end)
        process.sleep(2) -- another second: stamps would differ by now
        assert.equal(count, #writes(), functional.audit.describe(writes()))
        assert.is_true(passes() <= count + 1, passes() .. " passes")
    end)

    for how, spec in pairs { ["the host"] = {}, ["the script, at each pass anew"] = { stamp = true } } do
        it("has conditions stamped by " .. how .. " when they change, and only then", function()
            put("status", conditions)
            start()
            spec.up = true
            create("w", spec)
            local first = await_condition "True"
            assert.truthy(first.lastTransitionTime:match "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ$", first.lastTransitionTime)
            process.sleep(1.1)
            assert.equal(1, change { message = "still good" })
            local second = await_condition "True"
            assert.equal("still good", second.message)
            assert.equal(first.lastTransitionTime, second.lastTransitionTime)
            assert.equal(2, second.observedGeneration)
            assert.equal(2, status().observedGeneration)
            assert.equal(1, change { up = false })
            local third = await_condition "False"
            assert.not_equal(first.lastTransitionTime, third.lastTransitionTime)
            process.sleep(1.1)
            assert.equal(1, change { up = true })
            assert.not_equal(third.lastTransitionTime, await_condition("True").lastTransitionTime)
            -- an annotation is no new generation: nothing differs
            mark = plane.audit:mark()
            plane:patch("widgets", namespace, "w", { metadata = { annotations = { a = "1" } } })
            process.sleep(1)
            assert.equal(0, #writes(), functional.audit.describe(writes()))
        end)
    end

    it("has conditions in any order", function()
        put("status", (conditions:gsub("observedGeneration = o%.metadata%.generation", "observedGeneration = 1")))
        start()
        create("w", { up = true })
        await_condition "True"
        assert.equal(0, change { turned = true })
        assert.equal("True", await_condition("True").status)
    end)

    it("loses what a script no longer says, and raises no generation", function()
        put("status", [[ return { status = o.spec.status } ]])
        start()
        create("w", { status = { phase = "Up", count = 3, any = { a = 1, b = { 2 } } } })
        eventually(10, "it is there", function()
            assert.same({ phase = "Up", count = 3, any = { a = 1, b = { 2 } } }, status())
            return true
        end)
        local version = plane:get("widgets", namespace, "w").metadata.generation
        assert.equal(1, version)
        assert.equal(1, change { status = { phase = functional.null, any = { b = functional.null } } })
        assert.same({ count = 3, any = { a = 1 } }, status())
        plane:kubectl {
            "patch", "widget", "w", "-n", namespace, "--subresource=status", "--type=merge",
            "-p", '{"status":{"phase":"hers"}}',
        }
        assert.equal(1, change { status = { count = functional.null, any = functional.null } })
        assert.same({ phase = "hers" }, status())
        assert.equal(3, plane:get("widgets", namespace, "w").metadata.generation) -- the two changes above
    end)

    it("counts what is read by an index of a field, and follows it", function()
        put("status", [[
    return { status = { count = #world.list("x.test/v1/Plain", { index = { place = o.metadata.name } }) } }]],
            [[index = { place = "spec.at.place" },]])
        start()
        for i = 1, 100 do
            create("p" .. i, { at = { place = "w" .. i % 2 } }, "Plain")
        end
        local function await_counts(first, second)
            eventually(10, ("there are %d and %d"):format(first, second), function()
                return status "w0".count == first and status "w1".count == second
            end)
        end
        create "w0"
        create "w1"
        await_counts(50, 50)
        plane:patch("plains", namespace, "p1", { spec = { at = { place = "w0" } } })
        await_counts(51, 49)
        plane:patch("plains", namespace, "p2", { spec = { at = functional.null } })
        plane:delete("plains", namespace, "p3")
        await_counts(50, 48)
    end)

    it("has nowhere to go when the subject is deleted, which is no failure", function()
        put("status", [[ return { status = { phase = "Up" } } ]])
        start()
        for i = 1, 20 do
            create("w" .. i)
            plane:delete("widgets", namespace, "w" .. i)
        end
        process.sleep(1)
        assert.equal(0, #host:log_matching "pass failed", host:log_text())
    end)

    it("of a kind without the subresource is a field of the object, and wakes nobody", function()
        put("plain", [[ return { apply = { cm("child", { a = "1" }) }, status = { phase = o.spec.phase, at = world.now() > 0 } } ]],
            nil, "Plain")
        start()
        create("p", { phase = "Up" }, "Plain")
        local function await_phase(wanted)
            eventually(10, "the status is there", function()
                assert.same({ phase = wanted, at = true }, plane:get("plains", namespace, "p").status)
                return true
            end)
        end
        await_phase "Up"
        process.sleep(1)
        local made = {}
        for _, write in ipairs(writes()) do
            made[#made + 1] = write.text
        end
        table.sort(made)
        assert.same({
            ("patch configmaps %s/child 201"):format(namespace), ("patch plains %s/p 200"):format(namespace),
        }, made)
        assert.equal(1, passes "plain")
        mark = plane.audit:mark()
        plane:patch("plains", namespace, "p", { spec = { phase = "Down" } })
        await_phase "Down"
        process.sleep(1)
        assert.equal(1, #writes(), functional.audit.describe(writes()))
        assert.equal(2, passes "plain")
        assert.equal("", plane:events_about("p", namespace))
    end)

    it("of a child is another controller's, which is said once; without the subresource it is a field", function()
        put("status", [[
    local widget, plain = child("Widget", "c", { a = o.spec.a }), child("Plain", "c", { a = o.spec.a })
    widget.status, plain.status = { phase = "Up" }, { phase = o.spec.a }
    return { apply = { widget, plain } }]])
        start()
        create("w", { a = "1" })
        host:await_log(10, "a status in apply or patch is not set", "x.test/v1/Widget")
        eventually(10, "the Plain has its status", function()
            return plane:get("plains", namespace, "c").status.phase == "1"
        end)
        assert.equal(2, change { a = "2" })
        assert.equal("2", plane:get("plains", namespace, "c").status.phase)
        assert.is_nil(status "c".phase)
        assert.equal(1, #host:log_matching "a status in apply or patch is not set")
        mark = plane.audit:mark()
        process.sleep(1)
        assert.equal(0, #writes(), functional.audit.describe(writes()))
    end)

    it("goes to the subresource from when the kind has one", function()
        local group = "gains" .. namespace:match "%-(.*)" .. ".test"
        local function kind(subresources)
            return widgets.own_kind {
                group = group, kind = "Gain", subresources = "{" .. subresources .. "}",
                schema = "{type: object, x-kubernetes-preserve-unknown-fields: true}",
            }
        end
        local path = ("/apis/%s/v1/namespaces/%s/gains"):format(group, namespace)
        local function gain()
            return plane.api:json("GET", path .. "/g")
        end
        local function set_gain(spec)
            plane.api:json("PATCH", path .. "/g", { spec = spec }, "application/merge-patch+json")
        end
        local function await_gain(wanted)
            eventually(20, "the status is as it should be", function()
                assert.same(wanted, gain().status)
                return true
            end)
        end
        plane:apply_text((kind ""))
        plane:kubectl { "wait", "--for=condition=Established", "crd/gains." .. group, "--timeout=30s" }
        plane:put_scripts("gain", { ["gain.lua"] = ([[
return { name = "gain", subject = "%s/v1/Gain", reconcile = function(o) return { status = o.spec } end }]]):format(group) })
        start()
        eventually(20, "the kind is served", function()
            return plane.api:json("POST", path, { apiVersion = group .. "/v1", kind = "Gain", metadata = { name = "g" },
                spec = { phase = "Up", count = 1 } })
        end)
        await_gain { phase = "Up", count = 1 }
        process.sleep(0.5)
        local generation = gain().metadata.generation
        set_gain { count = 2 }
        await_gain { phase = "Up", count = 2 }
        process.sleep(1)
        local quiet = plane.audit:mark()
        process.sleep(1)
        assert.equal(0, #widgets.writes(plane, quiet, namespace), "its own write goes round")
        assert.is_true(gain().metadata.generation >= generation)

        plane:apply_text((kind "status: {}"))
        eventually(20, "the server serves the subresource", function()
            return plane.api:json("GET", path .. "/g/status")
        end)
        process.sleep(1)
        set_gain { count = 3 } -- the host learns of the change by its watch on CRDs
        await_gain { phase = "Up", count = 3 }
        generation = gain().metadata.generation
        plane.api:json("PATCH", path .. "/g", { metadata = { annotations = { a = "1" } } }, "application/merge-patch+json")
        set_gain { phase = functional.null } -- what was written before the change goes too
        await_gain { count = 3 }
        assert.equal(generation + 1, gain().metadata.generation)
        mark = plane.audit:mark()
        process.sleep(1.5)
        assert.equal(0, #writes(), functional.audit.describe(writes()))
        assert.equal(#host:log_matching("pass failed", "the kind has changed"), #host:log_matching "pass failed", host:log_text())
        plane:kubectl { "delete", "crd", "gains." .. group }
        plane:kubectl { "delete", "clusterrole,clusterrolebinding", group }
    end)

    it("keeps the times that are stored until a condition changes, in any form and from any clock", function()
        put("status", conditions)
        start()
        create("w", { up = true, message = "good" })
        await_condition "True"
        local others = { -- a clock that is ahead, a fraction, another zone, Go's zero
            "2199-01-01T00:00:00Z", "2020-01-01T00:00:00.123456789Z", "2020-01-01T05:30:00+05:30", "0001-01-01T00:00:00Z",
        }
        local up = true
        for _, stamp in ipairs(others) do
            local list = status().conditions
            for _, condition in ipairs(list) do
                condition.lastTransitionTime = condition.type == "Ready" and stamp or condition.lastTransitionTime
            end
            mark = plane.audit:mark()
            plane:kubectl({ "patch", "widget", "w", "-n", namespace, "--subresource=status", "--type=merge",
                "-p", require("cjson").encode { status = { conditions = list } } })
            process.sleep(1)
            assert.is_true(#writes() <= 1, functional.audit.describe(writes()))
            local now = up and "True" or "False"
            assert.equal(stamp, await_condition(now).lastTransitionTime)
            assert.equal(1, change { message = "after " .. stamp })
            assert.equal(stamp, await_condition(now).lastTransitionTime)
            up = not up
            assert.equal(1, change { up = up })
            local changed = await_condition(up and "True" or "False").lastTransitionTime
            assert.is_true(changed >= os.date("!%Y-%m-%dT%H:%M:%SZ", os.time() - 30)
                and changed <= os.date("!%Y-%m-%dT%H:%M:%SZ"), changed)
        end
        assert.equal(0, #host:log_matching "pass failed", host:log_text())
    end)

    it("and Events have times in UTC, whatever the host's zone", function()
        put("status", (conditions:gsub("return {",
            'return { events = { k8s.event("Normal", "Seen", o.spec.message or "first") },')))
        start { TZ = "Asia/Kolkata" }
        create("w", { up = true })
        await_condition "True"
        change { message = "second" }
        local event = eventually(10, "the Event is there", function()
            local list = plane.api:json("GET", ("/apis/events.k8s.io/v1/namespaces/%s/events"):format(namespace))
            for _, item in ipairs(list.items) do
                if item.reason == "Seen" then
                    return item
                end
            end
        end)
        assert.truthy(event.eventTime:match "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%d%d%d%dZ$", event.eventTime)
        local hour = os.date("!%Y-%m-%dT%H", os.time() - 30)
        local next_hour = os.date("!%Y-%m-%dT%H", os.time() + 30)
        for _, time in ipairs { event.eventTime, status().conditions[1].lastTransitionTime } do
            assert.is_true(time:sub(1, 13) == hour or time:sub(1, 13) == next_hour, time)
        end
    end)

    describe("finalizers", function()
        local function finalizers(name)
            local object = plane:get("widgets", namespace, name or "w")
            return object and #(object.metadata.finalizers or {})
        end

        local function await_finalizers(n, name)
            eventually(15, ("there are %d finalizers"):format(n), function()
                return finalizers(name) == n, tostring(finalizers(name)) .. host:log_text():sub(-500)
            end)
        end

        local function await_gone(name)
            eventually(15, "it is gone", function()
                return not plane:get("widgets", namespace, name or "w"), host:log_text():sub(-800)
            end)
        end

        local function open_gate()
            plane:create("configmaps", namespace, { metadata = { name = "gate" } })
        end

        local hook = [[
  finalize = function(o, world)
    if not world.get("v1/ConfigMap", "gate") then
      %s
    end
    return { done = true }
  end,]]

        it("stay while the hook fails, which is told, and go once it does not", function()
            put("status", [[ return { status = { phase = "Up" } } ]], hook:format [[error("no gate yet", 0)]])
            start()
            create "w"
            await_finalizers(1)
            plane:delete("widgets", namespace, "w")
            eventually(10, "an Event tells", function()
                return plane:events_about("w", namespace):find("no gate yet", 1, true)
            end)
            eventually(10, "and a condition", function()
                for _, condition in ipairs(status().conditions or {}) do
                    if condition.type == "Reconciled" then
                        return condition.status == "False" and condition.message:find("no gate yet", 1, true)
                    end
                end
            end)
            eventually(15, "it failed five times", function()
                return (host:metric("controller_runtime_reconcile_errors_total", { controller = "status" }) or 0) >= 5
            end)
            assert.equal(1, finalizers())
            open_gate()
            await_gone()
        end)

        it("stay until the hook is done, also over a restart", function()
            put("status", [[ return {} ]], hook:format [[return { done = false, requeue_after = "1s", status = { phase = "Going" } }]])
            start()
            create "w"
            await_finalizers(1)
            plane:delete("widgets", namespace, "w")
            eventually(10, "it is going", function()
                return status().phase == "Going"
            end)
            local before = passes()
            eventually(10, "it was asked three times", function()
                return passes() >= before + 3
            end)
            assert.equal(1, finalizers())
            host:expect_failure():signal "KILL"
            host:await_exit(5)
            open_gate()
            assert.equal(1, finalizers())
            start()
            await_gone()
        end)

        it("come with a hook and go with it, and others' stay", function()
            local body = [[ return { apply = { cm(o.metadata.name .. "-child", { a = "1" }) } } ]]
            put("status", body)
            start()
            for i = 1, 5 do
                create("w" .. i)
            end
            eventually(10, "they are served", function()
                return plane:get("configmaps", namespace, "w5-child") and plane:get("configmaps", namespace, "w1-child")
            end)
            assert.equal(0, finalizers "w1")
            plane:patch("widgets", namespace, "w1", { metadata = { finalizers = { "x.test/hers" } } })
            put("status", body, [[finalize = function() return { done = true } end,]])
            await_finalizers(2, "w1")
            await_finalizers(1, "w5")
            put("status", body)
            for i = 2, 5 do
                await_finalizers(0, "w" .. i)
            end
            await_finalizers(1, "w1")
            assert.same({ "x.test/hers" }, plane:get("widgets", namespace, "w1").metadata.finalizers)
            for i = 1, 5 do
                local object = plane:get("widgets", namespace, "w" .. i)
                assert.truthy(object)
                assert.is_nil(object.metadata.deletionTimestamp)
            end
        end)

        it("stay when the hook takes too long, which is said, or go where the script has it so", function()
            put("status", [[ return {} ]], [[finalize_timeout = "1s",]]
                .. hook:format [[return { done = false, requeue_after = "200ms" }]])
            put("other", [[ return {} ]], [[finalize_timeout = "1s", finalize_abandon = true,]]
                .. hook:format [[while true do end]])
            start()
            create "w"
            await_finalizers(2)
            plane:delete("widgets", namespace, "w")
            await_finalizers(1)
            eventually(10, "Events tell", function()
                local told = plane:events_about("w", namespace)
                return told:find("FinalizeAbandoned", 1, true) and told:find("FinalizeOverdue", 1, true), told
            end)
            process.sleep(1)
            assert.equal(1, finalizers())
            open_gate()
            await_gone()
        end)

        it("are each script's own", function()
            put("status", [[ return {} ]], [[finalize = function() return { done = true } end,]])
            put("other", [[ return {} ]], hook:format [[return { done = false, requeue_after = "1s" }]])
            start()
            create "w"
            await_finalizers(2)
            plane:delete("widgets", namespace, "w")
            await_finalizers(1)
            process.sleep(1.5)
            assert.equal(1, finalizers())
            open_gate()
            await_gone()
        end)

        it("are no matter when the subject is gone before one could be put on", function()
            put("status", [[ return {} ]], [[finalize = function() return { done = true } end,]])
            start()
            for i = 1, 20 do
                create("w" .. i)
                plane:delete("widgets", namespace, "w" .. i)
            end
            for i = 1, 20 do
                await_gone("w" .. i)
            end
            assert.equal(0, #host:log_matching "pass failed", host:log_text())
        end)
    end)
end)
