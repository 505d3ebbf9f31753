--- `local json = require "tidelock.json"`: JSON as the API writes it. 64-bit integers, null, `[]` and `{}` stay what
--- they are; keys are sorted.
local native = require "tidelock.native"

---@class tidelock.json
local json = {}

---@param value any
---@return string
function json.encode(value)
  return native.json_encode(value)
end

---@param text string
---@return any
function json.decode(text)
  return native.json_decode(text)
end

return json
