--- The kit's world: what world.get, list and the others answer for a list of objects. The rules are the host's.
local values = require "tidelock.native"
local selector = require "tidelock.selector"

local kit_world = {}

--- "apps/v1/Deployment"
function kit_world.kind(object)
  return tostring(object.apiVersion) .. "/" .. tostring(object.kind)
end

-- Days since 1970-01-01 of a date of the Gregorian calendar.
local function days(year, month, day)
  if month <= 2 then
    year, month = year - 1, month + 12
  end
  local century = math.floor(year / 100)
  return math.floor(365.25 * year) - century + math.floor(century / 4) + math.floor(30.6 * (month + 1)) + day - 719591
end

--- RFC 3339 (UTC) or seconds since 1970, as microseconds.
function kit_world.microseconds(time)
  if type(time) == "number" then
    return math.floor(time * 1e6)
  end
  local year, month, day, hour, minute, second = time:match "^(%d%d%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d%.?%d*)Z$"
  if not year then
    error("kit: now: \"" .. time .. "\" is not a time such as 2026-01-02T03:04:05Z", 3)
  end
  local date = days(tonumber(year), tonumber(month), tonumber(day))
  local whole = date * 86400 + tonumber(hour) * 3600 + tonumber(minute) * 60
  return whole * 1e6 + math.floor(tonumber(second) * 1e6 + 0.5)
end

local function metadata(object)
  return object.metadata or {}
end

-- Sorted by namespace and name, as the host gives lists.
local function sorted(objects)
  local list = {}
  for i, object in ipairs(objects) do
    list[i] = object
  end
  table.sort(list, function(a, b)
    local x, y = metadata(a), metadata(b)
    if (x.namespace or "") ~= (y.namespace or "") then
      return (x.namespace or "") < (y.namespace or "")
    end
    return (x.name or "") < (y.name or "")
  end)
  return list
end

local function set_of(list)
  local set = {}
  for _, member in ipairs(list or {}) do
    set[member] = true
  end
  return set
end

local function is_owned_by(object, uid)
  for _, reference in ipairs(metadata(object).ownerReferences or {}) do
    if reference.uid == uid then
      return true
    end
  end
  return false
end

local function field(object, path)
  for key in path:gmatch "[^.]+" do
    object = type(object) == "table" and object[key] or nil
  end
  return object == nil and "" or tostring(object)
end

-- "status.phase=Running,spec.nodeName!=n1"
local function fields_match(text, object)
  for part in text:gmatch "[^,]+" do
    local path, operator, value = part:match "^%s*([%w._-]+)%s*(!?==?)%s*(.-)%s*$"
    if not path then
      error("field selector: \"" .. part .. "\" is neither path=value nor path!=value", 0)
    end
    if (field(object, path) == value) == (operator:sub(1, 1) == "!") then
      return false
    end
  end
  return true
end

local function in_namespace(object, namespace)
  local own = metadata(object).namespace
  return own == nil or namespace == "*" or own == namespace
end

local World = {}
World.__index = World

-- What stops a read of a kind, or nothing.
function World:refusal(kind)
  if self.forbidden[kind] then
    return "Forbidden", kind .. " may not be read by this script"
  elseif self.parked[kind] then
    return "Parked", kind .. " is not synced yet"
  end
end

function World:record(read)
  self.reads[#self.reads + 1] = read
end

function World:get(kind, name, namespace)
  local code, message = self:refusal(kind)
  namespace = namespace or metadata(self.subject).namespace
  local found
  for _, object in ipairs(self.objects) do
    if kit_world.kind(object) == kind and metadata(object).name == name and in_namespace(object, namespace) then
      found = object
      break
    end
  end
  self:record { op = "get", kind = kind, name = name, namespace = namespace, found = found ~= nil }
  if code then
    return nil, code, message
  end
  return found and values.json_encode(found)
end

local function matches(object, query)
  return kit_world.kind(object) == query.kind
    and in_namespace(object, query.namespace)
    and (query.labels == nil or selector.matches(query.labels, metadata(object).labels or {}))
    and (query.fields == nil or fields_match(query.fields, object))
    and (query.owner == nil or is_owned_by(object, query.owner))
end

local function encode(object, metadata_only)
  if metadata_only then
    object = { apiVersion = object.apiVersion, kind = object.kind, metadata = object.metadata }
  end
  return values.json_encode(object)
end

function World:list(query)
  local code, message = self:refusal(query.kind)
  query.namespace = query.namespace or metadata(self.subject).namespace
  local everywhere = query.namespace == nil
  local texts = {}
  for _, object in ipairs(self.objects) do
    if kit_world.kind(object) == query.kind and everywhere and metadata(object).namespace then
      code = "Invalid"
      message = "world.list: the subject has no namespace: name one, or \"*\" for all"
    elseif matches(object, query) then
      texts[#texts + 1] = encode(object, query.metadata)
    end
  end
  query.op, query.count = "list", #texts
  self:record(query)
  if code then
    return nil, code, message
  end
  return texts
end

function World:children(kind)
  local code, message = self:refusal(kind)
  local texts = {}
  for _, object in ipairs(self.given_children or self.objects) do
    local own = self.given_children ~= nil or is_owned_by(object, metadata(self.subject).uid)
    if own and kit_world.kind(object) == kind then
      texts[#texts + 1] = encode(object)
    end
  end
  self:record { op = "children", kind = kind, count = #texts }
  if code then
    return nil, code, message
  end
  return texts
end

--- The live child that an apply entry's `ready` is asked about.
function World:child(api_version, kind, namespace, name)
  namespace = namespace or metadata(self.subject).namespace
  for _, object in ipairs(self.given_children or self.objects) do
    local own = self.given_children ~= nil or is_owned_by(object, metadata(self.subject).uid)
    local meta = metadata(object)
    if own and object.apiVersion == api_version and object.kind == kind and meta.name == name
      and (meta.namespace == nil or meta.namespace == namespace) then
      return encode(object)
    end
  end
end

-- Like the host's: the same on every pass, another one for each subject and name.
function World:secret_value(name, length, charset)
  charset = charset or "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
  local seed, made, counter = tostring(metadata(self.subject).uid) .. "/" .. name, {}, 0
  while #made < length do
    counter = counter + 1
    for pair in values.sha256(seed .. "/" .. counter):gmatch "%x%x%x%x" do
      if #made < length then
        local at = tonumber(pair, 16) % #charset + 1
        made[#made + 1] = charset:sub(at, at)
      end
    end
  end
  return table.concat(made)
end

local function bind(world)
  return {
    get = function(...) return world:get(...) end,
    list = function(...) return world:list(...) end,
    children = function(...) return world:children(...) end,
    child = function(...) return world:child(...) end,
    secret_value = function(...) return world:secret_value(...) end,
    data = function(key) return world.data[key] end,
    log = function(level, message, fields)
      fields = fields and values.json_decode(fields)
      world.logs[#world.logs + 1] = { level = level, message = message, fields = fields }
    end,
  }
end

-- What every live object has.
local function complete(subject)
  local copy, meta = {}, {}
  for key, value in pairs(subject) do
    copy[key] = value
  end
  for key, value in pairs(metadata(subject)) do
    meta[key] = value
  end
  meta.uid = meta.uid or "00000000-0000-4000-8000-000000000001"
  meta.generation = meta.generation or 1
  meta.resourceVersion = meta.resourceVersion or "1"
  copy.metadata = meta
  return copy
end

--- The world of one pass: its functions, and what was read and logged.
function kit_world.new(subject, given, data)
  local world = setmetatable({
    subject = complete(subject),
    objects = sorted(given.objects or {}),
    given_children = given.children and sorted(given.children),
    forbidden = set_of(given.forbidden),
    parked = set_of(given.parked),
    data = given.data or data or {},
    reads = {},
    logs = {},
  }, World)
  world.functions = bind(world)
  return world
end

return kit_world
