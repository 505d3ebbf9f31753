--- For logic that was written for hosts which give a script its object as a global and run it as a whole (health
--- checks, actions, replica counts):
---
---     local compat = require "tidelock.compat"
---     ...
---     reconcile = function(object, world)
---       local old = compat.open(world)
---       local health = old.run("health", { obj = object })      -- the chunk of health.lua: what it returns
---       local replicas = old.load("replicas").GetReplicas(object) -- the functions that replicas.lua defines
---
--- Such a file finds the sandbox's functions and, beyond them, os.time, os.date, os.clock and os.difftime on the
--- pass's clock, which stands still, in UTC. Nothing else is added: there is no file, no environment, no load.
local native = require "tidelock.native"

local compat = {}

-- --- dates ---------------------------------------------------------------------------------------------------------

local weekdays = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" }
local months = {
  "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
  "December",
}
local seconds_max = 1e11 -- years of four digits

-- Days since 1970-01-01; month and day may lie outside of their range. The years begin in March.
local function days_of(year, month, day)
  year = year + math.floor((month - 1) / 12)
  month = (month - 1) % 12
  if month < 2 then
    year = year - 1
  end
  local leaps = math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
  return year * 365 + leaps + math.floor((153 * ((month + 10) % 12) + 2) / 5) + day - 1 - 719468
end

local function fields_of(seconds)
  local days = math.floor(seconds / 86400)
  local rest = seconds - days * 86400
  local year = 1970 + math.floor(days / 365.2425)
  while days_of(year, 1, 1) > days do
    year = year - 1
  end
  while days_of(year + 1, 1, 1) <= days do
    year = year + 1
  end
  local month = 1
  while month < 12 and days_of(year, month + 1, 1) <= days do
    month = month + 1
  end
  return {
    year = year,
    month = month,
    day = days - days_of(year, month, 1) + 1,
    hour = math.floor(rest / 3600),
    min = math.floor(rest / 60) % 60,
    sec = rest % 60,
    wday = (days + 4) % 7 + 1,
    yday = days - days_of(year, 1, 1) + 1,
    isdst = false,
  }
end

local function digits(width, number)
  return ("%0" .. width .. "d"):format(number)
end

local function hour_of_twelve(d)
  return (d.hour + 11) % 12 + 1
end

-- What strftime does in the C locale.
local conversions = {
  a = function(d) return weekdays[d.wday]:sub(1, 3) end,
  A = function(d) return weekdays[d.wday] end,
  b = function(d) return months[d.month]:sub(1, 3) end,
  B = function(d) return months[d.month] end,
  d = function(d) return digits(2, d.day) end,
  e = function(d) return ("%2d"):format(d.day) end,
  H = function(d) return digits(2, d.hour) end,
  I = function(d) return digits(2, hour_of_twelve(d)) end,
  j = function(d) return digits(3, d.yday) end,
  m = function(d) return digits(2, d.month) end,
  M = function(d) return digits(2, d.min) end,
  n = function() return "\n" end,
  p = function(d) return d.hour < 12 and "AM" or "PM" end,
  s = function(_, seconds) return ("%d"):format(seconds) end,
  S = function(d) return digits(2, d.sec) end,
  t = function() return "\t" end,
  u = function(d) return tostring((d.wday + 5) % 7 + 1) end,
  w = function(d) return tostring(d.wday - 1) end,
  y = function(d) return digits(2, d.year % 100) end,
  Y = function(d) return tostring(d.year) end,
  z = function() return "+0000" end,
  Z = function() return "UTC" end,
  ["%"] = function() return "%" end,
}
local combined = {
  c = "%a %b %e %H:%M:%S %Y", D = "%m/%d/%y", F = "%Y-%m-%d", h = "%b", r = "%I:%M:%S %p", R = "%H:%M",
  T = "%H:%M:%S", x = "%m/%d/%y", X = "%H:%M:%S",
}

local function format_date(format, seconds)
  local d = fields_of(seconds)
  format = format:gsub("%%(.?)", function(letter)
    return combined[letter] -- nil: left as it is
  end)
  return (format:gsub("%%(.?)", function(letter)
    local conversion = conversions[letter]
    if not conversion then
      error("os.date: '%" .. letter .. "' is not supported", 5)
    end
    return conversion(d, seconds)
  end))
end

local function check_seconds(seconds, what)
  if type(seconds) ~= "number" or not (seconds > -seconds_max and seconds < seconds_max) then
    error(what .. ": seconds since 1970 are wanted, got " .. tostring(seconds), 3)
  end
  return math.floor(seconds)
end

local function date_member(date, name, default)
  local value = tonumber(date[name])
  if not value then
    if date[name] == nil and default then
      return default
    end
    error("os.time: field '" .. name .. "' is missing in the date", 3)
  end
  if not (value > -1e9 and value < 1e9) then
    error("os.time: field '" .. name .. "' is out of range", 3)
  end
  return math.floor(value)
end

local function make_os(now)
  local clock = {}
  function clock.time(date)
    if date == nil then
      return now
    end
    if type(date) ~= "table" then
      error("os.time: a table { year =, month =, day = } is wanted, got " .. type(date), 2)
    end
    local days = days_of(date_member(date, "year"), date_member(date, "month"), date_member(date, "day"))
    return days * 86400 + date_member(date, "hour", 12) * 3600 + date_member(date, "min", 0) * 60
      + date_member(date, "sec", 0)
  end
  function clock.date(format, seconds)
    format = format == nil and "%c" or tostring(format)
    seconds = check_seconds(seconds == nil and now or seconds, "os.date")
    if format:sub(1, 1) == "!" then
      format = format:sub(2)
    end
    return format:sub(1, 2) == "*t" and fields_of(seconds) or format_date(format, seconds)
  end
  function clock.clock()
    return 0
  end
  function clock.difftime(later, earlier)
    return later - (earlier or 0)
  end
  return clock
end

-- --- the globals of such a script ----------------------------------------------------------------------------------

-- luacheck: read globals rawlen
local plain = {
  _VERSION = _VERSION, assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, pcall = pcall, rawequal = rawequal, rawget = rawget, rawlen = rawlen, rawset = rawset, select = select,
  setmetatable = setmetatable, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, xpcall = xpcall,
}

local function copy(library)
  local made = {}
  for name, member in pairs(library) do
    made[name] = member
  end
  return made
end

-- Each call of foreach's function may end the walk with a value, as in Lua 5.1.
local function foreach(list, fn)
  for key, value in pairs(list) do
    local found = fn(key, value)
    if found ~= nil then
      return found
    end
  end
end

local function foreachi(list, fn)
  for i = 1, #list do
    local found = fn(i, list[i])
    if found ~= nil then
      return found
    end
  end
end

local function make_globals(world, given)
  local env, table_library = copy(plain), copy(table)
  table_library.foreach, table_library.foreachi, table_library.unpack = foreach, foreachi, unpack
  function table_library.pack(...)
    return { n = select("#", ...), ... }
  end
  local libraries = {
    string = copy(string), table = table_library, math = copy(math), bit = copy(bit),
    os = make_os(math.floor(world.now())),
  }
  for name, library in pairs(libraries) do
    env[name] = library
  end
  for name, value in pairs(given or {}) do
    env[name] = value
    libraries[name] = libraries[name] or type(value) == "table" and value or nil
  end
  function env.require(name)
    return libraries[name] or native.require(name)
  end
  function env.print(...)
    local texts = { ... }
    for i = 1, select("#", ...) do
      texts[i] = tostring(texts[i])
    end
    world.log("debug", table.concat(texts, "\t"))
  end
  env._G = env
  return env
end

local function chunk(name, env, what)
  if type(name) ~= "string" then
    error(what .. ": the name of a file next to the script is wanted, got " .. type(name), 3)
  end
  local found = native.chunk and native.chunk(name, env)
  if not found then
    error(what .. ": there is no file '" .. name .. "' or '" .. name .. ".lua' next to the script", 3)
  end
  return found
end

---@class tidelock.compat.Host
---@field os table os.time, os.date, os.clock, os.difftime on the pass's clock
---@field run fun(name: string, globals?: table): any runs the file with these globals more, gives what it returns
---@field load fun(name: string, globals?: table): table the same, gives its globals: the functions that it defined

--- For one pass.
---@param world tidelock.World
---@return tidelock.compat.Host
function compat.open(world)
  if type(world) ~= "table" or type(world.now) ~= "function" then
    error("compat.open: the world of the pass is wanted", 2)
  end
  local host = { os = make_os(math.floor(world.now())) }
  function host.run(name, globals)
    return chunk(name, make_globals(world, globals), "run")()
  end
  function host.load(name, globals)
    local env = make_globals(world, globals)
    chunk(name, env, "load")()
    return env
  end
  return host
end

-- --- values --------------------------------------------------------------------------------------------------------

--- A copy without nulls: those hosts show a script none. A list moves together.
---@param value any
---@return any
function compat.without_nulls(value)
  if type(value) ~= "table" then
    return value
  end
  local made, list = {}, native.is_array(value)
  for key, member in pairs(value) do
    if member ~= native.null then
      made[list and #made + 1 or key] = compat.without_nulls(member)
    end
  end
  return list and native.array(made) or made
end

--- A copy in which an empty table is a list where `original` has a list: those hosts do that to the object that a
--- script gives back.
---@param value any
---@param original any
---@return any
function compat.like(value, original)
  if type(value) ~= "table" then
    return value
  end
  local made = {}
  for key, member in pairs(value) do
    made[key] = compat.like(member, type(original) == "table" and original[key] or nil)
  end
  if next(made) == nil and native.is_array(original) then
    return native.array(made)
  end
  return native.mark_like(made, value)
end

return compat
