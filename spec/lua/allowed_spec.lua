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
    local function add(names, prefix)
      for name in names:gmatch "`([%w_]+)`" do
        documented[prefix .. name] = true
      end
    end
    add(text:match "- (`_G`.-)\n%- ", "")
    add(text:match "`string`:(.-)\n%- ", "string.")
    add(text:match "`table`:(.-)\n%- ", "table.")
    add(text:match "`math`:(.-)\n%- ", "math.")
    add(text:match "`bit`:(.-)\n$", "bit.")
    assert.is_true(has.pairs and has["string.format"] and has["bit.tohex"]) -- the script has seen them
    for name in pairs(has) do
      assert.is_truthy(documented[name], name .. " is not in lua/README.md")
    end
    for name in pairs(documented) do
      assert.is_true(has[name], name .. " is in lua/README.md only")
    end
  end)

  it("has all of math and bit but randomness and an old name", function()
    local missing = {}
    for library, members in pairs { math = math, bit = bit } do
      for name in pairs(members) do
        if not has[library .. "." .. name] then
          missing[#missing + 1] = library .. "." .. name
        end
      end
    end
    table.sort(missing)
    assert.same(math.mod and { "math.mod", "math.random", "math.randomseed" } or { "math.random", "math.randomseed" },
      missing)
  end)
end)

describe("the library", function()
  local function members_of(module)
    local script = assert(kit.compile(([[
      return { subject = "v1/Pod", reconcile = function()
        local found = {}
        for name in pairs(require "%s") do found[#found + 1] = name end
        return { status = { found = found } }
      end }]]):format(module)))
    return script:reconcile({ apiVersion = "v1", kind = "Pod", metadata = { name = "a" } }).status.found
  end

  local file = assert(io.open "lua/README.md")
  local text = file:read "*a"
  file:close()

  -- Where lua/README.md has a module's function: anywhere, or in the module's own row.
  local modules = { tidelock = "`k8s%.NAME", ["tidelock.compat"] = "compat%.NAME%(" }
  for _, name in ipairs { "json", "yaml", "base64", "sha256", "selector" } do
    modules["tidelock." .. name] = "`NAME%("
  end
  for module, pattern in pairs(modules) do
    it("is documented: " .. module, function()
      local names = members_of(module)
      assert.is_true(#names > 0)
      local row = text:match("\n| `" .. module:gsub("%.", "%%.") .. "` |([^\n]*)") -- of the table of modules
      for _, name in ipairs(names) do
        local where = pattern == "`NAME%(" and assert(row, module .. " is not in lua/README.md") or text
        assert.is_truthy(where:find((pattern:gsub("NAME", name))), module .. "." .. name .. " is not in lua/README.md")
      end
    end)
  end
end)
