--- What the API server answered, by its audit log: a line is written before the client has the answer.
local cjson = require "cjson"

local writing = { create = true, update = true, patch = true, delete = true, deletecollection = true }

local Audit = {}
Audit.__index = Audit

local audit = {}

function audit.of(path)
    return setmetatable({ path = path }, Audit)
end

--- A place in the log to read from later.
function Audit:mark()
    local file = io.open(self.path, "rb")
    local size = file and file:seek("end") or 0
    if file then
        file:close()
    end
    return size
end

--- Entries of `user` after the mark.
function Audit:since(mark, user)
    local entries = {}
    local file = assert(io.open(self.path, "rb"))
    file:seek("set", mark)
    local name = ('"username":"%s"'):format(user)
    for line in file:lines() do
        if line:find(name, 1, true) then
            entries[#entries + 1] = cjson.decode(line)
        end
    end
    file:close()
    return entries
end

--- The entries of `user` (the host's by default) that change something, refused ones included, as
--- "VERB RESOURCE NAMESPACE/NAME CODE" beside the entry.
function Audit:writes_since(mark, user)
    local writes = {}
    for _, entry in ipairs(self:since(mark, user or "tidelock")) do
        if writing[entry.verb] then
            local ref = entry.objectRef or {}
            local resource = ref.subresource and ref.resource .. "/" .. ref.subresource or tostring(ref.resource)
            writes[#writes + 1] = {
                entry = entry,
                text = ("%s %s %s/%s %d"):format(entry.verb, resource, ref.namespace or "", ref.name or "",
                    entry.responseStatus and entry.responseStatus.code or 0),
            }
        end
    end
    return writes
end

--- One text for a failed assertion.
function audit.describe(writes)
    local lines = {}
    for i = 1, math.min(#writes, 20) do
        lines[i] = writes[i].text
    end
    return ("%d writes:\n%s"):format(#writes, table.concat(lines, "\n"))
end

return audit
