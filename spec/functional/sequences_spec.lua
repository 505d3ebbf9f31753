--- Random sequences of desired states on a real server, with a stranger who changes and deletes children in between: each
--- step ends with live containing what is desired, and the next pass, or the first of another host, writes nothing.
local cjson = require "cjson"
local functional = require "spec.functional.support"
local random_children = require "spec.functional.support.random_children"
local random_object = require "spec.functional.support.random_object"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

local STEPS, QUIET_S = 30, 0.15
local DRIFTS = 3 -- of a child: somebody who goes on and on would be fought, and slowed

local changes = {
    configmaps = '{"data":{"a":"hers %d","b":null,"alice":"%d"}}',
    services = '{"spec":{"selector":{"a":"hers-%d","c":null,"alice":"v%d"}}}',
    deployments = '{"spec":{"replicas":%d,"template":{"spec":{"nodeSelector":{"alice":"v%d"}}}}}',
    crates = '{"spec":{"any":{"alice":%d,"a":%d},"arr":["hers"]}}',
}

functional.describe("sequences", function()
    local plane, namespace, host, slots, steps

    functional.around_widgets("sequences", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    setup(function()
        plane:apply_text(random_children.crate)
        eventually(20, "the schema of the new kind is published", function()
            local text = plane:kubectl { "get", "--raw", "/openapi/v3/apis/sequences.test/v1" }
            return text:find("Crate", 1, true)
        end)
    end)

    teardown(function()
        plane:kubectl { "delete", "clusterrolebinding,clusterrole", "sequences.test" }
        plane:kubectl { "delete", "crd", "crates.sequences.test" }
    end)

    local function start()
        host = functional.host.start { plane = plane }
        host:await_ready()
    end

    local function passes()
        return host:metric("controller_runtime_reconcile_total", { controller = "sequences" }) or 0
    end

    -- Until neither passes nor writes have gone on for a while.
    local function await_quiet()
        local seen, since
        eventually(20, "it is quiet", function()
            local now = passes() + (host:metric "tidelock_writes_total" or 0)
            if now ~= seen then
                seen, since = now, process.now()
            end
            return process.now() - since > QUIET_S
        end)
    end

    local function await_wanted()
        for _, slot in ipairs(slots) do
            eventually(15, ("step %d: %s %s is as it is wanted"):format(steps, slot.resource, slot.name), function()
                local live = plane:get(slot.resource, namespace, slot.name)
                if not slot.child or not live then
                    return not slot.child and not live, host:log_text():sub(-1500)
                end
                local ok, where = random_children.is_there(slot.resource, live, slot.child, slot.drifted)
                return ok, not ok and ("%s differs: %s, wanted %s, %s"):format(where, cjson.encode(live.spec or live.data or {}),
                    slot.child, host:log_text():sub(-1500))
            end)
        end
    end

    local function change()
        local children = {}
        for _, slot in ipairs(slots) do
            local what = math.random(100)
            if what <= 45 then
                slot.child = what <= 32 and random_children.make(slot.resource, slot.name) or nil
                slot.drifted = slot.drifted and slot.child ~= nil
            end
            children[#children + 1] = slot.child
        end
        plane:patch("widgets", namespace, "w", { spec = { children = "[" .. table.concat(children, ",") .. "]" } })
    end

    local function drift()
        local slot = slots[math.random(#slots)]
        if not slot.child or slot.drifts >= DRIFTS or not plane:get(slot.resource, namespace, slot.name) then
            return
        end
        slot.drifts = slot.drifts + 1
        if math.random(5) == 1 then
            plane:delete(slot.resource, namespace, slot.name)
            slot.drifted = false
        else
            plane:patch(slot.resource, namespace, slot.name, changes[slot.resource]:format(slot.drifts + 1, slot.drifts))
            slot.drifted = true
        end
    end

    local function expect_no_write()
        await_quiet()
        local mark = plane.audit:mark()
        if math.random(5) == 1 then
            host:stop()
            start()
        else
            local before = passes()
            plane:patch("widgets", namespace, "w", { metadata = { annotations = { touched = tostring(steps) } } })
            eventually(5, "the pass is through", function()
                return passes() > before
            end)
        end
        await_quiet()
        local writes = widgets.writes(plane, mark, namespace)
        assert.equal(0, #writes, ("step %d: %s"):format(steps, functional.audit.describe(writes)))
    end

    it("converge, and cost nothing then", function()
        random_object.seed "spec/functional/sequences_spec.lua"
        plane:put_scripts("sequences", { ["sequences.lua"] = widgets.script("sequences", [[
    return { apply = (require "tidelock.json").decode(o.spec.children) }]]) })
        start()
        plane:create("widgets", namespace, widgets.object("Widget", "w", { children = "[]" }))
        slots, steps = {}, 0
        for _, resource in ipairs(random_children.kinds) do
            for _, name in ipairs { "x", "y", "z" } do
                slots[#slots + 1] = { resource = resource, name = name, drifts = 0 }
            end
        end
        while steps < STEPS do
            steps = steps + 1
            if steps == 1 or math.random(10) <= 7 then
                change()
                await_wanted()
            end
            for _ = 1, math.random(0, 3) do
                drift()
            end
            await_wanted()
            expect_no_write()
        end
        assert.equal(0, #host:log_matching "pass failed", host:log_text():sub(-2000))
    end)
end)
