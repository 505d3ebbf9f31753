--- `local yaml = require "tidelock.yaml"`: YAML as kubectl reads it.
local native = require "tidelock.native"

---@class tidelock.yaml
local yaml = {}

---@param value any
---@return string
function yaml.encode(value)
  return native.yaml_encode(value)
end

--- The one document of a text; nil when it is empty. Raises when there are several: see decode_all.
---@param text string
---@return any
function yaml.decode(text)
  local documents = native.yaml_decode(text)
  if #documents > 1 then
    error("yaml.decode: the text has " .. #documents .. " documents: use yaml.decode_all", 2)
  end
  return documents[1]
end

--- All documents of a text, without the empty ones.
---@param text string
---@return any[]
function yaml.decode_all(text)
  return native.yaml_decode(text)
end

return yaml
