--- What a script has stands in lua/README.md, and what stands there it has.
local kit = require "tidelock.kit"

local function section()
  local file = assert(io.open "lua/README.md")
  local text = file:read "*a"
  file:close()
  return assert(text:match "\n## The sandbox\n(.-)\nand nothing else")
end

describe("the sandbox's list", function()
  local script = assert(kit.compile [[
    return { subject = "v1/Pod", reconcile = function()
      local found = {}
      for name, value in pairs(_G) do
        found[#found + 1] = name
        for member in pairs(type(value) == "table" and name ~= "_G" and value or {}) do
          found[#found + 1] = name .. "." .. member
        end
      end
      return { status = { found = found } }
    end }]])
  local has = {}
  local result = script:reconcile { apiVersion = "v1", kind = "Pod", metadata = { name = "a" } }
  for _, name in ipairs(result.status.found) do
    has[name] = true
  end

  it("is documented", function()
    local documented = { math = true, bit = true, string = true, table = true }
    local text = section()
    local all = { math = text:match "`math`: all but", bit = text:match "`bit`: all" }
    local function add(names, prefix)
      for name in names:gmatch "`([%w_]+)`" do
        documented[prefix .. name] = true
      end
    end
    add(text:match "- (`_G`.-)\n%- ", "")
    add(text:match "`string`:(.-)\n%- ", "string.")
    add(text:match "`table`:(.-)\n%- ", "table.")
    for name in pairs(has) do
      assert.is_truthy(documented[name] or all[name:match "^(%a+)%."], name .. " is not in lua/README.md")
    end
    for name in pairs(documented) do
      assert.is_true(has[name], name .. " is in lua/README.md only")
    end
  end)

  it("has all of math but randomness", function()
    for name in pairs(math) do
      local random = name == "random" or name == "randomseed"
      assert.equal(not random, has["math." .. name] == true or name == "mod", name)
    end
  end)
end)
