--- `local sha256 = require "tidelock.sha256"`: a digest in hex, e.g. of a configuration whose change must roll pods.
local native = require "tidelock.native"

---@class tidelock.sha256
local sha256 = {}

---@param bytes string
---@return string
function sha256.hex(bytes)
  return native.sha256(bytes)
end

return sha256
