--- A thousand converged subjects with four children each: a restart costs no write, and a change costs what differs. Counted
-- are the requests of the user `tidelock` in the API server's audit log that change something, without Events.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

local parents = functional.sanitized and 100 or 1000

functional.describe("a thousand subjects", function()
    local plane, namespace, host, mark

    local script = widgets.script("scale", [[
    local children = {}
    for i = 1, 4 do
      children[i] = cm(o.metadata.name .. "-" .. i, { number = tostring(i), value = i == 2 and o.spec.value or "all" })
    end
    return { apply = children, status = { count = #world.children("v1/ConfigMap") } }]])

    setup(function()
        plane = functional.controlplane.shared()
        widgets.install(plane)
        widgets.clean(plane)
        namespace = plane:namespace "scale"
    end)

    teardown(function()
        functional.host.stop_all()
        plane:clean()
        plane:delete("namespaces", nil, namespace) -- and all that is in it
        widgets.remove(plane)
    end)

    local function writes()
        return widgets.writes(plane, mark) -- in any namespace
    end

    local function start()
        host = functional.host.start { plane = plane }
        host:await_ready(60)
    end

    local function passes()
        return host:metric("controller_runtime_reconcile_total", { controller = "scale" }) or 0
    end

    -- Until the host has made at least `n` passes and then none for two seconds.
    local function await_quiet(n)
        local seen, since = -1, process.now()
        eventually(60, ("%d passes, and then quiet"):format(n), function()
            local now = passes()
            if now ~= seen then
                seen, since = now, process.now()
            end
            return now >= n and process.now() - since > 2, now .. " passes"
        end)
    end

    it("converge with five writes each", function()
        plane:put_scripts("scale", { ["scale.lua"] = script })
        for i = 1, parents do
            plane:create("widgets", namespace, widgets.object("Widget", "w" .. i, { value = "a" }))
        end
        mark = plane.audit:mark()
        start()
        await_quiet(parents)
        local per_subject, refused = {}, 0
        for _, write in ipairs(writes()) do
            local name = write.entry.objectRef.name:match "^w%d+"
            per_subject[name] = (per_subject[name] or 0) + 1
            refused = refused + (write.entry.responseStatus.code >= 300 and 1 or 0)
        end
        assert.equal(0, refused)
        for i = 1, parents do
            -- four children and the status, which is written again when the children are seen
            local n = per_subject["w" .. i]
            assert.is_true(n == 5 or n == 6, ("w%d took %s writes"):format(i, tostring(n)))
        end
        assert.equal(4, plane:get("widgets", namespace, "w" .. parents).status.count)
        assert.equal("a", plane:get("configmaps", namespace, "w1-2").data.value)
    end)

    it("cost no write when the host is started again", function()
        host:stop()
        mark = plane.audit:mark()
        start()
        await_quiet(parents)
        assert.equal(0, #writes(), functional.audit.describe(writes()))
    end)

    it("cost one write when one child of one of them differs", function()
        mark = plane.audit:mark()
        plane:patch("widgets", namespace, "w7", { spec = { value = "b" } })
        eventually(10, "the child has the new value", function()
            return plane:get("configmaps", namespace, "w7-2").data.value == "b"
        end)
        await_quiet(parents)
        local made = writes()
        assert.equal(1, #made, functional.audit.describe(made))
        assert.equal("patch configmaps " .. namespace .. "/w7-2 200", made[1].text)
    end)

    it("cost no write when one of them is touched, and one pass", function()
        mark = plane.audit:mark()
        local before = passes()
        plane:patch("widgets", namespace, "w8", { metadata = { annotations = { touched = "yes" } } })
        await_quiet(before + 1)
        assert.equal(0, #writes(), functional.audit.describe(writes()))
        assert.is_true(passes() - before <= 2, passes() - before .. " passes")
    end)

    it("cost two writes when a child is deleted and another changed by hand", function()
        mark = plane.audit:mark()
        plane:delete("configmaps", namespace, "w9-1")
        plane:patch("configmaps", namespace, "w10-3", { data = { number = "7", theirs = "stays" } })
        eventually(10, "both are right again", function()
            return plane:get("configmaps", namespace, "w9-1") and plane:get("configmaps", namespace, "w10-3").data.number == "3"
        end)
        process.sleep(1)
        local made = {}
        for _, write in ipairs(writes()) do
            if write.entry.objectRef.resource == "configmaps" then
                made[#made + 1] = write
            end
        end
        assert.equal(2, #made, functional.audit.describe(writes()))
        assert.equal("stays", plane:get("configmaps", namespace, "w10-3").data.theirs)
    end)
end)
