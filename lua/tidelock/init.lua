--- The library of a script: `local k8s = require "tidelock"`. Pure functions; nothing here reads or writes the
--- cluster.
local native = require "tidelock.native"
local selector = require "tidelock.selector"

---@class tidelock
---@field null userdata a JSON null: `{ field = k8s.null }` writes one. It is truthy: compare with `==`
local k8s = { null = native.null }

local statuses = { [true] = "True", [false] = "False", True = "True", False = "False", Unknown = "Unknown" }

local function check_text(value, what, level)
  if type(value) ~= "string" or value == "" then
    error(what .. ": expected text, got " .. (value == "" and "an empty one" or type(value)), level + 1)
  end
end

--- A condition for `status.conditions`. The host fills lastTransitionTime and moves it only when the status changes.
---@param kind string the condition's type, e.g. "Ready"
---@param status boolean|"True"|"False"|"Unknown"|nil nil is "Unknown"
---@param reason string one CamelCase word, e.g. "PodsReady"
---@param message? string for people
---@return tidelock.Condition
function k8s.condition(kind, status, reason, message)
  check_text(kind, "k8s.condition: type", 2)
  check_text(reason, "k8s.condition: reason", 2)
  if status == nil then
    status = "Unknown"
  end
  local text = statuses[status]
  if not text then
    error("k8s.condition: status: expected true, false, nil or \"Unknown\", got " .. tostring(status), 2)
  end
  return { type = kind, status = text, reason = reason, message = message or "" }
end

--- An event on the subject, for the `events` of a result.
---@param kind "Normal"|"Warning"
---@param reason string one CamelCase word, e.g. "ScaledUp"; cut at 128 bytes
---@param message string for people; cut at 1024 bytes
---@return tidelock.Event
function k8s.event(kind, reason, message)
  if type(reason) ~= "string" then
    error("k8s.event: reason: expected text, got " .. type(reason), 2)
  end
  if kind ~= "Normal" and kind ~= "Warning" then
    error("k8s.event: type: expected \"Normal\" or \"Warning\", got " .. tostring(kind), 2)
  end
  return { type = kind, reason = reason, message = message or "" }
end

--- Marks a table as a list, so that it is written as `[]` also when it is empty. What is read from the cluster is
--- marked already.
---@param list? any[]
---@return any[]
function k8s.array(list)
  return native.array(list)
end

--- Is it a list: marked as one, or with elements 1..n and nothing else?
---@param value any
---@return boolean
function k8s.is_array(value)
  return native.is_array(value)
end

--- An amount such as "500m" or "2Gi": compares exactly (==, <, <=, and q:compare(other)), adds, subtracts,
--- multiplies by a whole number, prints in the
--- API's canonical form, and may be returned where the API wants a quantity. q:tonumber() gives a plain number.
---@param amount string|number|tidelock.Quantity
---@return tidelock.Quantity
function k8s.quantity(amount)
  return native.quantity(amount)
end

--- Order of two integers (64-bit ones included), numbers or texts: -1, 0 or 1.
---@param a any
---@param b any
---@return integer
function k8s.compare(a, b)
  return native.compare(a, b)
end

--- A time of the API ("2026-01-02T03:04:05Z") as seconds since 1970, which is what world.now() gives.
---@param text string
---@return number
function k8s.time(text)
  return native.time_parse(text)
end

--- Seconds since 1970 as a time of the API, whole seconds.
---@param seconds number
---@return string
function k8s.format_time(seconds)
  return native.time_format(seconds)
end

--- A Go duration ("1h30m") as seconds.
---@param text string|number
---@return number
function k8s.duration(text)
  return native.duration(text) / 1e6
end

--- Ends the pass: it is run again with back-off, or after the given time. Nothing is written.
---@param reason string one CamelCase word
---@param message string
---@param after? string|number Go duration or seconds
function k8s.retry(reason, message, after)
  check_text(reason, "k8s.retry: reason", 2)
  native.fail("retry", reason, message or "", after and native.duration(after) or 0)
end

--- Ends the pass: it is not run again until an input changes. Nothing is written.
---@param reason string one CamelCase word
---@param message string
function k8s.invalid(reason, message)
  check_text(reason, "k8s.invalid: reason", 2)
  native.fail("invalid", reason, message or "")
end

local function step(value, key)
  if type(value) ~= "table" then
    return nil
  end
  local found = value[key]
  if found == nil and type(key) == "string" then
    local index = tonumber(key)
    found = index and value[index]
  end
  return found
end

--- Walks into a value without raising: `k8s.get(pod, "status.phase", "Unknown")`.
---@param value any
---@param path string|(string|integer)[] dotted; a list when a key has dots: { "metadata", "labels", "example.com/a" }
---@param default? any what is given when something on the way is missing
---@return any
function k8s.get(value, path, default)
  if type(path) == "table" then
    for i = 1, #path do
      value = step(value, path[i])
    end
  else
    for key in string.gmatch(path, "[^.]+") do
      value = step(value, key)
    end
  end
  if value == nil or value == k8s.null then
    return default
  end
  return value
end

--- Does a label selector match? A map of labels, a LabelSelector (matchLabels, matchExpressions) or a text such as
--- "app=web,tier in (a,b)".
---@param wanted table|string
---@param labels table<string, string>|nil
---@return boolean
function k8s.labels_match(wanted, labels)
  return selector.matches(wanted, labels or {})
end

--- A deep copy, which stays a list where the original is one.
---@generic T
---@param value T
---@return T
function k8s.copy(value)
  if type(value) ~= "table" then
    return value
  end
  local copy = {}
  for key, member in pairs(value) do
    copy[key] = k8s.copy(member)
  end
  return native.mark_like(copy, value)
end

--- A new value: `base` with `over` laid on it. Objects are merged member by member, anything else is replaced,
--- k8s.null takes a member away.
---@param base any
---@param over any
---@return any
function k8s.merge(base, over)
  if type(base) ~= "table" or type(over) ~= "table" or k8s.is_array(base) or k8s.is_array(over) then
    return k8s.copy(over)
  end
  local merged = k8s.copy(base)
  for key, member in pairs(over) do
    if member == k8s.null then
      merged[key] = nil
    elseif merged[key] == nil then
      merged[key] = k8s.copy(member)
    else
      merged[key] = k8s.merge(merged[key], member)
    end
  end
  return merged
end

--- The first element whose member `key` equals `value`, and its index: `k8s.list_find(conditions, "type", "Ready")`.
---@param list table[]|nil
---@param key string
---@param value any
---@return table?, integer?
function k8s.list_find(list, key, value)
  for index, element in ipairs(list or {}) do
    if type(element) == "table" and element[key] == value then
      return element, index
    end
  end
end

return k8s
