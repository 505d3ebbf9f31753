--- A host that is told its namespaces asks for nothing outside of them.
local functional = require "spec.functional.support"
local eventually = functional.eventually

functional.describe("--namespaces", function()
    local plane

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    it("serves the subjects there, and lists and watches nowhere else", function()
        local inside, also, outside = plane:namespace "inside", plane:namespace "also", plane:namespace "outside"
        for _, namespace in ipairs { outside, inside, also } do
            plane:create("memcacheds", namespace, functional.memcached "a")
        end
        plane:put_scripts("notes", { ["note.lua"] = functional.note_script("note", "one") })
        local mark = plane.audit:mark()
        functional.host.start({ plane = plane, args = { "--namespaces", inside .. "," .. also } }):await_ready()
        eventually(10, "the subjects of both namespaces are served", function()
            return functional.note(plane, inside, "a") == "one" and functional.note(plane, also, "a") == "one"
        end)
        functional.process.sleep(2)
        assert.is_nil(functional.note(plane, outside, "a"))

        local allowed = { [inside] = true, [also] = true, ["tidelock-system"] = true }
        for _, entry in ipairs(plane.audit:since(mark, "tidelock")) do
            local ref = entry.objectRef
            assert.is_true(ref == nil or allowed[ref.namespace] or false, entry.verb .. " " .. entry.requestURI)
        end
    end)
end)
