--- What scripts really do, and what they are told: the script contract, in the real sandbox.
local kit = require "tidelock.kit"

local object = kit.compile [[
return { subject = "example.com/v1/Widget", reconcile = function(o) return { status = o.spec } end }]]

local function widget(spec)
  local metadata = { name = "w", namespace = "one", uid = "u1", generation = 7 }
  return { apiVersion = "example.com/v1", kind = "Widget", metadata = metadata, spec = spec or {} }
end

local function pass(body, subject, world)
  local script = assert(kit.compile(([[
local k8s = require "tidelock"
return { subject = "example.com/v1/Widget", reconcile = function(o, world) %s end }
]]):format(body), { name = "w.lua" }))
  return script:reconcile(subject or widget(), world)
end

local function refused(body, how, why)
  local result = pass(body)
  assert.equal(how, result.how, body .. ": " .. tostring(result.error))
  assert.matches(why, result.error, 1, true)
end

describe("values through a pass", function()
  it("are the same JSON when they are returned unchanged", function()
    local json = require "tidelock.json"
    local text = '{"big":9223372036854775807,"e15":999999999999999,"l":[],"m":{},'
      .. '"neg":-9223372036854775808,"nested":[[],{}],"nu":null,"odd":9007199254740993,'
      .. '"s":"é\\u0000","u":18446744073709551615}'
    local result = object:reconcile(widget(json.decode(text)))
    assert.equal('{"status":' .. text .. "}", result.json)
  end)

  it("are exact as numbers and as text", function()
    local json = require "tidelock.json"
    local subject = widget(json.decode '{"odd":9007199254740993,"million":1000000,"e15":999999999999999}')
    local status = pass([[
      local s = o.spec
      return { status = { odd = tostring(s.odd), million = tostring(s.million), sum = tostring(s.million + 1),
        e15 = tostring(s.e15), half = s.million / 2, generation = o.metadata.generation, copy = s.odd,
        format = string.format("%d", s.e15) } }]], subject).status
    assert.equal('{"copy":9007199254740993,"e15":"999999999999999","format":"999999999999999","generation":7,'
      .. '"half":500000,"million":"1000000","odd":"9007199254740993","sum":"1000001"}', kit.json(status))
  end)

  it("keep empty lists when a script empties or fills them", function()
    local json = require "tidelock.json"
    local subject = widget(json.decode '{"one":[1],"none":[],"map":{}}')
    local status = pass([[
      table.remove(o.spec.one)
      table.insert(o.spec.none, "x")
      return { status = o.spec }]], subject).status
    assert.equal('{"map":{},"none":["x"],"one":[]}', kit.json(status))
    status = pass("return { status = k8s.copy(o.spec) }", subject).status
    assert.equal('{"map":{},"none":[],"one":[1]}', kit.json(status))
  end)

  it("are maps when their keys are text, also numbers as text", function()
    local status = pass([[
      return { status = { m = { ["1"] = "one", ["2"] = "two" }, l = { [1] = "one", [2] = "two" } } }]]).status
    assert.equal('{"l":["one","two"],"m":{"1":"one","2":"two"}}', kit.json(status))
  end)

  it("may be shared, and nothing of a list of read objects is lost", function()
    local pods = {}
    for i = 1, 50 do
      local metadata = { name = ("p%02d"):format(i), namespace = "one" }
      pods[i] = { apiVersion = "v1", kind = "Pod", metadata = metadata, spec = { n = i } }
    end
    local status = pass([[
      local pods = world.list("v1/Pod")
      local kinds = {}
      for key in pairs(pods[3]) do kinds[#kinds + 1] = key end
      return { status = { whole = { pods[1], pods[1] }, last = rawget(pods[50], "spec").n, kinds = kinds, count = #pods,
        first = next(pods[4]) } }]], widget(), { objects = pods }).status
    assert.equal("p01", status.whole[2].metadata.name)
    assert.equal(50, status.last)
    assert.equal(50, status.count)
    assert.same({ "apiVersion", "kind", "metadata", "spec" }, status.kinds)
    assert.equal("apiVersion", status.first)
  end)

  it("are refused by their place", function()
    local function wrong(value, why)
      refused("return { status = { x = " .. value .. " } }", "result", "status.x" .. why)
    end
    wrong('{ "a", nil, "c" }', "[2]: is nil, but the list goes on to [3]")
    wrong('{ [1] = "x", [1000000] = "y" }', "[2]: is nil")
    wrong('{ "x", key = "y" }', ': is a list and also has the key "key"')
    wrong("{ [true] = 1 }", ": has a key of type boolean")
    wrong("{ [1.5] = 1 }", ": has the key 1.5")
    wrong("{ [k8s.null] = 1 }", ": has a key of type k8s.null")
    wrong("function() end", ": is a function")
    wrong("0/0", ": is NaN")
    wrong('"\\255"', ": the text is not valid UTF-8")
    refused("local t = {} t.t = { t } return { status = t }", "result", "status.t[1]: the table contains itself")
    refused("local t = {} for i = 1, 300 do t = { t } end return { status = { x = t } }", "limit",
      "deeper than 200 levels")
  end)

  it("may not grow without end", function()
    local body = "local t = { 1 } for i = 1, 60 do t = { t, t } end return { status = { x = t } }"
    local result = pass(body, nil, { limits = { result = 10000 } })
    assert.equal("limit", result.how)
    assert.matches("longer than 10000 bytes", result.error)
    -- Writing counts as the pass's time.
    result = pass(body, nil, { limits = { result = 1e9, cpu_us = 10000 } })
    assert.equal("deadline", result.how)
    result = pass("return { status = { x = pcall(require('tidelock.json').encode, o.spec) } }",
      widget(), { limits = { cpu_us = 10000 } })
    assert.equal("ok", result.how)
    result = pass(body:gsub("return .*", "while true do pcall(require('tidelock.json').encode, t) end"), nil,
      { limits = { cpu_us = 10000 } })
    assert.equal("deadline", result.how)
  end)

  it("may be long lists", function()
    local result = pass("local t = {} for i = 1, 200000 do t[i] = i end return { status = { x = t } }", nil,
      { limits = { memory = 64 * 1024 * 1024, cpu_us = 5e6 } })
    assert.equal(200000, #result.status.x)
  end)
end)

describe("what a script returns", function()
  it("means nothing, or what it says", function()
    assert.equal("nil", pass("return nil").how)
    assert.equal("nil", pass("").how)
    assert.equal("{}", pass("return {}").json)
    assert.equal('{"apply":[]}', pass("return { apply = {} }").json)
    assert.equal('{"status":{}}', pass("return { apply = nil, status = {} }").json)
  end)

  it("is a table", function()
    refused('return "ok"', "result", 'reconcile returned "ok": return a table')
    refused("return false", "result", "reconcile returned false")
    refused("return 42", "result", "reconcile returned 42")
  end)

  it("names whole children", function()
    refused("return { children = {} }", "result", 'did you mean "apply"?')
    refused('return { apply = { web = { kind = "Pod" } } }', "result", "apply: is an object, but must be a list")
    refused('return { apply = { { kind = "Pod" } } }', "result", "apply[1].apiVersion: is missing")
    refused('return { apply = { { apiVersion = "v1", kind = "Pod", metadata = { generateName = "x-" } } } }', "result",
      "apply[1].metadata.generateName: is not allowed")
  end)
end)

describe("an error of a script", function()
  it("is told with its line, for a status that is not there yet", function()
    refused("return { status = { x = o.status.phase } }", "raised",
      "w.lua:2: attempt to index field 'status' (a nil value)")
    refused("table.sort({ {}, { x = 1 } }, function(a, b) return a.x > b.x end)", "raised",
      "w.lua:2: attempt to compare")
  end)

  it("may be anything", function()
    for _, value in ipairs {
      "", "nil", "{}", "{ x = 1 }", "42", "true", "function() end", "setmetatable({}, { __tostring = error })",
    } do
      local result = pass("error(" .. value .. ")")
      assert.equal("raised", result.how)
      assert.is_true(#result.error > 0)
    end
    local long = pass('error(("x"):rep(1024 * 1024))')
    assert.equal("raised", long.how)
    assert.is_true(#long.error < 2000)
    local broken = pass 'error("\\255\\254 broken")'
    assert.equal("raised", broken.how)
    assert.is_true(pcall(kit.json, broken.error), "is valid UTF-8")
  end)
end)

describe("a pass", function()
  local attacks = {
    "counter = (counter or 0) + 1", "string.rep = nil", 'getmetatable("").__index = {}', "math.huge = 4",
    "table.insert = nil", "setmetatable(_G, { __newindex = function() error('x') end })", "_G._G = nil",
    "rawset(o, 'spec', nil)", "o.metadata.name = 'changed'", "pairs = nil", "k8s.condition = nil",
    "require('tidelock.json').encode = nil",
  }

  it("leaves nothing behind", function()
    local subject = widget { n = 1 }
    local script = assert(kit.compile([[
local k8s = require "tidelock"
local attacks = {
  ]] .. "function(o) " .. table.concat(attacks, " end, function(o) ") .. " end" .. [[

}
return { subject = "example.com/v1/Widget", reconcile = function(o, world)
  local seen = { counter = counter or 0, rep = string.rep("x", 2), up = ("x"):upper(), huge = math.huge > 5,
    name = o.metadata.name, n = o.spec.n, type = k8s.condition("A", true, "B").type,
    json = require("tidelock.json").encode { 1 } }
  for key in pairs { x = 1 } do seen.key = key end
  for _, attack in ipairs(attacks) do pcall(attack, o) end
  return { status = seen }
end }]]))
    local want = '{"counter":0,"huge":true,"json":"[1]","key":"x","n":1,"name":"w","rep":"xx","type":"A","up":"X"}'
    for _ = 1, 3 do
      local result = script:reconcile(subject)
      assert.equal("ok", result.how, result.error)
      assert.equal(want, kit.json(result.status))
    end
  end)

  it("has none of what would reach beyond it", function()
    for _, name in ipairs {
      "io", "os", "debug", "jit", "ffi", "package", "load", "loadstring", "loadfile", "dofile", "collectgarbage",
      "setfenv", "getfenv", "newproxy", "coroutine", "print", "gcinfo", "module",
    } do
      assert.equal("nil", pass("return { status = { x = type(" .. name .. ") } }").status.x, name)
    end
    for _, name in ipairs { "string.dump", "math.random", "math.randomseed" } do
      assert.equal("nil", pass("return { status = { x = type(" .. name .. ") } }").status.x, name)
    end
    for _, name in ipairs { "ffi", "tidelock.native", "io", "lfs", "tidelock.kit", "../x", "" } do
      assert.is_false(pass("return { status = { x = pcall(require, '" .. name .. "') } }").status.x, name)
    end
  end)

  it("gives the same result each time, in sorted order", function()
    local body = [[
      local keys, t = {}, {}
      for i = 1, 100 do t["k" .. (i * 7919 % 100)] = i end
      for key in pairs(t) do keys[#keys + 1] = key end
      return { status = { keys = keys, text = tostring({}) .. tostring(print) .. tostring(function() end) } }]]
    local first, second = pass(body), pass(body)
    assert.equal(first.json, second.json)
    local sorted = {}
    for i, key in ipairs(first.status.keys) do
      sorted[i] = key
    end
    table.sort(sorted)
    assert.same(sorted, first.status.keys)
  end)
end)
