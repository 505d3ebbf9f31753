--- The test kit: runs a script in the real sandbox, on a world that is a list of objects. No cluster, milliseconds.
--- For busted:
---
---     local kit = require "tidelock.kit"
---     local script = kit.load "operators/memcached/memcached.lua"
---     local result = script:reconcile(subject, { objects = { pod, deployment } })
---     assert.equal(3, kit.find(result.apply, "apps/v1/Deployment", "sample").spec.replicas)
---
--- It needs tidelock_native.so on package.cpath (build/PRESET/lua/?.so).
local lfs = require "lfs"
local native = require "tidelock_native"

package.preload["tidelock.native"] = function()
  return native.values
end

-- As in the host, scripts and their tests run without LuaJIT's compiler: what that of 2.1.0-beta3 makes of tests now and
-- then reads memory that is not there (the same tests, interpreted: never).
jit.off()

local world_of = require "tidelock.kit_world"

---@class tidelock.kit
local kit = { null = native.values.null }

--- The JSON text of a value, keys sorted.
---@param value any
---@return string
function kit.json(value)
  return native.values.json_encode(value)
end

local function read_file(path)
  local file, why = io.open(path, "rb")
  if not file then
    error("kit: " .. why, 3)
  end
  local text = file:read "*a"
  file:close()
  return text
end

--- All objects of a YAML or JSON file.
---@param path string
---@return table[]
function kit.objects(path)
  return native.values.yaml_decode(read_file(path))
end

--- The one object of a YAML or JSON file.
---@param path string
---@return table
function kit.object(path)
  local objects = kit.objects(path)
  if #objects ~= 1 then
    error("kit: " .. path .. " has " .. #objects .. " objects: use kit.objects", 2)
  end
  return objects[1]
end

--- The object of that kind ("apps/v1/Deployment") and name in a list, or nil.
---@param list table[]|nil
---@param kind string
---@param name? string the first one of the kind when it is left out
---@param namespace? string
---@return table?
function kit.find(list, kind, name, namespace)
  for _, object in ipairs(list or {}) do
    local metadata = object.metadata or {}
    if world_of.kind(object) == kind and (name == nil or metadata.name == name)
      and (namespace == nil or metadata.namespace == namespace) then
      return object
    end
  end
end

---@class tidelock.kit.Result
---@field how string how the pass ended: "ok", "nil", "raised", "retry", "invalid", "result", "deadline", ...
---@field error? string what the author of the script is told
---@field reason? string of k8s.retry and k8s.invalid
---@field retry_after? number seconds, of k8s.retry
---@field traceback? string
---@field apply? table[] the children
---@field patch? table[]
---@field delete? table[]
---@field entries table<string, table[]> apply and patch with their options: { object =, once =, ... }
---@field status? table
---@field events? tidelock.Event[]
---@field requeue_after? number seconds
---@field done? boolean
---@field reads table[] what it read, in order: { op = "get"|"list"|"children", kind =, ... }
---@field logs table[] { level =, message =, fields = }

local members = { "apply", "patch", "delete", "status", "events", "requeue_after", "done", "entries" }

-- A failed pass has no members: a test that looks at one sees why.
local function fail_on_members(result)
  local forbidden = {}
  for _, name in ipairs(members) do
    forbidden[name] = true
  end
  return setmetatable(result, {
    __index = function(_, name)
      if forbidden[name] then
        error(("the pass has no %s, it ended as %s: %s"):format(name, result.how, result.error), 2)
      end
    end,
  })
end

local function objects_of(entries)
  if entries == nil then
    return nil
  end
  local objects = native.values.array()
  for i, entry in ipairs(entries) do
    objects[i] = entry.object
  end
  return objects
end

local function result_of(output, world)
  output.reads, output.logs = world.reads, world.logs
  if output.error then
    return fail_on_members(output)
  end
  local result = output.result or {}
  output.result = nil
  output.entries = { apply = result.apply, patch = result.patch }
  output.apply, output.patch = objects_of(result.apply), objects_of(result.patch)
  output.delete, output.status, output.events, output.done = result.delete, result.status, result.events, result.done
  output.requeue_after = result.requeue_after_us and result.requeue_after_us / 1e6
  return output
end

---@class tidelock.kit.Script
---@field name string
---@field subject string
local Script = {}
Script.__index = Script

---@class tidelock.kit.World
---@field objects? table[] the cluster; an object without metadata.namespace is cluster-scoped
---@field children? table[] what world.children gives; default: the objects that the subject owns
---@field now? string|number world.now(): RFC 3339, or seconds since 1970; default 2026-01-01T00:00:00Z
---@field env? table world.env
---@field data? table<string, string> world.data: other keys; default: the other files of the script's folder
---@field forbidden? string[] kinds whose reads fail
---@field parked? string[] kinds that are not synced yet
---@field limits? table cpu_us, memory, result, events, log_lines, log_bytes

local function run(script, entry, subject, world)
  world = world or {}
  local answers = world_of.new(subject, world, script.data)
  local output = script.program:run {
    entry = entry,
    object = native.values.json_encode(answers.subject),
    now_us = world_of.microseconds(world.now or "2026-01-01T00:00:00Z"),
    env = world.env and native.values.json_encode(world.env),
    world = answers.functions,
    limits = world.limits,
  }
  return result_of(output, answers)
end

--- One pass of the script's reconcile. Never raises for what the script does: see result.error.
---@param subject table
---@param world? tidelock.kit.World
---@return tidelock.kit.Result
function Script:reconcile(subject, world)
  return run(self, "reconcile", subject, world)
end

--- One pass of the script's finalize.
---@param subject table
---@param world? tidelock.kit.World
---@return tidelock.kit.Result
function Script:finalize(subject, world)
  return run(self, "finalize", subject, world)
end

--- What the script's `when` says of a change: true or false, or nil and the error (the host runs a pass then).
---@param old table the subject as the last completed pass saw it
---@param new table
---@return boolean?, string?
function Script:when(old, new)
  local answers = world_of.new(new, {}, self.data)
  local output = self.program:run {
    entry = "when",
    old = native.values.json_encode(world_of.new(old, {}, self.data).subject),
    object = native.values.json_encode(answers.subject),
    now_us = 0,
    world = answers.functions,
  }
  if output.error then
    return nil, output.error
  end
  return output.verdict
end

--- A script from texts: `kit.compile("return {...}", { name = "web.lua", modules = { ["lib.lua"] = "..." } })`.
--- nil and the reason when the host would refuse it.
---@param text string
---@param options? { name?: string, modules?: table<string, string>, data?: table<string, string> }
---@return tidelock.kit.Script?, string?
function kit.compile(text, options)
  options = options or {}
  local modules = {}
  for name, module in pairs(options.modules or {}) do
    modules[#modules + 1] = { name = name, text = module }
  end
  table.sort(modules, function(a, b)
    return a.name < b.name
  end)
  local program, why = native.load {
    main = { name = options.name or "script.lua", text = text },
    modules = modules,
  }
  if not program then
    return nil, why
  end
  local spec = program:spec()
  local script = { program = program, name = spec.name, subject = spec.subject, spec = spec, data = options.data or {} }
  return setmetatable(script, Script)
end

-- The other files of the folder: .lua files are modules, specs are left out, the rest is data.
local function siblings(folder, main)
  local modules, data = {}, {}
  for name in lfs.dir(folder) do
    local path = folder .. "/" .. name
    if name ~= main and lfs.attributes(path, "mode") == "file" and not name:match "_spec%.lua$" then
      local into = name:match "%.lua$" and modules or data
      into[name] = read_file(path)
    end
  end
  return modules, data
end

--- A script from a file, with the other files of its folder. Raises when the host would refuse it.
---@param path string
---@return tidelock.kit.Script
function kit.load(path)
  local folder, name = path:match "^(.*)/([^/]+)$"
  if not folder then
    folder, name = ".", path
  end
  local text = read_file(path)
  local modules, data = siblings(folder, name)
  local script, why = kit.compile(text, { name = name, modules = modules, data = data })
  if not script then
    error("kit: " .. why, 2)
  end
  return script
end

return kit
