local kit = require "tidelock.kit"

-- The script that README.md shows does what README.md says.
describe("the README's script", function()
    local function code_of(path)
        local file = assert(io.open(path))
        local text = file:read "*a"
        file:close()
        return assert(text:match "```lua\n(.-)```", "no Lua in " .. path)
    end

    local function pod(name)
        return {
            apiVersion = "v1",
            kind = "Pod",
            metadata = { name = name, namespace = "default", labels = { app = "web" } },
        }
    end

    it("gives every Deployment its greeting, and counts its pods", function()
        local script = kit.compile(code_of "README.md")
        local deployment = {
            apiVersion = "apps/v1",
            kind = "Deployment",
            metadata = { name = "web", namespace = "default", labels = { greet = "world" } },
            spec = { selector = { matchLabels = { app = "web" } } },
        }
        local result = script:reconcile(deployment, { objects = { pod "web-1", pod "web-2" } })
        local greeting = kit.find(result.apply, "v1/ConfigMap", "web-greeting")
        assert.same({ text = "hello world", pods = "2" }, greeting.data)
    end)
end)
