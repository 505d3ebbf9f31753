--- Random children that a server takes, of ConfigMap, Service, Deployment and a kind of the spec's own, and whether what is
--- there is what was wanted. math.random decides.
local cjson = require "cjson"
local random_object = require "spec.functional.support.random_object"
local widgets = require "spec.functional.support.widgets"

local random_children = {}

random_children.kinds = { "configmaps", "services", "deployments", "crates" }

--- The kind of our own: lists of each sort, a map, and a field that takes anything.
random_children.crate = widgets.own_kind { group = "sequences.test", kind = "Crate", subresources = "{}", schema = [[
{type: object, properties: {spec: {type: object, properties: {
        any: {type: object, x-kubernetes-preserve-unknown-fields: true},
        m: {type: object, additionalProperties: {type: string}},
        arr: {type: array, items: {type: string}},
        set: {type: array, x-kubernetes-list-type: set, items: {type: string}},
        lm: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {
          type: object, required: [name], properties: {name: {type: string}, v: {type: string},
            m: {type: object, additionalProperties: {type: string}}}}}}}}}]] }

local texts = { "", "a", "1", "true", "null", "1Gi", "/x", "\194\133", "\127", "\n\t\"\\", "\240\159\152\128" }
local label_values = { "", "a", "1", "true", "null", "x.y" }
local names = { "a", "b", "c", "d", "e", "f", "g", "h" }
-- As a script may spell them, and as the server does.
local quantities = { ["0.5"] = "500m", ["500m"] = "500m", ["1024Mi"] = "1Gi", ["1Gi"] = "1Gi", ["1000m"] = "1", ["2"] = "2" }
local spellings = { cpu = { "0.5", "500m", "1000m", "2" }, memory = { "1024Mi", "1Gi" } }

local function one_of(list)
    return list[math.random(#list)]
end

local function chance(percent)
    return math.random(100) <= percent
end

local function maybe(percent, make, ...)
    if chance(percent) then
        return make(...)
    end
end

local function map(values)
    local made = {}
    for _ = 1, math.random(0, 3) do
        made[one_of(names)] = one_of(values)
    end
    return made
end

local function list(from)
    local first = math.random(#from - 2)
    return setmetatable({ unpack(from, first, first + math.random(0, 3) - 1) }, cjson.array_mt)
end

-- A list of maps with distinct names; what else each holds is made by `rest`.
local function named(least, rest)
    local made, first = setmetatable({}, cjson.array_mt), math.random(0, 2)
    for i = first, first + math.random(least, 3) - 1 do
        local item = rest(i)
        item.name = "n" .. i
        made[#made + 1] = item
    end
    return made
end

local function resources()
    return { requests = { cpu = maybe(70, one_of, spellings.cpu), memory = maybe(70, one_of, spellings.memory) } }
end

local function container()
    return {
        image = one_of { "i:1", "i:2" },
        env = maybe(60, named, 0, function()
            return { value = one_of(texts) }
        end),
        args = maybe(30, list, texts),
        resources = maybe(40, resources),
    }
end

local function deployment(name)
    return {
        replicas = maybe(50, math.random, 0, 1),
        selector = { matchLabels = { app = name } },
        template = {
            metadata = { labels = { app = name, extra = maybe(30, one_of, label_values) }, annotations = maybe(50, map, texts) },
            spec = { containers = named(1, container), nodeSelector = maybe(30, map, label_values) },
        },
    }
end

local function service()
    return {
        selector = maybe(60, map, label_values),
        ports = named(1, function(i)
            return { port = 80 + i, protocol = maybe(50, one_of, { "TCP" }), targetPort = maybe(50, one_of, { 8080, "web" }) }
        end),
    }
end

local function crate()
    return {
        any = "ANYTHING",
        m = maybe(50, map, texts),
        arr = maybe(50, list, names),
        set = maybe(50, list, names),
        lm = maybe(60, named, 0, function()
            return { v = maybe(50, one_of, texts), m = maybe(50, map, texts) }
        end),
    }
end

local makers = {
    configmaps = function()
        return { apiVersion = "v1", kind = "ConfigMap", data = maybe(80, map, texts) }
    end,
    services = function()
        return { apiVersion = "v1", kind = "Service", spec = service() }
    end,
    deployments = function(name)
        return { apiVersion = "apps/v1", kind = "Deployment", spec = deployment(name) }
    end,
    crates = function()
        return { apiVersion = "sequences.test/v1", kind = "Crate", spec = crate() }
    end,
}

--- JSON text, so that all digits of a number stand as they are.
function random_children.make(resource, name)
    local child = makers[resource](name)
    child.metadata = { name = name, annotations = maybe(30, map, texts) }
    return (cjson.encode(child):gsub('"ANYTHING"', function()
        return random_object.map(3)
    end))
end

-- ---- is what is wanted there?

-- The members of built-in kinds in which nothing but what is wanted may be; others have defaults.
local whole = {
    selector = true, ports = true, labels = true, annotations = true, nodeSelector = true, containers = true, env = true,
    args = true, requests = true,
}

local function is_nothing(value)
    if type(value) ~= "table" then
        return value == nil or value == cjson.null
    end
    for _, member in pairs(value) do
        if #value > 0 or not is_nothing(member) then
            return false
        end
    end
    return true
end

local contains

-- The item that stands for the wanted one: of that name, of that value in a set, or in that place.
local function counterpart(live, item, i, path)
    for _, each in ipairs(live) do
        local same_name = type(item) == "table" and type(each) == "table" and item.name and each.name == item.name
        if same_name or (path:find "%.set$" and each == item) then
            return each
        end
    end
    return live[i]
end

local function list_contains(live, wanted, path, is_whole)
    for i, item in ipairs(wanted) do
        local ok, where = contains(counterpart(live, item, i, path), item, ("%s[%d]"):format(path, i), is_whole)
        if not ok then
            return false, where
        end
    end
    return #live == #wanted or not is_whole(path), path
end

local function map_contains(live, wanted, path, is_whole)
    for key, value in pairs(wanted) do
        local ok, where = contains(live[key], value, path .. "." .. key, is_whole)
        if not ok then
            return false, where
        end
    end
    for key, value in pairs(live) do
        local its_path = path .. "." .. key
        if is_nothing(wanted[key]) and not is_nothing(value) and (is_whole(path) or is_whole(its_path)) then
            return false, its_path
        end
    end
    return true
end

-- `is_whole`: may nothing else be in what is at the path?
function contains(live, wanted, path, is_whole)
    if is_nothing(wanted) and (is_nothing(live) or not is_whole(path)) then
        return true
    elseif type(wanted) ~= "table" then
        local left_out = wanted == "" and live == nil and path:find "%.value$" -- as built-in types do
        return live == wanted or left_out or (quantities[wanted] and quantities[wanted] == live), path
    elseif type(live) ~= "table" then
        return false, path
    elseif #wanted > 0 or #live > 0 then
        return list_contains(live, wanted, path, is_whole)
    end
    return map_contains(live, wanted, path, is_whole)
end

--- True, or false and the path that differs. `text`: what is wanted. `drifted`: others have added to the object.
function random_children.is_there(resource, live, text, drifted)
    local wanted = cjson.decode(text)
    local has_defaults = resource == "services" or resource == "deployments"
    local function is_whole(path)
        return not drifted and (not has_defaults or whole[path:match "%.(%w+)$"]) and path ~= ".metadata"
    end
    local metadata = { annotations = wanted.metadata.annotations }
    local its = { annotations = live.metadata.annotations }
    if resource == "deployments" and its.annotations then
        its.annotations["deployment.kubernetes.io/revision"] = nil
    end
    for _, part in ipairs { { "metadata", its, metadata }, { "spec", live.spec, wanted.spec }, { "data", live.data, wanted.data } } do
        local ok, where = contains(part[2], part[3], "." .. part[1], is_whole)
        if not ok then
            return false, where
        end
    end
    return true
end

return random_children
