--- Logic in the style of the scripts of Argo CD, OpenKruise and Karmada, through tidelock.compat.
local kit = require "tidelock.kit"

local function widget(more)
  local object = {
    apiVersion = "example.com/v1", kind = "Widget",
    metadata = { name = "w", namespace = "one", uid = "u1", generation = 7 },
  }
  for key, value in pairs(more or {}) do
    object[key] = value
  end
  return object
end

local function run(body, options)
  options = options or {}
  local script = assert(kit.compile(([[
local k8s, compat = require "tidelock", require "tidelock.compat"
return { subject = "example.com/v1/Widget", reconcile = function(object, world)
  local old = compat.open(world)
  %s
end }]]):format(body), { name = "w.lua", modules = options.files }))
  return script:reconcile(options.subject or widget(), { now = options.now or "2024-02-29T13:04:05Z" })
end

local function value(expression, options)
  local result = run("return { status = { v = " .. expression .. " } }", options)
  return result.status.v
end

describe("tidelock.compat", function()
  describe("os", function()
    it("has a clock that stands still", function()
      assert.equal(1709211845, value "old.os.time()")
      assert.equal(0, value "old.os.clock()")
      assert.equal(5, value "old.os.difftime(old.os.time() + 5, old.os.time())")
    end)

    local formats = {
      ["!%Y-%m-%dT%XZ"] = "2024-02-29T13:04:05Z", ["%Y-%m-%dT%H:%M:%SZ"] = "2024-02-29T13:04:05Z",
      ["%a %A %b %B %d %e"] = "Thu Thursday Feb February 29 29", ["%I %p %j %u %w %y"] = "01 PM 060 4 4 24",
      ["%D|%F|%R|%T|%x|%X|%r"] = "02/29/24|2024-02-29|13:04|13:04:05|02/29/24|13:04:05|01:04:05 PM",
      ["%%Y %s %z %Z%n%t"] = "%Y 1709211845 +0000 UTC\n\t", ["no conversion"] = "no conversion", [""] = "",
    }
    for format, want in pairs(formats) do
      it("formats " .. format, function()
        assert.equal(want, value(("old.os.date(%q)"):format(format)))
      end)
    end

    it("formats as C does without a format", function()
      assert.equal("Thu Feb 29 13:04:05 2024", value "old.os.date()")
      assert.equal("Thu Jan  1 00:00:00 1970", value "old.os.date(nil, 0)")
    end)

    it("gives and takes tables", function()
      local date = value "old.os.date('*t')"
      assert.same({ year = 2024, month = 2, day = 29, hour = 13, min = 4, sec = 5, wday = 5, yday = 60, isdst = false },
        date)
      assert.equal(1709211845, value "old.os.time(old.os.date('!*t'))")
      assert.equal(1709208000, value "old.os.time { year = 2024, month = 2, day = 29 }") -- noon
      assert.equal(1735689600, value "old.os.time { year = 2024, month = '13', day = 1, hour = 0 }")
      assert.equal(-86400, value "old.os.time { year = 1970, month = 1, day = 0, hour = 0 }")
    end)

    it("agrees with the C library on every day", function()
      local result = run [[
        local out = {}
        for day = -30000, 60000, 37 do
          local d = old.os.date("!*t", day * 86400 + 45296)
          assert(old.os.time(d) == day * 86400 + 45296, day)
          out[#out + 1] = old.os.date("%Y-%m-%d %j %w %H:%M:%S", day * 86400 + 45296)
        end
        return { status = { days = out } }]]
      local i = 0
      for day = -30000, 60000, 37 do
        i = i + 1
        assert.equal(os.date("!%Y-%m-%d %j %w %H:%M:%S", day * 86400 + 45296), result.status.days[i])
      end
    end)

    it("says what is wrong", function()
      local wrong = {
        ["old.os.date('%Q')"] = "w.lua:4: os.date: '%Q' is not supported",
        ["old.os.date('%')"] = "os.date: '%' is not supported",
        ["old.os.date('%c', 1e300)"] = "w.lua:4: os.date: seconds since 1970 are wanted",
        ["old.os.date('%c', 0/0)"] = "os.date: seconds since 1970 are wanted",
        ["old.os.date('%c', 'now')"] = "os.date: seconds since 1970 are wanted, got now",
        ["old.os.time { year = 2024, month = 2 }"] = "w.lua:4: os.time: field 'day' is missing",
        ["old.os.time { year = 1e300, month = 2, day = 1 }"] = "os.time: field 'year' is out of range",
        ["old.os.time(5)"] = "w.lua:4: os.time: a table",
        ["old.run('nothing')"] = "w.lua:4: run: there is no file 'nothing'",
        ["old.load(nil)"] = "w.lua:4: load: the name of a file",
        ["compat.open(nil)"] = "w.lua:4: compat.open: the world of the pass",
      }
      for expression, why in pairs(wrong) do
        local result = run("return { status = { v = " .. expression .. " } }")
        assert.equal("raised", result.how, expression)
        assert.matches(why, result.error, 1, true)
      end
    end)
  end)

  it("runs a health check that wants the object as a global", function()
    local files = { ["health.lua"] = [[
if not obj then return end
local verdict = {}
if obj.status ~= nil then
  if obj.status.observedGeneration ~= nil and obj.metadata.generation > obj.status.observedGeneration then
    verdict.status = "Progressing"
    verdict.message = string.format("generation %d not seen", obj.metadata.generation)
    return verdict
  end
  for i, condition in ipairs(obj.status.conditions or {}) do
    if condition.type == "Ready" and condition.status == "False" then
      verdict.status = "Degraded"
      verdict.message = condition.reason .. ": " .. condition.message
      return verdict
    end
    if condition.type == "Ready" and condition.status == "True" and table.getn(obj.status.conditions) == i then
      verdict.status = "Healthy"
      return verdict
    end
  end
end
verdict.status = "Progressing"
verdict.message = "no status yet"
return verdict
]] }
    local body = "return { status = old.run('health', { obj = object }) }"
    local function health(status)
      return run(body, { files = files, subject = widget { status = status } }).status
    end
    assert.same({ status = "Progressing", message = "no status yet" }, health())
    assert.same({ status = "Progressing", message = "generation 7 not seen" }, health { observedGeneration = 6 })
    local down = { type = "Ready", status = "False", reason = "Down", message = "no pods" }
    local conditions = { { type = "Synced" }, down }
    assert.same({ status = "Degraded", message = "Down: no pods" }, health { conditions = conditions })
    conditions[2].status = "True"
    assert.same({ status = "Healthy" }, health { observedGeneration = 7, conditions = conditions })
  end)

  it("runs an action that stamps the object", function()
    local files = { ["restart.lua"] = [[
local os = require("os")
if obj.spec.template.metadata == nil then obj.spec.template.metadata = {} end
if obj.spec.template.metadata.annotations == nil then obj.spec.template.metadata.annotations = {} end
obj.spec.template.metadata.annotations["example.com/restartedAt"] = os.date("!%Y-%m-%dT%XZ")
return obj
]] }
    local result = run("return { status = old.run('restart', { obj = object }).spec }",
      { files = files, subject = widget { spec = { template = {} } } })
    assert.same({ ["example.com/restartedAt"] = "2024-02-29T13:04:05Z" }, result.status.template.metadata.annotations)
  end)

  it("runs a file that only defines functions", function()
    local files = { ["replicas.lua"] = [[
local function default(value, other) if value == nil then return other end return value end
function GetReplicas(obj) return default(obj.spec.replicas, 1), { cpu = math.max(1, 2) } end
function ReviseReplica(obj, count) obj.spec.replicas = count return obj end
function AggregateStatus(desired, items)
  local ready = 0
  for i = 1, #items do
    if items[i].status ~= nil and items[i].status.ready ~= nil then ready = ready + items[i].status.ready end
  end
  desired.status = desired.status or {}
  desired.status.ready = ready
  return desired
end
function InterpretHealth(observed) return observed.status.ready == observed.spec.replicas end
]] }
    local result = run([[
      local f = old.load("replicas")
      local count, needs = f.GetReplicas(object)
      local revised = f.ReviseReplica(object, count + 2)
      local whole = f.AggregateStatus(revised, { { status = { ready = 2 } }, {}, { status = { ready = 1 } } })
      local healthy = f.InterpretHealth(whole)
      return { status = { count = count, cpu = needs.cpu, ready = whole.status.ready, healthy = healthy } }]],
      { files = files, subject = widget { spec = {} } })
    assert.same({ count = 1, cpu = 2, ready = 3, healthy = true }, result.status)
  end)

  it("runs a traffic rule that builds annotations", function()
    local files = { ["ingress.lua"] = [[
annotations = obj.annotations or {}
annotations["example.com/canary"] = "true"
if obj.weight ~= "-1" then annotations["example.com/weight"] = obj.weight end
local headers = {}
table.foreach(obj.matches or {}, function(_, match) headers[#headers + 1] = match.name .. "=" .. match.value end)
if next(headers) then annotations["example.com/headers"] = table.concat(headers, ",") end
return annotations
]] }
    local result = run([[
      local matches = { { name = "a", value = "1" }, { name = "b", value = "2" } }
      return { status = old.run("ingress", { obj = { weight = "20", matches = matches } }) }]],
      { files = files })
    assert.same({ ["example.com/canary"] = "true", ["example.com/weight"] = "20", ["example.com/headers"] = "a=1,b=2" },
      result.status)
  end)

  it("keeps the files of a pass apart", function()
    local files = {
      ["a.lua"] = "counter = (counter or 0) + 1 string.rep = nil table.insert = nil os.time = nil return counter",
      ["b.lua"] = "return tostring(counter) .. type(string.rep) .. type(table.insert) .. type(os.time) .. type(_G.os)",
    }
    local result = run([[
      local a, again, b = old.run("a"), old.run("a"), old.run("b")
      return { status = { a = a, again = again, b = b, own = type(string.rep) .. type(os), time = old.os.time() } }]],
      { files = files })
    assert.same({ a = 1, again = 1, b = "nilfunctionfunctionfunctiontable", own = "functionnil", time = 1709211845 },
      result.status)
  end)

  it("adds nothing that the sandbox leaves out", function()
    local files = { ["look.lua"] = [[
local found = {}
for name in pairs(_G) do found[#found + 1] = name end
for name in pairs(os) do found[#found + 1] = "os." .. name end
for _, name in ipairs { "io", "debug", "ffi", "jit", "package", "tidelock.native", "tidelock.native\0x" } do
  if pcall(require, name) then found[#found + 1] = "require " .. name end
end
table.sort(found)
return found
]] }
    local found = run("return { status = { found = old.run('look') } }", { files = files }).status.found
    assert.same({
      "_G", "_VERSION", "assert", "bit", "error", "getmetatable", "ipairs", "math", "next", "os", "os.clock", "os.date",
      "os.difftime", "os.time", "pairs", "pcall", "print", "rawequal", "rawget", "rawlen", "rawset", "require",
      "select", "setmetatable", "string", "table", "tonumber", "tostring", "type", "unpack", "xpcall",
    }, found)
  end)

  it("gives modules of the caller's", function()
    local files = { ["needs.lua"] = "return require('kube').amount('500m')" }
    local result = run([[
      local kube = { amount = function(text) return k8s.quantity(text):tonumber() end }
      return { status = { v = old.run("needs", { kube = kube }) } }]], { files = files })
    assert.equal(0.5, result.status.v)
  end)

  it("finds siblings and the library, and writes what is printed to the log", function()
    local files = {
      ["main.lua"] = "print('seen', 1, nil, true) return require('lib').name .. require('tidelock').null .. ''",
      ["lib.lua"] = "return { name = 'lib' }",
      ["quiet.lua"] = "print('seen', 1, nil, true) return require('lib').name",
    }
    assert.equal("raised", run("return { status = { v = old.run('main') } }", { files = files }).how)
    local result = run("return { status = { v = old.run('quiet') } }", { files = files })
    assert.equal("lib", result.status.v)
    assert.same({ { level = "debug", message = "seen\t1\tnil\ttrue" } }, result.logs)
  end)

  it("names the file and the line of an error, and stops what does not end", function()
    local files = { ["broken.lua"] = "\nreturn obj.status.phase", ["endless.lua"] = "while true do pcall(error) end" }
    local result = run("return { status = { v = old.run('broken', { obj = object }) } }", { files = files })
    assert.equal("raised", result.how)
    assert.matches("broken.lua:2: attempt to index field 'status'", result.error, 1, true)
    assert.matches("w.lua:4", result.traceback, 1, true)
    assert.not_matches("compat", result.traceback, 1, true)
    assert.equal("deadline", run("old.run('endless')", { files = files }).how)
  end)

  describe("habits of such scripts", function()
    -- What the file returns, for this object.
    local function outcome(file, object, more)
      local body = ("return { status = { v = old.run('s', { obj = object.spec.obj, more = %s }) } }"):format(more or "nil")
      local result = run(body, { files = { ["s.lua"] = "if not obj then return end " .. file },
        subject = widget { spec = { obj = object } } })
      if result.how == "ok" then
        return result.status.v
      end
      return result.error
    end

    local guards = {
      { "obj.status == nil", {}, true },
      { "obj.status ~= nil and next(obj.status) == nil", { status = {} }, true },
      { "obj.status == nil or next(obj.status) == nil or obj.status.conditions == nil", { status = { a = 1 } }, true },
      { "not (obj.status or {}).phase", { status = { replicas = 0 } }, true },
      { "obj.status.replicas == 0 and (obj.status.replicas or 5)", { status = { replicas = 0 } }, 0 },
      { "obj.spec.paused ~= nil and obj.spec.paused == true", { spec = { paused = false } }, false },
      { "obj.metadata.annotations and obj.metadata.annotations['a/b'] or 'none'", { metadata = {} }, "none" },
      { "(obj.metadata.generation or 0) > (obj.status.observedGeneration or 0)",
        { metadata = { generation = 3 }, status = { observedGeneration = "x" } },
        "s.lua:1: attempt to compare string with number" },
    }
    for i, case in ipairs(guards) do
      it("guards against what is not there, " .. i, function()
        assert.equal(case[3], outcome("return " .. case[1], case[2]))
      end)
    end

    it("walks a list that may not be there", function()
      local sum = "local n = 0 for _, c in ipairs(obj.list or {}) do n = n + c end return n"
      assert.equal(0, outcome(sum, { x = 1 }))
      assert.equal(6, outcome(sum, { list = { 1, 2, 3 } }))
      assert.matches("s.lua:1: bad argument #1 to 'ipairs'", outcome("for _ in ipairs(obj.list) do end", { x = 1 }), 1, true)
      assert.equal(2, outcome("return #obj.list + table.getn(obj.none or {})", { list = { "a", "b" } }))
    end)

    it("uses patterns to take texts apart", function()
      local patterns = {
        { [[string.match(obj.v, "^v?(%d+)%.")]], "v12.3", "12" },
        { [[tonumber((string.gsub(obj.v, "%%", ""))) / 2]], "50%", 25 },
        { [[string.find(obj.v, "a.b", 1, true)]], "xa.b", 2 },
        { [[string.format("%s: %d of %d (%.1f)", obj.v, 1, 3, 0.25)]], "x", "x: 1 of 3 (0.2)" },
        { [[obj.v:lower():gsub("[^%w]+", "-"):gsub("^-", "")]], "-A b_C", "a-b-c" },
        { [[(function() local t = {} obj.v:gsub("[^,]+", function(w) table.insert(t, w) end) return table.concat(t, "|") end)()]],
          "a,b,,c", "a|b|c" },
        { [[(function() local n = 0 for k, v in obj.v:gmatch("(%w+)=(%w+)") do n = n + #k * tonumber(v) end return n end)()]],
          "a=1,bb=2", 5 },
        { [[obj.v:match("^(%d%d%d%d)%-(%d%d)%-(%d%d)T")]], "2024-02-29T00:00:00Z", "2024" },
        { [["weight " .. obj.v]], 20, "weight 20" },
      }
      for _, case in ipairs(patterns) do
        assert.equal(case[3], outcome("return (" .. case[1] .. ")", { v = case[2] }), case[1])
      end
    end)

    it("stamps and compares times", function()
      assert.equal("2402291304", outcome([[return os.date("!%y%m%d%H%M")]], {}))
      assert.equal(3845, outcome([[
local y, m, d, h, i, s = string.match(obj.at, "(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)Z")
return os.difftime(os.time(), os.time { year = y, month = m, day = d, hour = h, min = i, sec = s })]],
        { at = "2024-02-29T12:00:00Z" }))
    end)

    it("copies tables by hand, with their metatables", function()
      local copy = [[
local function copy(value, seen)
  if type(value) ~= "table" then return value end
  if seen[value] then return seen[value] end
  local made = {}
  seen[value] = made
  for k, v in pairs(value) do made[copy(k, seen)] = copy(v, seen) end
  return setmetatable(made, getmetatable(value))
end
local made = copy(obj, {})
made.list[#made.list + 1] = "new"
made.map.k = nil
made.map.other = 1
return { made = made, was = obj }]]
      local object = { list = { "a", { b = { 1 } } }, map = { k = "v" } }
      assert.same({ made = { list = { "a", { b = { 1 } }, "new" }, map = { other = 1 } }, was = object },
        outcome(copy, object))
    end)

    it("goes through maps in the order of their keys", function()
      local keys = "local t = {} for k in pairs(obj) do t[#t + 1] = k end return table.concat(t, ',')"
      assert.equal("a,b,z,zz", outcome(keys, { zz = 1, b = 1, z = 1, a = 1 }))
    end)

    it("keeps a verdict in a global, and calls functions that come later", function()
      assert.equal("Degraded/oops", outcome([[
verdict = { status = "Progressing" }
function judge() if obj.failed then set("Degraded", "oops") end return verdict.status .. "/" .. verdict.message end
function set(status, message) verdict.status, verdict.message = status, message end
return judge()]], { failed = true }))
    end)

    it("stops with a message of its own", function()
      assert.equal("s.lua:1: scale has no effect here", outcome("error('scale has no effect here')", {}))
      assert.equal("no line", outcome("error('no line', 0)", {}))
      assert.equal("false, x", outcome("local ok, e = pcall(error, 'x', 0) return tostring(ok) .. ', ' .. e", {}))
    end)

    it("sorts, and inserts in between", function()
      assert.equal("c,b,a", outcome([[
table.insert(obj.l, 2, { n = "c" })
table.sort(obj.l, function(x, y) return x.n > y.n end)
local names = {}
table.foreach(obj.l, function(i, v) names[i] = v.n end)
return table.concat(names, ",")]], { l = { { n = "a" }, { n = "b" } } }))
    end)

    it("reads parameters as texts", function()
      assert.equal(5, outcome("return tonumber(more.scale) + 2", {}, "{ scale = '3' }"))
      assert.equal("none", outcome("if more == nil or more.scale == nil then return 'none' end", {}, "{}"))
    end)
  end)

  it("has the habits of those hosts for nulls and empty tables", function()
    local json = require "tidelock.json"
    local subject = widget { spec = json.decode '{"a":[null,{"b":null,"c":[]},null],"d":null,"l":[1],"m":{"x":1}}' }
    local result = run([[
      local plain = compat.without_nulls(object.spec)
      local changed = { l = {}, m = {}, a = { { c = {} } } }
      return { status = { n = #object.spec.a, plain = plain, count = #plain.a, like = compat.like(changed, plain) } }]],
      { subject = subject })
    assert.equal('{"count":1,"like":{"a":[{"c":[]}],"l":[],"m":{}},"n":3,"plain":{"a":[{"c":[]}],"l":[1],"m":{"x":1}}}',
      json.encode(result.status))
  end)
end)
