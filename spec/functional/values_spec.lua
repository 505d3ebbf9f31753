--- Values on their way from the API through a script and back: texts that the server's YAML reader takes amiss, empty lists
-- and maps, integers that no double holds.
local functional = require "spec.functional.support"
local widgets, eventually = functional.widgets, functional.eventually

functional.describe("values", function()
    local plane, namespace, host, mark

    functional.around_widgets("values", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    local function put(body)
        plane:put_scripts("values", { ["values.lua"] = widgets.script("values", body) })
    end

    local function start(body)
        put(body)
        host = functional.host.start { plane = plane }
        host:await_ready()
    end

    -- The Widget w, whose spec is JSON text as it stands.
    local function create(spec)
        mark = plane.audit:mark()
        plane:create("widgets", namespace,
            ('{"apiVersion":"x.test/v1","kind":"Widget","metadata":{"name":"w"},"spec":%s}'):format(spec))
    end

    local function passes()
        return host:metric("controller_runtime_reconcile_total", { controller = "values" }) or 0
    end

    -- Another pass, which has nothing to write; then a new host's first pass.
    local function stays_as_it_is()
        functional.process.sleep(0.5) -- what follows the first pass
        for i = 1, 2 do
            mark = plane.audit:mark()
            local before = passes()
            plane:patch("widgets", namespace, "w", { metadata = { annotations = { touched = tostring(i) } } })
            eventually(5, "the pass is through", function()
                return passes() > before
            end)
            functional.process.sleep(0.3)
            local writes = widgets.writes(plane, mark, namespace)
            assert.equal(0, #writes, functional.audit.describe(writes))
            if i == 1 then
                host:stop()
                host = functional.host.start { plane = plane }
                host:await_ready()
            end
        end
    end

    local function await(resource, name)
        return eventually(10, ("%s %s is there"):format(resource, name), function()
            return plane:get(resource, namespace, name), host:log_text():sub(-600)
        end)
    end

    local function has(text, piece)
        assert(text:find(piece, 1, true), ("%s is not in %s"):format(piece, text))
    end

    local texts = {
        slash = "/", url = "https://h.test/p?a=b&c=d#e", image = "registry.test/a/b", emoji = "\240\159\152\128",
        delete = "a\127b", next_line = "a\194\133b", control = "a\194\129b", line_separator = "a\226\128\168b",
        paragraph_separator = "a\226\128\169b", byte_order_mark = "\239\187\191a\239\187\191", non_character = "a\239\191\191b",
        non_character_2 = "a\239\191\190b", zero = "a\0b", white = "\ta\r\nb\8c\12d\n", empty = "", blank = " ",
        quotes = [["a" 'b' \c]], yaml = "a: b # c\n- d\n---\n...\n", percent = "%YAML 1.1", tilde = "~", number = "012",
        yes = "yes", null = "null", bell = "\7\27", escape = [[\u0041\/\n]], last = "\244\143\191\189",
        private = "\238\128\128", long = ("x"):rep(100000), many_lines = ("line\n"):rep(2000),
    }

    it("are texts that YAML has other rules for", function()
        start [[
    local cm = cm("texts", o.spec.texts)
    cm.metadata.annotations = { ["x.test/a"] = "https://h.test/p", ["x.test/b"] = o.spec.texts.emoji }
    return { apply = { cm, child("Plain", "texts", o.spec) },
      status = { phase = o.spec.texts.next_line .. o.spec.texts.delete .. o.spec.texts.zero } }]]
        create(require("cjson").encode { texts = texts })
        local child = await("configmaps", "texts")
        for name, text in pairs(texts) do
            assert(child.data[name] == text, name .. " has become " .. ("%q"):format(child.data[name] or "nothing"):sub(1, 200))
        end
        assert.equal("https://h.test/p", child.metadata.annotations["x.test/a"])
        assert.equal(texts.emoji, child.metadata.annotations["x.test/b"])
        assert.same(texts, await("plains", "texts").spec.texts)
        eventually(5, "the status is there", function()
            local status = plane:get("widgets", namespace, "w").status
            return status and status.phase == texts.next_line .. texts.delete .. texts.zero
        end)
        stays_as_it_is()
    end)

    it("are keys of any length that YAML reads, and longer ones are named", function()
        start [[
    local m = {}
    for _, n in ipairs(o.spec.lengths) do
      m[("k"):rep(n)] = "v" .. n
    end
    return { apply = { child("Widget", "keys", { m = m }), cm("sibling", { lengths = tostring(#o.spec.lengths) }) } }]]
        create [=[{"lengths":[1,128,900,1000]}]=]
        local child = await("widgets", "keys")
        for _, n in ipairs { 1, 128, 900, 1000 } do
            assert.equal("v" .. n, child.spec.m[("k"):rep(n)])
        end
        plane:patch("widgets", namespace, "w", { spec = { lengths = { 1200 } } })
        host:await_log(10, "pass failed", "Widget keys", "spec.m: the key \\\"kkkkkkkkkk", "(1200 bytes) is longer than 1024 bytes")
        eventually(5, "its sibling goes on", function()
            return plane:get("configmaps", namespace, "sibling").data.lengths == "1"
        end)
        assert.is_nil(plane:get("widgets", namespace, "keys").spec.m[("k"):rep(1200)])
    end)

    it("are keys that the server refuses, which are named with their child", function()
        start [[
    local k = o.spec.key
    return { apply = {
      { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "labels", labels = { [k] = "x" } } },
      { apiVersion = "v1", kind = "ConfigMap", metadata = { name = "annotations", annotations = { [k] = "x" } } },
      cm("data", { [k] = "x" }), cm("sibling", { a = "1" }),
    } }]]
        local key = ("k"):rep(300)
        create(('{"key":"%s"}'):format(key))
        await("configmaps", "sibling")
        host:await_log(10, "pass failed", "/labels: ", "/annotations: ", "/data: ")
        local text = host:log_matching("pass failed", "/data: ")[1].text
        for _, child in ipairs { "labels", "annotations", "data" } do
            has(text, ("/%s: "):format(child))
        end
        for _, why in ipairs { "data[kkkkkkkkkk", "no more than 253" } do
            has(text, why)
        end
        assert.equal(2, select(2, text:gsub("no more than 63", "")), text)
    end)

    it("are empty lists and maps that were read", function()
        plane:create("networkpolicies", namespace, [[{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy",
            "metadata":{"name":"deny"},"spec":{"podSelector":{},"ingress":[],"policyTypes":["Ingress"]}}]])
        start [[
    local policy = world.get("networking.k8s.io/v1/NetworkPolicy", "deny")
    if not policy then return end
    local emptied, grown = k8s.copy(o.spec.any), k8s.copy(o.spec.any)
    table.remove(emptied.one)
    emptied.member.a = nil
    table.insert(grown.nets, "a")
    return {
      apply = { { apiVersion = "networking.k8s.io/v1", kind = "NetworkPolicy", metadata = { name = "copy" },
          spec = policy.spec }, child("Plain", "same", o.spec.any),
        child("Plain", "emptied", emptied), child("Plain", "grown", grown) },
      status = { items = {}, byName = {} },
    }]]
        create [=[{"any":{"nets":[],"sel":{},"nested":[[],{},[[]]],"one":["x"],"member":{"a":1}}}]=]
        assert.same({ "Ingress" }, await("networkpolicies", "copy").spec.policyTypes)
        has(plane:text("networkpolicies", namespace, "copy"), '"podSelector":{}')
        await("plains", "grown")
        local function spec(name)
            return plane:text("plains", namespace, name):match('"spec":(.*)}%s*$')
        end
        assert.equal([=[{"member":{"a":1},"nested":[[],{},[[]]],"nets":[],"one":["x"],"sel":{}}]=], spec "same")
        assert.equal([=[{"member":{},"nested":[[],{},[[]]],"nets":[],"one":[],"sel":{}}]=], spec "emptied")
        assert.equal([=[{"member":{"a":1},"nested":[[],{},[[]]],"nets":["a"],"one":["x"],"sel":{}}]=], spec "grown")
        eventually(5, "the status is there", function()
            local text = plane:text("widgets", namespace, "w")
            return text:find('"items":[]', 1, true) and text:find('"byName":{}', 1, true), text
        end)
        stays_as_it_is()
    end)

    it("are empty tables of a script, typed by the kind's schema", function()
        start [[
    return { apply = { { apiVersion = "v1", kind = "Pod", metadata = { name = "p", labels = {} }, spec = {
      containers = { { name = "c", image = "registry.test/a/b", args = {}, env = {}, securityContext = {}, resources = { limits = {} } } },
      volumes = { { name = "t", emptyDir = {} } }, tolerations = {}, nodeSelector = {} } },
      child("Widget", "typed", { arr = {}, m = {} }) } }]]
        create "{}"
        local pod = await("pods", "p")
        has(plane:text("pods", namespace, "p"), '"emptyDir":{}')
        assert.equal("registry.test/a/b", pod.spec.containers[1].image)
        await("widgets", "typed")
        has(plane:text("widgets", namespace, "typed"), '"spec":{"arr":[],"m":{}}')
        assert.equal("", host:log_matching("pass failed")[1] and host:log_text() or "")
    end)

    it("are maps and lists that had members and have none any more", function()
        start [[ return { apply = { child("Widget", "c", o.spec.child) }, status = o.spec.status } ]]
        create [=[{"child":{"m":{"a":"1"},"arr":["x"],"ratio":1},"status":{"byName":{"a":"1"},"items":["x"]}}]=]
        await("widgets", "c")
        local function await_parts(resource, name, ...)
            local pieces = { ... }
            eventually(10, name .. " is as it should be", function()
                local text = plane:text(resource, namespace, name)
                for _, piece in ipairs(pieces) do
                    if not text:find(piece, 1, true) then
                        return nil, text .. host:log_text():sub(-500)
                    end
                end
                return true
            end)
        end
        await_parts("widgets", "w", '"status":{"byName":{"a":"1"},"items":["x"]}')
        plane:patch("widgets", namespace, "w",
            [=[{"spec":{"child":{"m":{"a":null},"arr":[]},"status":{"byName":{"a":null},"items":[]}}}]=])
        await_parts("widgets", "c", '"m":{}', '"arr":[]', '"ratio":1')
        await_parts("widgets", "w", '"status":{"byName":{},"items":[]}')
        assert.equal(0, #host:log_matching "pass failed", host:log_text())
        stays_as_it_is()
    end)

    it("are a stranger's map whose members are taken and dropped", function()
        start [[
    if o.metadata.name ~= "w" then return nil end
    local object = { apiVersion = "x.test/v1", kind = "Widget", metadata = { name = "hers" }, spec = o.spec.hers }
    return { patch = { { force = true, object = object } } }]]
        plane:create("widgets", namespace,
            [=[{"apiVersion":"x.test/v1","kind":"Widget","metadata":{"name":"hers"},"spec":{"m":{"a":"1"}}}]=])
        local function await_hers(piece)
            eventually(10, piece .. " is in hers", function()
                local text = plane:text("widgets", namespace, "hers")
                return text:find(piece, 1, true), text .. host:log_text():sub(-500)
            end)
        end
        create [=[{"hers":{"m":{"a":"2","b":"2"},"ratio":1}}]=]
        await_hers '"spec":{"m":{"a":"2","b":"2"},"ratio":1}'
        plane:patch("widgets", namespace, "w", [=[{"spec":{"hers":{"m":null}}}]=])
        await_hers '"spec":{"m":{},"ratio":1}'
        assert.equal(0, #host:log_matching "pass failed", host:log_text())
        stays_as_it_is()
    end)

    it("are integers of 64 bits and numbers as JSON has them", function()
        start [[
    local s = o.spec
    return {
      apply = { cm("n", { odd = tostring(s.odd), million = tostring(s.million), sum = tostring(s.million + 1),
          e15 = tostring(s.e15), big = tostring(s.big), joined = "is " .. s.odd }),
        child("Plain", "n", s),
        { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "d" }, spec = { replicas = s.million / 1000000 - 1,
          selector = { matchLabels = { app = "d" } }, template = { metadata = { labels = { app = "d" } }, spec = {
            securityContext = { runAsUser = s.uid }, containers = { { name = "c", image = "c" } } } } } } },
      status = { big = s.big, odd = s.odd, neg = s.neg, half = s.million / 2, ratio = 1.0, any = { small = -s.million, tiny = s.tiny },
        observedGeneration = o.metadata.generation },
    }]]
        create([[{"big":9223372036854775807,"neg":-9223372036854775808,"odd":9007199254740993,"million":1000000,
 "e15":999999999999999,"uid":1000660000,"ratio":1.0,"tiny":1e-7,"exp":1e3,"zero":-0,"any":18446744073709551615}]])
        local child = await("configmaps", "n")
        assert.same({
            odd = "9007199254740993", million = "1000000", sum = "1000001", e15 = "999999999999999",
            big = "9223372036854775807", joined = "is 9007199254740993",
        }, child.data)
        await("plains", "n")
        local function numbers(text)
            local found = {}
            for key, value in text:match('"spec":{(.-)}'):gmatch '"(%w+)":([-+.%w]+)' do
                found[key] = value
            end
            return found
        end
        local text = plane:text("plains", namespace, "n")
        local parent = plane:text("widgets", namespace, "w")
        assert.same(numbers(parent), numbers(text))
        for _, piece in ipairs { '"big":9223372036854775807', '"neg":-9223372036854775808', '"odd":9007199254740993',
            '"million":1000000', '"e15":999999999999999', '"uid":1000660000', } do
            has(text, piece)
        end
        parent = eventually(5, "the status is there", function()
            local now = plane:text("widgets", namespace, "w")
            return now:find('"status"', 1, true) and now
        end)
        for _, piece in ipairs { '"big":9223372036854775807', '"neg":-9223372036854775808', '"odd":9007199254740993',
            '"half":500000', '"ratio":1', '"observedGeneration":1', '"small":-1000000', } do
            has(parent:match '"status":.*', piece)
        end
        assert.equal(1000660000, await("deployments", "d").spec.template.spec.securityContext.runAsUser)
        stays_as_it_is()
    end)

    it("that JSON does not have are errors that name the place, and nothing is written", function()
        start [[
    local values = { nan = 0 / 0, inf = 1 / 0, hole = { "a", nil, "c" }, mixed = { "x", key = "y" }, fn = print or error,
      sparse = { [1] = "x", [1000000] = "y" }, bytes = "\255" }
    return { apply = { cm("before", { a = "1" }) }, status = { phase = "Up", any = { value = values[o.spec.what] } } }]]
        create [[{"what":"nan"}]]
        for _, what in ipairs { "nan", "inf", "hole", "mixed", "fn", "sparse", "bytes" } do
            plane:patch("widgets", namespace, "w", { spec = { what = what } })
            eventually(10, what .. " is refused", function()
                local text = plane:events_about("w", namespace)
                return text:find("status.any.value", 1, true) and select(2, text:gsub("status%.any%.value", "")) >= 1, text
            end)
            functional.process.sleep(0.2)
        end
        assert.is_nil(plane:get("configmaps", namespace, "before"))
        local status = plane:get("widgets", namespace, "w").status or {}
        assert.is_nil(status.phase)
        plane:patch("widgets", namespace, "w", { spec = { what = "fine" } })
        await("configmaps", "before")
    end)
end)
