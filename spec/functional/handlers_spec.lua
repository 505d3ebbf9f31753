--- Which changes of a subject are followed by a pass, on a real cluster: everything, filtered, custom. A pass shows itself
-- by status.readyReplicas, which is set to spec.size.
local functional = require "spec.functional.support"
local eventually, process = functional.eventually, functional.process

local function script(head)
    return ([[
return {
  name = "handlers",
  subject = "cache.example.com/v1alpha1/Memcached",
  %s
  reconcile = function(memcached)
    return { status = { readyReplicas = memcached.spec.size } }
  end,
}
]]):format(head)
end

functional.describe("handlers", function()
    local plane, namespace, host

    local function start(head)
        plane:put_scripts("handlers", { ["handlers.lua"] = script(head) })
        host = functional.host.start { plane = plane }
        host:await_ready()
    end

    local function add(name, size, labels)
        local object = functional.memcached(name, { size = size, image = "memcached:1.6" })
        object.metadata.labels = labels
        plane:create("memcacheds", namespace, object)
    end

    local function seen(name)
        local status = plane:get("memcacheds", namespace, name).status
        return status and status.readyReplicas
    end

    local function await(name, size)
        eventually(10, ("%s was seen with size %d"):format(name, size), function()
            return seen(name) == size, seen(name)
        end)
    end

    local function set(name, change)
        plane:patch("memcacheds", namespace, name, change)
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "handlers"
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    it("everything", function()
        start ""
        add("a", 1)
        await("a", 1)
        set("a", { spec = { size = 2 } })
        await("a", 2)
        -- what somebody does to a status field of ours is put right
        plane:kubectl {
            "patch", "memcached", "a", "-n", namespace, "--subresource=status", "--type=merge",
            "-p", '{"status":{"readyReplicas":50}}',
        }
        await("a", 2)
    end)

    it("filtered, by the server and by the host", function()
        start [[selector = "tier=front", fields = "spec.image=memcached:1.6",]]
        add("a", 1, { tier = "front" })
        add("b", 1, { tier = "back" })
        add("c", 1, { tier = "front" })
        await("a", 1)
        await("c", 1)
        host:await_log(5, "selected by the host", "spec.image")
        set("c", { spec = { image = "memcached:1.5" } }) -- it leaves
        set("c", { spec = { size = 2 } })
        set("a", { spec = { size = 2 } })
        await("a", 2)
        process.sleep(1)
        assert.not_equal(2, seen "c")
        assert.is_nil(seen "b")
    end)

    it("custom, by paths", function()
        start [[changed = { "metadata.labels" },]]
        add("a", 1)
        await("a", 1)
        set("a", { spec = { size = 2 } })
        process.sleep(1)
        assert.equal(1, seen "a")
        set("a", { metadata = { labels = { now = "yes" } } })
        await("a", 2)
    end)

    it("custom, by a function that sees what the last pass saw", function()
        start [[when = function(old, new) return new.spec.size >= old.spec.size + 10 end,]]
        add("a", 1)
        await("a", 1)
        for size = 2, 10 do
            set("a", { spec = { size = size } })
        end
        process.sleep(1)
        assert.equal(1, seen "a")
        set("a", { spec = { size = 11 } }) -- small steps add up
        await("a", 11)
        for size = 12, 100 do -- many questions at once
            set("a", { spec = { size = size } })
        end
        eventually(10, "it is not far behind", function()
            return seen "a" > 90, seen "a"
        end)
    end)
end)
