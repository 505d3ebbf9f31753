--- Label selectors: the texts that kubectl takes ("app=web,tier in (a, b),!old") and LabelSelector objects.
local selector = {}

---@class tidelock.Requirement
---@field key string
---@field op "in"|"notin"|"exists"|"absent"
---@field values table<string, true>

local function set_of(list)
  local set = {}
  for _, value in ipairs(list) do
    set[value] = true
  end
  return set
end

local function trim(text)
  return (text:gsub("^%s+", ""):gsub("%s+$", ""))
end

-- The parts between commas that are not within parentheses.
local function split(text)
  local parts, depth, start = {}, 0, 1
  for at, char in text:gmatch "()([(),])" do
    if char == "(" then
      depth = depth + 1
    elseif char == ")" then
      depth = depth - 1
    elseif depth == 0 then
      parts[#parts + 1] = trim(text:sub(start, at - 1))
      start = at + 1
    end
  end
  parts[#parts + 1] = trim(text:sub(start))
  return parts
end

local function split_values(text)
  local values = {}
  for value in (text .. ","):gmatch "([^,]*)," do
    values[#values + 1] = trim(value)
  end
  return values
end

local function parse_part(part)
  local key, word, values = part:match "^([%w%-_./]+)%s+(%a+)%s*%((.*)%)$"
  if key and (word == "in" or word == "notin") then
    return { key = key, op = word, values = set_of(split_values(values)) }
  end
  local operator, value
  key, operator, value = part:match "^([%w%-_./]+)%s*([!=]=?)%s*([%w%-_.]*)$"
  if key and operator ~= "!" then
    return { key = key, op = operator == "!=" and "notin" or "in", values = { [value] = true } }
  end
  local negated
  negated, key = part:match "^(!?)%s*([%w%-_./]+)$"
  if key then
    return { key = key, op = negated == "!" and "absent" or "exists", values = {} }
  end
end

--- Reads a selector text. Raises when it is none.
---@param text string
---@return tidelock.Requirement[]
function selector.parse(text)
  local requirements = {}
  if trim(text) == "" then
    return requirements
  end
  for _, part in ipairs(split(text)) do
    local requirement = parse_part(part)
    if not requirement then
      error(('label selector "%s": "%s" is none of: key, !key, key=value, key!=value, key in (a,b), key notin (a,b)')
        :format(text, part), 2)
    end
    requirements[#requirements + 1] = requirement
  end
  return requirements
end

local operators = { In = "in", NotIn = "notin", Exists = "exists", DoesNotExist = "absent" }

-- A plain map of labels, or a LabelSelector.
local function from_table(wanted)
  local requirements = {}
  local labels = wanted
  if type(wanted.matchLabels) == "table" or type(wanted.matchExpressions) == "table" then
    labels = wanted.matchLabels or {}
    for _, expression in ipairs(wanted.matchExpressions or {}) do
      local op = operators[expression.operator]
      if not op then
        error("label selector: the operator " .. tostring(expression.operator) ..
          " is none of In, NotIn, Exists, DoesNotExist", 3)
      end
      requirements[#requirements + 1] = { key = expression.key, op = op, values = set_of(expression.values or {}) }
    end
  end
  for key, value in pairs(labels) do
    requirements[#requirements + 1] = { key = key, op = "in", values = { [tostring(value)] = true } }
  end
  return requirements
end

local function meets(requirement, value)
  if requirement.op == "exists" then
    return value ~= nil
  elseif requirement.op == "absent" then
    return value == nil
  elseif requirement.op == "in" then
    return value ~= nil and requirement.values[value] == true
  end
  return value == nil or not requirement.values[value] -- notin: also what has no such label
end

--- Does the selector (a text, a map of labels, a LabelSelector) match these labels?
---@param wanted table|string
---@param labels table<string, string>
---@return boolean
function selector.matches(wanted, labels)
  local requirements = type(wanted) == "string" and selector.parse(wanted) or from_table(wanted)
  for _, requirement in ipairs(requirements) do
    if not meets(requirement, labels[requirement.key]) then
      return false
    end
  end
  return true
end

return selector
