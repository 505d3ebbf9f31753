--- Where scripts come from, and what happens to the running one when its source changes, breaks or goes.
local functional = require "spec.functional.support"
local eventually, process = functional.eventually, functional.process
local lfs = require "lfs"

functional.describe("scripts", function()
    local plane, namespace

    local function add(name)
        plane:create("memcacheds", namespace, functional.memcached(name))
    end

    local function await_note(seconds, name, text)
        eventually(seconds, ("%s has the note %s"):format(name, text), function()
            local note = functional.note(plane, namespace, name)
            return note == text, note
        end)
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "scripts"
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    describe("of a folder", function()
        local folder

        before_each(function()
            folder = process.temporary_folder()
        end)

        after_each(function()
            process.remove_tree(folder)
        end)

        local function start()
            local host = functional.host.start { plane = plane, args = { "--scripts", folder } }
            host:await_ready()
            return host
        end

        it("follow an editor that replaces the file", function()
            process.write_file(folder .. "/note.lua", functional.note_script("note", "one"))
            start()
            add "a"
            await_note(10, "a", "one")
            process.write_file(folder .. "/.note.lua.new", functional.note_script("note", "two"))
            process.rename(folder .. "/.note.lua.new", folder .. "/note.lua")
            await_note(3, "a", "two")
        end)

        it("follow an editor that writes into the file", function()
            process.write_file(folder .. "/note.lua", functional.note_script("note", "one"))
            start()
            add "a"
            await_note(10, "a", "one")
            process.write_file(folder .. "/note.lua", functional.note_script("note", "two"))
            await_note(3, "a", "two")
        end)

        -- A mounted ConfigMap: note.lua -> ..data/note.lua, ..data -> a folder of this version, swapped by a rename.
        it("follow the symlink swap of a mounted volume", function()
            local function version(name, text)
                assert(lfs.mkdir(folder .. "/" .. name))
                process.write_file(folder .. "/" .. name .. "/note.lua", functional.note_script("note", text))
                assert(lfs.link(name, folder .. "/..data_tmp", true))
                process.rename(folder .. "/..data_tmp", folder .. "/..data")
            end
            version("..2026_01", "one")
            assert(lfs.link("..data/note.lua", folder .. "/note.lua", true))
            start()
            add "a"
            await_note(10, "a", "one")
            version("..2026_02", "two")
            process.remove_tree(folder .. "/..2026_01")
            await_note(3, "a", "two")
        end)

        it("come and go with their files", function()
            start()
            add "a"
            process.write_file(folder .. "/note.lua", functional.note_script("note", "late"))
            await_note(5, "a", "late")
            os.remove(folder .. "/note.lua")
            functional.process.sleep(2)
            add "b"
            functional.always(2, "b has no note", function()
                return functional.note(plane, namespace, "b") == nil
            end)
            assert.equal("late", functional.note(plane, namespace, "a"))
        end)

        it("keep the running version when the new one does not compile", function()
            process.write_file(folder .. "/note.lua", functional.note_script("note", "one"))
            local host = start()
            add "a"
            await_note(10, "a", "one")
            process.write_file(folder .. "/note.lua", "return {\n  subject = = 1\n}\n")
            host:await_log(3, "note.lua:2")
            add "b"
            await_note(5, "b", "one")
        end)
    end)

    describe("of a ConfigMap", function()
        local host

        before_each(function()
            plane:put_scripts("notes", { ["note.lua"] = functional.note_script("note", "one") })
            host = functional.host.start { plane = plane }
            host:await_ready()
            add "a"
            await_note(10, "a", "one")
        end)

        it("are swapped within a second, between passes", function()
            plane:put_scripts("notes", { ["note.lua"] = functional.note_script("note", "two") })
            await_note(2, "a", "two")
        end)

        it("keep the running version when the new one does not compile, and say so", function()
            plane:put_scripts("notes", { ["note.lua"] = "return {\n  subject = = 1\n}\n" })
            host:await_log(3, "notes", "note.lua:2")
            eventually(5, "an Event on the ConfigMap names the line", function()
                local told = plane:events_about "notes"
                return told:find("Warning", 1, true) and told:find("note.lua:2", 1, true), told
            end)
            add "b"
            await_note(5, "b", "one")
        end)

        it("keep the running version when the new one's table is wrong, and say what is", function()
            plane:put_scripts("notes", {
                ["note.lua"] = 'return { name = "note", subject = "cache.example.com/v1alpha1/Memcached" }',
            })
            host:await_log(3, "notes", "reconcile")
            eventually(5, "an Event on the ConfigMap names the field", function()
                local told = plane:events_about "notes"
                return told:find("reconcile", 1, true), told
            end)
            add "b"
            await_note(5, "b", "one")
        end)

        it("stop with the ConfigMap and leave their children", function()
            plane:delete("configmaps", "tidelock-system", "notes")
            functional.process.sleep(2)
            add "b"
            functional.always(2, "b has no note", function()
                return functional.note(plane, namespace, "b") == nil
            end)
            assert.equal("one", functional.note(plane, namespace, "a"))
        end)

        it("stop when the label goes", function()
            plane:patch("configmaps", "tidelock-system", "notes",
                { metadata = { labels = { ["tidelock.dev/scripts"] = functional.null } } })
            functional.process.sleep(2)
            add "b"
            functional.always(2, "b has no note", function()
                return functional.note(plane, namespace, "b") == nil
            end)
            plane:delete("configmaps", "tidelock-system", "notes")
        end)

        it("of the same name: the older ConfigMap's runs, the other is refused and both are named", function()
            functional.process.sleep(1.1) -- creation times have whole seconds
            plane:put_scripts("younger", { ["note.lua"] = functional.note_script("note", "usurped") })
            host:await_log(5, "notes", "younger")
            eventually(5, "an Event on the younger ConfigMap names the older", function()
                local told = plane:events_about "younger"
                return told:find("notes", 1, true), told
            end)
            add "b"
            await_note(5, "b", "one")
            assert.equal("one", functional.note(plane, namespace, "a"))

            plane:delete("configmaps", "tidelock-system", "notes")
            await_note(10, "a", "usurped")
        end)

        it("find modules among the other keys", function()
            local script = functional.note_script("note", "replaced", 'local words = require "words"')
                :gsub('text = "replaced"', "text = words.greeting")
            plane:put_scripts("notes", {
                ["note.lua"] = script,
                ["words.lua"] = 'return { greeting = "hello" }',
            })
            await_note(3, "a", "hello")
            plane:put_scripts("notes", {
                ["note.lua"] = script,
                ["words.lua"] = 'return { greeting = "good day" }',
            })
            await_note(3, "a", "good day")
        end)
    end)

    describe("and their rights", function()
        it("never reach a Secret that the host's configuration does not grant", function()
            plane:put_scripts("notes", {
                ["note.lua"] = functional.note_script("note", "stolen", 'world.list("v1/Secret")'),
                ["other.lua"] = functional.note_script("other", "fine"):gsub("%-note", "-other"),
            })
            local host = functional.host.start { plane = plane }
            host:await_ready()
            add "a"
            host:await_log(10, "note", "Secret")
            eventually(10, "the other script works", function()
                return plane:get("configmaps", namespace, "a-other")
            end)
            assert.is_nil(functional.note(plane, namespace, "a"))
            for _, entry in ipairs(plane.audit:since(0, "tidelock")) do
                assert.not_equal("secrets", (entry.objectRef or {}).resource)
            end
        end)

        for _, refused in ipairs { "default", "kube-system" } do
            it("are not taken from the namespace " .. refused, function()
                local host = functional.host.start({ plane = plane, args = { "--scripts-namespace", refused } })
                    :expect_failure()
                assert.same({ code = 2 }, host:await_exit(5))
                assert.equal(1, #host:log_matching("--scripts-namespace", refused))
            end)
        end
    end)
end)
