--- The three ways a script says which changes it wants, as lua/README.md shows them.
local kit = require "tidelock.kit"

-- The examples of that section: every fenced block with a `reconcile = reconcile`.
local function examples()
  local text = assert(io.open "lua/README.md"):read "*a"
  local section = text:match "### Which changes are followed by a pass(.-)\n### "
  local found = {}
  for block in section:gmatch "```lua\n(.-)```" do
    found[#found + 1] = "local reconcile = function() return {} end\n" .. block
  end
  return found
end

describe("which changes are followed by a pass", function()
  local scripts = {}

  setup(function()
    for i, text in ipairs(examples()) do
      scripts[i] = assert(kit.compile(text, { name = "example.lua" }))
    end
  end)

  it("has an example of each way, and all are scripts", function()
    assert.equal(4, #scripts)
    assert.equal("apps/v1/Deployment", scripts[1].subject)
    assert.equal("v1/Pod", scripts[2].subject)
  end)

  it("asks when(old, new)", function()
    local function deployment(replicas)
      return { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "a" }, spec = { replicas = replicas } }
    end
    local script = scripts[4]
    assert.is_false(script:when(deployment(100), deployment(105)))
    assert.is_true(script:when(deployment(100), deployment(111)))
    assert.is_true(script:when(deployment(100), deployment(99)))
    local verdict, why = script:when(deployment(nil), deployment(1))
    assert.is_nil(verdict)
    assert.matches("example.lua:", why)
  end)

  it("refuses changed and when at once", function()
    local script, why = kit.compile [[return { subject = "v1/Pod", changed = { "spec" },
      when = function() return true end, reconcile = function() end }]]
    assert.is_nil(script)
    assert.matches("either changed or when", why)
  end)
end)
