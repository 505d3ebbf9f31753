--- The host is killed with SIGKILL in the middle of its work, again and again, while what is wanted changes. The one that goes
--- on in the end leaves what a host leaves that was never killed: no orphan, nothing twice, nothing half done.
local cjson = require "cjson"
local functional = require "spec.functional.support"
local random_object = require "spec.functional.support.random_object"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

local SUBJECTS, KILLS, GONE = 20, 6, 3 -- the last GONE of them are deleted on the way

functional.describe("a killed host", function()
    local plane, near, host

    functional.around_widgets("killed", function(its_plane, its_namespace)
        plane, near = its_plane, its_namespace
    end)

    -- Three children: one in each of two kinds, and one that garbage collection does not reach, so that there are finalizers.
    -- Which ones differs from step to step.
    local script = widgets.script("killed", [[
    local name, step = o.metadata.name, o.spec.step
    local far = cm(o.spec.far_name .. "-" .. name, { step = step })
    far.metadata.namespace = o.spec.far
    return {
      apply = { cm(name .. "-" .. (tonumber(step) % 2), { step = step }), far,
        { apiVersion = "v1", kind = "Service", metadata = { name = name }, spec = {
          ports = { { port = 80 + tonumber(step) } }, selector = { app = name } } } },
      status = { phase = "step " .. step, count = #world.children("v1/ConfigMap") },
    }]], "finalize = function() return { apply = {}, done = true } end")

    local function spec(far, step)
        return { step = tostring(step), far = far, far_name = "far" }
    end

    local function start()
        host = functional.host.start { plane = plane }
        host:await_ready()
    end

    local function writes(mark)
        return widgets.writes(plane, mark) -- in any namespace
    end

    local function kill()
        host:expect_failure()
        host:signal "KILL"
        assert.same({ signal = 9 }, host:await_exit(5))
        host:stop()
    end

    local function await_converged(namespace, last, step)
        eventually(30, ("step %d is done"):format(step), function()
            for i = 1, last do
                local status = plane:get("widgets", namespace, "w" .. i).status or {}
                if status.phase ~= "step " .. step or status.count ~= 2 then
                    return nil, ("w%d: %s %s"):format(i, cjson.encode(status), host:log_text():sub(-1000))
                end
            end
            return #plane:list("widgets", namespace) == last, #plane:list("widgets", namespace) .. " subjects"
        end)
    end

    -- All that there is in the two namespaces but what differs between any two runs.
    local function state(namespace, far)
        local found = {}
        for _, resource in ipairs { "widgets", "configmaps", "services" } do
            for _, where in ipairs { namespace, far } do
                for _, item in ipairs(plane:list(resource, where)) do
                    local meta, managers = item.metadata, {}
                    for _, entry in ipairs(meta.managedFields) do
                        if entry.manager:find "^tidelock" then
                            managers[entry.manager .. (entry.subresource or "")] = entry.fieldsV1
                        end
                    end
                    found[("%s %s/%s"):format(resource, where, meta.name)] = {
                        labels = meta.labels, finalizers = meta.finalizers, owners = meta.ownerReferences, managers = managers,
                        data = item.data, status = item.status, ports = item.spec and item.spec.ports,
                    }
                end
            end
        end
        local uid = ("%x"):rep(8) .. "%-%x+%-%x+%-%x+%-" .. ("%x"):rep(12)
        local function literally(text)
            return (text:gsub("%-", "%%-"))
        end
        return cjson.decode((cjson.encode(found):gsub(uid, "UID"):gsub(literally(namespace), "near"):gsub(literally(far), "far")))
    end

    it("is followed by one that ends where it would have", function()
        random_object.seed "spec/functional/killed_spec.lua"
        plane:put_scripts("killed", { ["killed.lua"] = script })
        local far = plane:namespace "killed-far"
        for i = 1, SUBJECTS do
            plane:create("widgets", near, widgets.object("Widget", "w" .. i, spec(far, 0)))
        end
        local left = {}
        for step = 1, KILLS do
            local mark, n = plane.audit:mark(), math.random(1, 3 * SUBJECTS)
            start()
            eventually(20, ("%d writes of step %d are done"):format(n, step), function()
                return #writes(mark) >= n, #writes(mark)
            end)
            kill()
            left[step] = #writes(mark)
            for i = 1, SUBJECTS - (step == KILLS and GONE or 0) do -- nobody looks
                plane:patch("widgets", near, "w" .. i, { spec = { step = tostring(step) } })
            end
            for i = SUBJECTS - GONE + 1, step == KILLS - 1 and SUBJECTS or 0 do
                plane:delete("widgets", near, "w" .. i)
            end
        end
        print("writes before each kill: " .. table.concat(left, ", "))
        start()
        await_converged(near, SUBJECTS - GONE, KILLS)

        local other, other_far = plane:namespace "killed", plane:namespace "killed-far"
        for i = 1, SUBJECTS - GONE do
            plane:create("widgets", other, widgets.object("Widget", "w" .. i, spec(other_far, KILLS)))
        end
        await_converged(other, SUBJECTS - GONE, KILLS)
        local wanted, is = state(other, other_far), state(near, far)
        for what, object in pairs(wanted) do
            assert.same(object, is[what], what)
        end
        for what in pairs(is) do
            assert.truthy(wanted[what], what .. " is an orphan")
        end

        host:stop()
        local mark = plane.audit:mark()
        start()
        eventually(10, "each subject has had its pass", function()
            return host:metric("controller_runtime_reconcile_total", { controller = "killed" }) >= 2 * (SUBJECTS - GONE)
        end)
        process.sleep(1)
        assert.equal(0, #writes(mark), functional.audit.describe(writes(mark)))
    end)
end)
