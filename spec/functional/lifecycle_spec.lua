--- From the first pass to the last: subjects without a status, what each form of result means for the children that are
-- there, and namespaces that go and come back.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

functional.describe("lifecycle", function()
    local plane, namespace, host, mark

    functional.around_widgets("lifecycle", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    local function put(body, rest)
        plane:put_scripts("life", { ["life.lua"] = widgets.script("life", body, rest) })
    end

    local function start()
        host = functional.host.start { plane = plane }
        host:await_ready()
        mark = plane.audit:mark()
    end

    local function create(name, spec, where)
        return plane:create("widgets", where or namespace, widgets.object("Widget", name, spec or {}))
    end

    local function children(name, where)
        local found = {}
        for _, item in ipairs(plane:list("configmaps", where or namespace)) do
            local own = item.metadata.name:sub(1, #name + 1) == name .. "-"
            found[#found + 1] = own and item.metadata.name:sub(#name + 2) or nil
        end
        table.sort(found)
        return table.concat(found, " ")
    end

    -- NAME -> { what the script does after it has made three children, the children then, what an Event says }
    local results = {
        ["no-return"] = { "return", "a b c" },
        ["nothing"] = { "return nil", "a b c" },
        ["empty"] = { "return {}", "a b c" },
        ["status"] = { "return { status = { phase = 'Up' } }", "a b c" },
        ["nil-apply"] = { "return { apply = nil, status = { phase = 'Up' } }", "a b c" },
        ["none"] = { "return { apply = {} }", "" },
        ["fewer"] = { "return { apply = { all[1], all[3] } }", "a c" },
        ["text"] = { "return 'ok'", "a b c", "reconcile returned" },
        ["false"] = { "return false", "a b c", "reconcile returned false" },
        ["number"] = { "return 42", "a b c", "reconcile returned 42" },
        ["two"] = { "return { apply = { all[1] } }, 2", "a" },
        ["map"] = { "return { apply = { a = all[1] } }", "a b c", "apply" },
        ["hole"] = { "return { apply = { all[1], nil, all[3] } }", "a b c", "apply[2]" },
        ["no-kind"] = { "all[3].kind = nil return { apply = all }", "a b c", "kind" },
        ["no-name"] = { "all[3].metadata.name = nil return { apply = all }", "a b c", "apply[3].metadata.name" },
        ["twins"] = { "all[3] = all[1] return { apply = all }", "a b c", "apply[1]" },
        ["generated"] = { "all[3].metadata = { generateName = 'x-' } return { apply = all }", "a b c", "generateName" },
        ["tenant"] = { "all[3].metadata.namespace = 'no-such-namespace' return { apply = all }", "a b", "no-such-namespace" },
        ["raised-nil"] = { "error()", "a b c", "ScriptError" },
        ["raised-table"] = { "error({ code = 7 })", "a b c", "ScriptError" },
        ["raised-much"] = { "error(('x'):rep(1024 * 1024))", "a b c", "xxx" },
        ["raised-bytes"] = { "error('a\\255b', 0)", "a b c", "a" },
    }

    it("of children ends by a complete list without them, and by nothing else", function()
        local cases = {}
        for name, row in pairs(results) do
            cases[#cases + 1] = ("if o.metadata.name == %q then do %s end end"):format(name, row[1])
        end
        table.sort(cases)
        put([[
    local all = {}
    for i, letter in ipairs { "a", "b", "c" } do
      all[i] = cm(o.metadata.name .. "-" .. letter, { a = "1" })
    end
    if not o.spec.now then
      return { apply = all }
    end
]] .. table.concat(cases, "\n"))
        start()
        for name in pairs(results) do
            create(name)
        end
        for name in pairs(results) do
            eventually(20, "the children of " .. name .. " are there", function()
                return children(name) == "a b c", children(name)
            end)
        end
        for name in pairs(results) do
            plane:patch("widgets", namespace, name, { spec = { now = true } })
        end
        for name, row in pairs(results) do
            if row[3] then
                eventually(20, name .. " is told", function()
                    local told = plane:events_about(name, namespace)
                    return told:find(row[3], 1, true), told .. host:log_text():sub(-500)
                end)
            end
        end
        process.sleep(1.5)
        for name, row in pairs(results) do
            assert.equal(row[2], children(name), name)
        end
        for _, item in ipairs(plane:list("events", namespace)) do
            assert.is_true(#item.message <= 1024)
        end
    end)

    it("begins without a status; the end does not wait for a pass that can not work", function()
        local finalize = [[
  finalize = function(o)
    return { done = true }
  end,]]
        put([[ return { status = {} } ]], finalize)
        start()
        create "going"
        eventually(10, "it has a finalizer", function()
            return #(plane:get("widgets", namespace, "going").metadata.finalizers or {}) == 1
        end)
        host:stop()
        plane:delete("widgets", namespace, "going")
        put([[ return { status = { phase = o.status.phase } } ]], finalize)
        for i = 1, 4 do
            create("w" .. i)
        end
        start()
        eventually(10, "the one that was being deleted is gone", function()
            return not plane:get("widgets", namespace, "going")
        end)
        for i = 1, 4 do
            eventually(10, "the error and its line are told", function()
                local told = plane:events_about("w" .. i, namespace)
                return told:find("life.lua:%d+:.*status"), told
            end)
        end
        put([[ return { status = { phase = o.status and o.status.phase or "New" } } ]], finalize)
        for i = 1, 4 do
            eventually(5, "it is healed", function()
                return plane:get("widgets", namespace, "w" .. i).status.phase == "New"
            end)
        end
    end)

    it("in a namespace that goes and comes back at once is another one with the same names", function()
        local elsewhere = plane:namespace "lifecycle-far"
        put(([[
    local far = cm("far-" .. o.metadata.name, { uid = o.metadata.uid })
    far.metadata.namespace = "%s"
    return { apply = { cm(o.metadata.name .. "-near", { uid = o.metadata.uid }), far } }]]):format(elsewhere), [[
  finalize = function(o)
    if o.metadata.name == "w3" then
      return { apply = { cm("late", { a = "1" }) }, done = true }
    end
    return { done = true }
  end,]])
        local where = namespace .. "-t"
        plane:create("namespaces", nil, { metadata = { name = where } })
        start()
        local function await_served(old)
            local uids = {}
            for i = 1, 5 do
                local name = "w" .. i
                local uid = plane:get("widgets", where, name).metadata.uid
                assert.not_equal(old and old[name], uid)
                uids[name] = uid
                eventually(20, name .. " has its children", function()
                    local near, far = plane:get("configmaps", where, name .. "-near"), plane:get("configmaps", elsewhere, "far-" .. name)
                    return near and far and near.data.uid == uid and far.data.uid == uid, host:log_text():sub(-500)
                end)
            end
            return uids
        end
        for i = 1, 5 do
            create("w" .. i, {}, where)
        end
        local old = await_served()
        host:stop()
        plane:delete("namespaces", nil, where) -- it is going when the host starts
        eventually(10, "the subjects are being deleted", function()
            return plane:get("widgets", where, "w5").metadata.deletionTimestamp
        end)
        start()
        eventually(30, "the namespace is gone", function()
            return not plane:get("namespaces", nil, where), host:log_text():sub(-1000)
        end)
        plane:create("namespaces", nil, { metadata = { name = where } })
        for i = 1, 5 do
            create("w" .. i, {}, where)
        end
        await_served(old)
        for i = 1, 5 do
            assert.is_nil(plane:get("widgets", where, "w" .. i).metadata.deletionTimestamp)
        end
        local attempts = 0
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            local ref = write.entry.objectRef or {}
            attempts = attempts + (ref.namespace == where and ref.name == "late" and 1 or 0)
        end
        assert.is_true(attempts <= 10, attempts .. " attempts at the late child")
        for i = 1, 5 do
            plane:delete("widgets", where, "w" .. i)
        end
        eventually(15, "nothing is left", function()
            return #plane:list("widgets", where) == 0 and children("far", elsewhere) == ""
        end)
        plane:delete("namespaces", nil, where)
    end)
end)
