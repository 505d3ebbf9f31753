--- How the host ends: by a signal, with what is in flight, and at once when asked twice.
local functional = require "spec.functional.support"
local eventually, process = functional.eventually, functional.process

functional.describe("shutdown", function()
    local plane

    -- Writes another text at every pass, five times a second: something is always about to be written.
    local restless = [[
return {
  name = "restless",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
    local name = memcached.metadata.name
    return {
      apply = { {
        apiVersion = "v1", kind = "ConfigMap", metadata = { name = name .. "-note" },
        data = { text = tostring(world.now()) },
      } },
      requeue_after = "200ms",
    }
  end,
}
]]

    setup(function()
        plane = functional.controlplane.start { "--no-controller-manager", "--crds", "operators/memcached/crd.yaml" }
        plane:put_scripts("restless", { ["restless.lua"] = restless })
        plane:create("memcacheds", "default", functional.memcached "a")
    end)

    teardown(function()
        plane:stop()
    end)

    after_each(function()
        plane:component("kube-apiserver", "thaw")
        functional.host.stop_all()
    end)

    local function start(args)
        local host = functional.host.start { plane = plane, args = args }
        host:await_ready()
        local before = functional.note(plane, "default", "a")
        eventually(10, "it writes", function()
            return functional.note(plane, "default", "a") ~= before
        end)
        return host
    end

    for _, signal in ipairs { "TERM", "INT" } do
        it("with SIG" .. signal .. " ends the host with 0, and nothing is written afterwards", function()
            local host = start()
            host:signal(signal)
            assert.same({ code = 0 }, host:await_exit(5))
            local mark = plane.audit:mark()
            process.sleep(1)
            assert.equal(0, #plane.audit:writes_since(mark))
        end)
    end

    it("waits for the server's answer to a write in flight, and no longer than --grace", function()
        local host = start { "--grace", "2s" }
        plane:component("kube-apiserver", "freeze")
        process.sleep(1) -- the next write is sent and not answered
        host:signal "TERM"
        process.sleep(1)
        assert.is_true(host:running())
        host:expect_failure() -- it ends with a write unanswered
        host:await_exit(3)
    end)

    it("ends with 0 when the answer comes in time", function()
        local host = start()
        plane:component("kube-apiserver", "freeze")
        process.sleep(1)
        host:signal "TERM"
        process.sleep(1)
        assert.is_true(host:running())
        plane:component("kube-apiserver", "thaw")
        assert.same({ code = 0 }, host:await_exit(10))
    end)

    it("is at once after a second signal", function()
        local host = start():expect_failure()
        plane:component("kube-apiserver", "freeze")
        process.sleep(1)
        host:signal "TERM"
        process.sleep(0.5)
        assert.is_true(host:running())
        host:signal "TERM"
        host:await_exit(1)
    end)

    it("works before the first connection", function()
        plane:component("kube-apiserver", "freeze")
        local host = functional.host.start { plane = plane }
        eventually(5, "the admin address answers", function()
            return host.admin:request("GET", "/healthz") == 200
        end)
        host:signal "TERM"
        assert.same({ code = 0 }, host:await_exit(5))
    end)
end)
