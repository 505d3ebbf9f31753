--- The budget of a script's passes on a real control plane: what the default does not allow, `limits` of the script's table do,
-- up to the ceilings that the host's operator has set.
local functional = require "spec.functional.support"
local eventually = functional.eventually

-- What reconcile does before it returns its child: work for some 400 ms of CPU time, or 24 MiB that are held at once.
local works = {
    cpu = "local n = 0 for i = 1, 6e7 do n = n + i % 7 end",
    memory = "local t = {} for i = 1, 24 do t[i] = ('x'):rep(2^20 - 100) .. i end",
}

local function script(name, limits)
    return ([[
return {
  name = "%s", subject = "v1/ConfigMap", selector = "limits=%s", limits = { %s },
  reconcile = function(o)
    %s
    return { apply = { { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "%s-out" }, data = { v = "done" } } } }
  end,
}
]]):format(name, name, limits, works[name], name)
end

functional.describe("the budget of a pass", function()
    local plane, namespace, host

    local function child(name)
        local found = plane:get("configmaps", namespace, name .. "-out")
        return found and found.data.v
    end

    local function put(name, limits)
        plane:put_scripts(name, { [name .. ".lua"] = script(name, limits) })
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
        namespace = plane:namespace "limits"
        for name in pairs(works) do
            plane:create("configmaps", namespace, {
                apiVersion = "v1", kind = "ConfigMap", metadata = { name = name, labels = { limits = name } },
            })
        end
        host = functional.host.start { plane = plane, args = { "--script-cpu", "60s", "--max-pass-cpu", "5s" } }
    end)

    teardown(function()
        functional.host.stop_all()
        plane:clean()
    end)

    local too_little = {
        cpu = "cpu.lua:4: the script used up its CPU budget of 100 ms: do less in one pass, or ask for more by limits = { cpu =",
        memory = "memory.lua:4: the script uses more than its memory budget of 16384 KiB: use less at once, or ask for more by limits",
    }
    for name, told in pairs(too_little) do
        it("ends at the default of " .. name, function()
            put(name, "")
            eventually(15, "the subject tells why", function()
                local events = plane:events_about(name, namespace)
                return events:find("Warning ScriptOverrun: " .. told, 1, true), events
            end)
            assert.is_nil(child(name))
        end)
    end

    local too_much = {
        cpu = { "cpu = '5001ms'", "cpu.lua: limits.cpu: asks for 5.001s, but this host gives a pass 5s at most: ask for less, or start "
            .. "the host with a larger --max-pass-cpu (the version before goes on)" },
        memory = { "memory = '65Mi'", "memory.lua: limits.memory: asks for 65Mi, but this host gives a pass 64Mi at most: ask for less, "
            .. "or start the host with a larger --max-pass-memory (the version before goes on)" },
    }
    for name, row in pairs(too_much) do
        it("is refused above the ceiling of " .. name, function()
            put(name, row[1])
            eventually(10, "the ConfigMap tells why", function()
                local events = plane:events_about(name)
                return events:find("Warning ScriptInvalid: " .. row[2], 1, true), events
            end)
            assert.is_nil(child(name))
        end)
    end

    for name, limits in pairs { cpu = "cpu = '5s'", memory = "memory = '48Mi'" } do
        it("is what the script asks for: " .. name, function()
            put(name, limits)
            eventually(20, "the child is there", function()
                return child(name) == "done", plane:events_about(name, namespace)
            end)
        end)
    end

    it("is seen in metrics", function()
        local function passes(of, bound)
            local name = of == "cpu" and "tidelock_pass_cpu_seconds_bucket" or "tidelock_pass_memory_bytes_bucket"
            return host:metric(name, { controller = of, le = bound })
        end
        assert.is_true(passes("cpu", "+Inf") > passes("cpu", "0.1"))
        assert.is_true(passes("memory", "67108864") > passes("memory", "16777216"))
    end)

    it("is told by all the metrics that lua/README.md names", function()
        local rows = functional.process.read_file("lua/README.md"):match "\n| metric | label | |\n|[-|]*|\n(.-)\n\n"
        local count = 0
        for names, label in assert(rows):gmatch "| ([^|]-) | `(%a+)` |[^\n]*" do
            for name in names:gmatch "`([%w_]+)`" do
                local labels = { [label] = "cpu" }
                assert.is_truthy(host:metric(name, labels) or host:metric(name .. "_count", labels), name)
                count = count + 1
            end
        end
        assert.is_true(count >= 8)
    end)
end)
