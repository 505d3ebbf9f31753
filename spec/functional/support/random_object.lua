--- Random objects of the kinds that a server has, made of its OpenAPI documents. As JSON text, so that all digits of a
--- number stand as they are.
local cjson = require "cjson"

local random_object = {}

local DEPTH, VALUES = 12, 300

local texts = {
    "", "a", " ", "1", "012", "1e3", "true", "no", "null", "~", "1.5Gi", "1500m", "25%", "/a/b",
    "https://h.test/p?a=b&c=d#e",
    "a: b # c\n- d\n---\n", "line\nline\n", "\ttab\r\n", [["quotes" 'of' \kinds]], "\195\164\226\128\168\194\133", "\240\159\152\128",
    "\127",
    "a\0b", "2026-01-02T03:04:05Z", "*", "&a", "!!str x", "%YAML", ("long"):rep(300),
}
local keys = { "a", "b", "x.test/key", "0", "1", "true", "null", "~", "a: b", "- c", "\195\164", "with space", "'", "#", "a.b", "" }
local integers = {
    "0", "1", "-1", "80", "2147483647", "-2147483648", "4294967296", "9007199254740991", "9007199254740992", "9007199254740993",
    "-9007199254740993", "9223372036854775807", "-9223372036854775808",
}
local doubles = { "0.5", "-0.25", "1.5", "0.1", "100.125", "1e-7", "1234567.75" }
local formats = {
    ["date-time"] = { "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z" },
    byte = { "", "AAEC/w==", "eA==" },
}

local function one_of(list)
    return list[math.random(#list)]
end

local function chance(percent)
    return math.random(100) <= percent
end

-- What stands behind references and wrappings.
local function resolve(schemas, schema)
    while schema["$ref"] or schema.allOf do
        local reference = schema["$ref"] or schema.allOf[1]["$ref"]
        schema = reference and assert(schemas[reference:match "([^/]+)$"], reference) or schema.allOf[1]
    end
    return schema
end

local Maker = {}
Maker.__index = Maker

local function join(open, parts, close)
    return open .. table.concat(parts, ",") .. close
end

-- For a field that takes anything.
function Maker:any(depth)
    local kind = math.random(depth < DEPTH and 8 or 6)
    if kind == 7 then
        return self:list({}, depth)
    elseif kind == 8 then
        return self:map({}, depth)
    end
    return ({ "null", "true", "false", one_of(integers), one_of(doubles), cjson.encode(one_of(texts)) })[kind]
end

function Maker:list(items, depth)
    local parts = {}
    for i = 1, math.random(0, depth < DEPTH and 3 or 0) do
        parts[i] = self:value(items, depth + 1)
    end
    return join("[", parts, "]")
end

function Maker:map(values, depth)
    local parts, seen = {}, {}
    for _ = 1, math.random(0, depth < DEPTH and 4 or 0) do
        local key = one_of(keys)
        if not seen[key] then
            seen[key] = true
            parts[#parts + 1] = cjson.encode(key) .. ":" .. self:value(values, depth + 1)
        end
    end
    return join("{", parts, "}")
end

-- Near the root more of what may be there. `fixed`: members that are known.
function Maker:object(schema, depth, fixed)
    local parts, names = {}, {}
    for name in pairs(schema.properties) do
        names[#names + 1] = name
    end
    table.sort(names) -- so that a seed gives the same object in each process
    for _, name in ipairs(names) do
        local more = self.made < VALUES and depth < DEPTH
        if fixed and fixed[name] then
            parts[#parts + 1] = cjson.encode(name) .. ":" .. cjson.encode(fixed[name])
        elseif more and chance(depth < 2 and 90 or depth < 4 and 50 or 30) then
            parts[#parts + 1] = cjson.encode(name) .. ":" .. self:value(schema.properties[name], depth + 1)
        end
    end
    return join("{", parts, "}")
end

function Maker:value(schema, depth)
    schema = resolve(self.schemas, schema)
    self.made = self.made + 1
    if schema.oneOf then
        schema = one_of(schema.oneOf)
    end
    if schema.enum then
        return cjson.encode(one_of(schema.enum))
    elseif schema.properties then
        return self:object(schema, depth)
    elseif schema.additionalProperties then
        return self:map(type(schema.additionalProperties) == "table" and schema.additionalProperties or {}, depth)
    elseif schema.type == "array" then
        return self:list(schema.items or {}, depth)
    elseif schema.type == "string" and schema.format == "int-or-string" then
        return chance(50) and one_of(integers) or cjson.encode(one_of(texts))
    elseif schema.type == "string" then
        return cjson.encode(one_of(formats[schema.format] or texts))
    elseif schema.type == "integer" then
        return one_of(integers)
    elseif schema.type == "number" then
        return chance(50) and one_of(integers) or one_of(doubles)
    elseif schema.type == "boolean" then
        return chance(50) and "true" or "false"
    end
    return self:any(depth)
end

--- All kinds in an OpenAPI v3 document that stand for objects: { api_version, kind, name = of its schema }, sorted.
function random_object.kinds(document)
    local found = {}
    for name, schema in pairs(document.components.schemas) do
        local gvks = schema["x-kubernetes-group-version-kind"] or {}
        local has = schema.properties or {}
        if #gvks == 1 and has.kind and has.metadata and not (has.items and gvks[1].kind:find "List$") then
            local gvk = gvks[1]
            found[#found + 1] = {
                api_version = (gvk.group ~= "" and gvk.group .. "/" or "") .. gvk.version, kind = gvk.kind, name = name,
            }
        end
    end
    table.sort(found, function(a, b)
        return a.name < b.name
    end)
    return found
end

--- A random object of the kind, as JSON text. math.randomseed decides which. `metadata`: not a random one.
function random_object.make(document, kind, metadata)
    local schemas = document.components.schemas
    local maker = setmetatable({ schemas = schemas, made = 0 }, Maker)
    return maker:object(schemas[kind.name], 0, { apiVersion = kind.api_version, kind = kind.kind, metadata = metadata })
end

--- A random map of anything, as JSON text, `levels` deep at most.
function random_object.map(levels)
    return setmetatable({ made = 0 }, Maker):map({}, DEPTH - levels)
end

--- Seeds math.random from TIDELOCK_SEED, or anew from the system, and prints what repeats it. `file`: of the spec.
function random_object.seed(file)
    local seed = tonumber(os.getenv "TIDELOCK_SEED")
    if not seed then
        local system = assert(io.open "/dev/urandom")
        local a, b, c = system:read(3):byte(1, 3)
        system:close()
        seed = (a * 256 + b) * 256 + c
    end
    print(("seed %d; to repeat: TIDELOCK_SEED=%d busted --lua=luajit %s"):format(seed, seed, file))
    io.stdout:flush()
    math.randomseed(seed)
end

return random_object
