-- What a pass costs where lua-cjson does the JSON, in one state that is never thrown away, without limits and checks:
-- the same document and script as bench_pass_bench, decoded, run, encoded.
--   build/release/spec/bench_pass_bench dump DIR
--   luajit spec/bench/pass_cjson.lua DIR [rounds]     (in the root of the source tree)
package.path = "./lua/?.lua;./lua/?/init.lua;" .. package.path
package.cpath = "./build/release/lua/?.so;" .. package.cpath
require("jit").off()
local cjson = require "cjson"
local native = require "tidelock_native"
package.preload["tidelock.native"] = function()
  return native.values
end

local folder, rounds = arg[1], tonumber(arg[2] or 5000)
local file = assert(io.open(folder .. "/pod.json"))
local text = file:read "*a"
file:close()
local script = assert(loadfile(folder .. "/script.lua"))()
local world = { now = function() return 1700000000 end, log = function() end }

local function median(what, fn)
  local times = {}
  for i = 1, rounds do
    local start = os.clock()
    fn()
    times[i] = (os.clock() - start) * 1e6
  end
  table.sort(times)
  print(("%-8s %.0f us of CPU time"):format(what, times[math.floor(rounds / 2) + 1]))
end

median("decode", function()
  cjson.decode(text)
end)
local result = script.reconcile(cjson.decode(text), world)
median("encode", function()
  cjson.encode(result)
end)
median("all", function()
  cjson.encode(script.reconcile(cjson.decode(text), world))
end)
