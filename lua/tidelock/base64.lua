--- `local base64 = require "tidelock.base64"`: the values of a Secret's `data`, and any other bytes.
local native = require "tidelock.native"

---@class tidelock.base64
local base64 = {}

---@param bytes string
---@return string
function base64.encode(bytes)
  return native.base64_encode(bytes)
end

---@param text string
---@return string
function base64.decode(text)
  return native.base64_decode(text)
end

return base64
