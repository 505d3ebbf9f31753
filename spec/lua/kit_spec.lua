--- The test kit: scripts in the real sandbox on a world of objects.
local kit = require "tidelock.kit"

local function reconciler(body, rest)
  return assert(kit.compile(([[
local k8s = require "tidelock"
return {
  subject = "example.com/v1/Widget",
  reconcile = function(widget, world)
%s
  end,
%s
}]]):format(body, rest or ""), { name = "widget.lua" }))
end

local widget = {
  apiVersion = "example.com/v1",
  kind = "Widget",
  metadata = { name = "w", namespace = "one", uid = "u1" },
  spec = { n = 3 },
}

local function pod(name, namespace, labels, more)
  local object = more or {}
  object.apiVersion, object.kind = "v1", "Pod"
  local owners = { { uid = name .. "-owner" } }
  object.metadata = { name = name, namespace = namespace, labels = labels, ownerReferences = owners }
  return object
end

local objects = {
  pod("b", "one", { app = "web" }, { spec = { nodeName = "n1" } }),
  pod("a", "one", { app = "web", tier = "x" }, { spec = { nodeName = "n2" } }),
  pod("c", "two", { app = "web" }),
  pod("d", "one", { app = "db" }),
  { apiVersion = "v1", kind = "Node", metadata = { name = "n1" } },
}

local function names(expression, rest)
  local script = reconciler([[
    local names = k8s.array{}
    for _, object in ipairs(]] .. expression .. [[) do names[#names + 1] = object.metadata.name end
    return { status = { names = names } }]], rest)
  return script:reconcile(widget, { objects = objects }).status.names
end

describe("the kit", function()
  it("runs a pass and gives its parts", function()
    local result = reconciler([[
      world.log("info", "seen", { n = widget.spec.n })
      return {
        apply = { { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x" } },
                  { object = { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "y" } }, once = true } },
        status = { n = widget.spec.n },
        events = { k8s.event("Normal", "Synced", "ok") },
        requeue_after = "1m30s",
      }]]):reconcile(widget)
    assert.equal("ok", result.how)
    assert.equal(2, #result.apply)
    assert.equal("y", result.apply[2].metadata.name)
    assert.is_true(result.entries.apply[2].once)
    assert.same({ n = 3 }, result.status)
    assert.equal("Synced", result.events[1].reason)
    assert.equal(90, result.requeue_after)
    assert.same({ { level = "info", message = "seen", fields = { n = 3 } } }, result.logs)
    assert.is_nil(result.patch)
  end)

  it("answers lists as the host does", function()
    assert.same({ "a", "b", "d" }, names 'world.list("v1/Pod")')
    assert.same({ "a", "b", "d", "c" }, names 'world.list("v1/Pod", { namespace = "*" })')
    assert.same({ "c" }, names 'world.list("v1/Pod", { namespace = "two" })')
    assert.same({ "a", "b" }, names 'world.list("v1/Pod", { labels = { app = "web" } })')
    assert.same({ "a" }, names 'world.list("v1/Pod", { labels = "app in (web,db),tier" })')
    assert.same({ "b" }, names 'world.list("v1/Pod", { fields = "spec.nodeName=n1" })')
    local index = 'index = { node = "spec.nodeName", app = "metadata.labels.app" }'
    assert.same({ "b" }, names('world.list("v1/Pod", { index = { node = "n1" } })', index))
    assert.same({ "a" }, names('world.list("v1/Pod", { index = { node = "n2", app = "web" }, labels = "tier" })', index))
    assert.same({}, names('world.list("v1/Pod", { index = { node = "n1" }, fields = "spec.nodeName=n2" })', index))
    assert.same({ "d" }, names 'world.list("v1/Pod", { owner = "d-owner" })')
    assert.same({ "n1" }, names 'world.list("v1/Node")')
    assert.same({}, names 'world.list("v1/Secret")')
  end)

  it("names what is wrong in the use of an index", function()
    local function told(option)
      local script = reconciler(('world.list("v1/Pod", { index = %s })'):format(option), 'index = { node = "spec.nodeName" }')
      return script:reconcile(widget, { objects = objects }).error
    end
    assert.matches("world.list: index.nod: the script's table has no index of that name", told '{ nod = "n1" }', 1, true)
    assert.matches("world.list: index: expected names and values", told '"n1"', 1, true)
    assert.matches("world.list: index: expected names, got a list", told '{ "n1" }', 1, true)
    assert.matches("world.list: index.spec.nodeName: expected a text, got a number", told "{ node = 1 }", 1, true)
  end)

  it("answers get with the subject's namespace as default", function()
    assert.same({ "a" }, names '{ world.get("v1/Pod", "a") }')
    assert.same({ "c" }, names '{ world.get("v1/Pod", "c", "two") }')
    assert.same({}, names '{ world.get("v1/Pod", "c") }')
    assert.same({ "n1" }, names '{ world.get("v1/Node", "n1") }')
  end)

  it("keeps children, time, environment and data", function()
    local script = reconciler [[
      return { status = {
        now = world.now(), env = world.env.name, text = world.data("config.txt"), none = world.data("other"),
        children = #world.children("v1/Pod"), secret = world.secret_value("pw", { length = 20 }),
      } }]]
    local child = { apiVersion = "v1", kind = "Pod", metadata = { name = "p", ownerReferences = { { uid = "u1" } } } }
    local given = {
      objects = { child },
      now = "2026-03-01T10:20:30Z", env = { name = "staging" }, data = { ["config.txt"] = "hello" },
    }
    local status = script:reconcile(widget, given).status
    assert.equal(20, #status.secret)
    assert.same(status, script:reconcile(widget, given).status)
    status.secret = nil
    assert.same({ now = 1772360430, env = "staging", text = "hello", children = 1 }, status)
  end)

  it("records what was read", function()
    local result = reconciler [[
      world.get("v1/Pod", "none")
      world.list("v1/Pod", { labels = { app = "web" } })]]:reconcile(widget, { objects = objects })
    assert.equal("nil", result.how)
    assert.same({ op = "get", kind = "v1/Pod", name = "none", namespace = "one", found = false }, result.reads[1])
    assert.equal("app=web", result.reads[2].labels)
    assert.equal(2, result.reads[2].count)
  end)

  it("lets a script change what it read without changing the world", function()
    local script = reconciler [[
      local pod = world.get("v1/Pod", "a")
      local before = pod.metadata.labels.app
      pod.metadata.labels.app = "changed"
      return { status = { before = before } }]]
    local world = { objects = { pod("a", "one", { app = "web" }) } }
    assert.equal("web", script:reconcile(widget, world).status.before)
    assert.equal("web", script:reconcile(widget, world).status.before)
  end)

  describe("tells how a pass failed", function()
    it("by an error of the script", function()
      local result = reconciler "return { status = { phase = widget.status.phase } }":reconcile(widget)
      assert.equal("raised", result.how)
      assert.matches("widget.lua:5: attempt to index field 'status'", result.error, 1, true)
      assert.error_matches(function()
        return result.apply
      end, "the pass has no apply, it ended as raised: widget.lua:5")
    end)

    it("by k8s.retry and k8s.invalid", function()
      local result = reconciler 'k8s.retry("NotYet", "no database", "5s")':reconcile(widget)
      assert.same({ "retry", "NotYet", 5 }, { result.how, result.reason, result.retry_after })
      assert.matches("no database", result.error)
      result = reconciler 'k8s.invalid("BadSpec", "size must be odd")':reconcile(widget)
      assert.same({ "invalid", "BadSpec" }, { result.how, result.reason })
    end)

    it("by what it returned", function()
      local result = reconciler "return { children = {} }":reconcile(widget)
      assert.equal("result", result.how)
      assert.matches('children: is not a field here: did you mean "apply"?', result.error, 1, true)
      result = reconciler 'return { status = { items = { "a", nil, "c" } } }':reconcile(widget)
      assert.matches("status.items[2]: is nil", result.error, 1, true)
    end)

    it("by a read that is forbidden, which the script may catch", function()
      local script = reconciler 'world.list("v1/Secret")'
      local result = script:reconcile(widget, { forbidden = { "v1/Secret" } })
      assert.equal("raised", result.how)
      assert.matches("may not be read", result.error)
      script = reconciler 'return { status = { ok = pcall(world.list, "v1/Secret") } }'
      assert.is_false(script:reconcile(widget, { forbidden = { "v1/Secret" } }).status.ok)
    end)

    it("by a read that has to wait, which it may not catch", function()
      local script = reconciler 'pcall(world.list, "v1/Pod") return {}'
      assert.equal("parked", script:reconcile(widget, { parked = { "v1/Pod" } }).how)
    end)

    it("by a loop and by memory", function()
      local result = reconciler "while true do pcall(function() end) end":reconcile(widget)
      assert.equal("deadline", result.how)
      result = reconciler "local t = {} for i = 1, 1e7 do t[i] = { i } end":reconcile(widget)
      assert.equal("memory", result.how)
    end)
  end)

  it("gives a pass the budget that the script asks for, or the one of the test", function()
    local function with(limits, body)
      return assert(kit.compile(([[
        return { subject = "example.com/v1/Widget", limits = { %s }, reconcile = function() %s end }]]):format(limits, body)))
    end
    local loop = "local n = 0 for i = 1, 2500000 do n = n + i % 7 end return { status = { n = n } }"
    assert.equal("deadline", with("", loop):reconcile(widget).how)
    assert.equal("ok", with("cpu = '250ms'", loop):reconcile(widget).how)
    assert.equal("deadline", with("cpu = '250ms'", loop):reconcile(widget, { limits = { cpu_us = 1000 } }).how)
    local hold = "local t = {} for i = 1, 24 do t[i] = ('x'):rep(2^20 - 100) .. i end return { status = { n = #t } }"
    assert.equal("memory", with("", hold):reconcile(widget).how)
    assert.equal("ok", with("memory = '48Mi'", hold):reconcile(widget).how)
  end)

  it("loads modules, and refuses what the host refuses", function()
    local script = assert(kit.compile([[
      local lib = require "lib"
      return { subject = "v1/Pod", reconcile = function() return { status = { x = lib.x } } end }]],
      { modules = { ["lib.lua"] = "return { x = 5 }" } }))
    local subject = { apiVersion = "v1", kind = "Pod", metadata = { name = "p", namespace = "n" } }
    assert.equal(5, script:reconcile(subject).status.x)
    assert.equal("v1/Pod", script.subject)

    local made, why = kit.compile("return { subject = ", { name = "broken.lua" })
    assert.is_nil(made)
    assert.matches("broken.lua:1", why, 1, true)
    made, why = kit.compile "return { subject = 'v1/Pod', reconcil = function() end }"
    assert.is_nil(made)
    assert.matches("reconcile", why, 1, true)
  end)

  it("leaves nothing from one pass to the next", function()
    local script = reconciler [[
      counter = (counter or 0) + 1
      string.rep = nil
      return { status = { counter = counter } }]]
    assert.equal(1, script:reconcile(widget).status.counter)
    assert.equal(1, script:reconcile(widget).status.counter)
  end)
end)
