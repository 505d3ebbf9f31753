--- Values on their way from JSON to Lua and back, next to lua-cjson as a second opinion.
local cjson = require "cjson"
require "tidelock.kit"

describe("values", function()
  local k8s = require "tidelock"
  local json = require "tidelock.json"

  local function same(text)
    assert.equal(text, json.encode(json.decode(text)))
  end

  it("are the same when they are returned unchanged", function()
    same '{"ingress":[],"podSelector":{},"policyTypes":["Ingress"]}'
    same '[9223372036854775807,-9223372036854775808,18446744073709551615,9007199254740993,1000660000]'
    same '{"nested":[[],{},[null]],"opt":null}'
    same '"é \\u0000 / \\u007f"'
  end)

  it("print whole numbers as integers", function()
    assert.equal("[500000,1000,0,1]", json.encode { 1000000 / 2, 1e3, -0, 1.0 })
  end)

  it("stay lists when they are emptied or filled", function()
    local value = json.decode '{"a":[1],"b":[]}'
    table.remove(value.a)
    table.insert(value.b, { x = 1 })
    assert.equal('{"a":[],"b":[{"x":1}]}', json.encode(value))
  end)

  it("are lists by mark or by content", function()
    assert.equal('[[],{},[1]]', json.encode { k8s.array {}, {}, { 1 } })
    assert.is_true(k8s.is_array(json.decode "[]"))
    assert.is_false(k8s.is_array(json.decode "{}"))
  end)

  it("compare 64-bit integers with anything", function()
    local big = json.decode "[9007199254740993]"[1]
    assert.equal(1, k8s.compare(big, 5))
    assert.equal(-1, k8s.compare(5, big))
    assert.equal(0, k8s.compare(5, 5))
    assert.equal("9007199254740993", tostring(big))
    assert.error_matches(function() return big + 1 end, "arithmetic on 9007199254740993")
  end)

  -- cjson decodes what we wrote; where it is exact it must see the same value.
  it("read the same to cjson", function()
    math.randomseed(7)
    local function random(depth)
      local kind = math.random(depth > 0 and 6 or 4)
      if kind == 1 then
        return math.random(-1e6, 1e6) / 8
      elseif kind == 2 then
        return ("x"):rep(math.random(0, 3)) .. string.char(math.random(32, 126)) .. "é\n"
      elseif kind == 3 then
        return math.random() < 0.5
      elseif kind == 4 then
        return math.random(2 ^ 40) -- cjson writes 14 digits
      end
      local made = {}
      for i = 1, math.random(3) do
        made[kind == 5 and i or string.char(96 + i)] = random(depth - 1)
      end
      return made
    end
    for _ = 1, 500 do
      local value = { random(5) }
      assert.same(value, cjson.decode(json.encode(value)))
      assert.same(value, json.decode(cjson.encode(value)))
    end
  end)

  it("name the place of what is no value", function()
    local function refused(value, why)
      assert.error_matches(function() json.encode(value) end, why, 1, true)
    end
    refused({ items = { "a", nil, "c" } }, "items[2]: is nil")
    refused({ a = { "x", key = 1 } }, 'a: is a list and also has the key "key"')
    refused({ a = print }, "a: is a function")
    refused({ 0 / 0 }, "[1]: is NaN")
    local cycle = {}
    cycle.self = cycle
    refused(cycle, "self: the table contains itself")
  end)
end)
