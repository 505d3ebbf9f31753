--- Trouble from outside: servers that are not there, wrong settings, scripts that misbehave.
local functional = require "spec.functional.support"
local eventually, process = functional.eventually, functional.process

functional.describe("wrong settings", function()
    local plane, folder

    setup(function()
        plane = functional.controlplane.shared()
        folder = process.temporary_folder()
    end)

    teardown(function()
        process.remove_tree(folder)
    end)

    after_each(function()
        functional.host.stop_all()
    end)

    -- A kubeconfig that is right but for what the spec changes in its text.
    local function kubeconfig(name, source, pattern, replacement)
        local text = process.read_file(plane:kubeconfig(source))
        local changed, count = text:gsub("pki/", plane.dir .. "/pki/"):gsub(pattern, replacement)
        assert(count > 0, "nothing to change in " .. text)
        local path = folder .. "/" .. name
        process.write_file(path, changed)
        return path
    end

    -- The host ends with 2 after one line that is no ordinary log line and contains all the texts.
    local function refused(options, ...)
        options.plane = plane
        local host = functional.host.start(options):expect_failure()
        assert.same({ code = 2 }, host:await_exit(15))
        local complaints = {}
        for _, line in ipairs(host:log_lines()) do
            local level = line.fields and line.fields.level
            if not line.fields or level == "error" then
                complaints[#complaints + 1] = line.text
            end
        end
        assert.equal(1, #complaints, table.concat(complaints, "\n"))
        for _, text in ipairs { ... } do
            assert.truthy(complaints[1]:find(text, 1, true), complaints[1] .. " does not name " .. text)
        end
    end

    it("a kubeconfig that does not exist", function()
        refused({ kubeconfig = "/nonexistent/config" }, "/nonexistent/config")
    end)

    it("a kubeconfig that is no YAML", function()
        local path = folder .. "/broken"
        process.write_file(path, "apiVersion: v1\nclusters: [\n")
        refused({ kubeconfig = path }, path)
    end)

    it("a context that the file does not have", function()
        refused({ args = { "--context", "elsewhere" } }, plane:kubeconfig(), "context", "elsewhere")
    end)

    it("a cluster that the context names and the file does not have", function()
        local path = kubeconfig("no-cluster", "host", "cluster: specs", "cluster: lost")
        refused({ kubeconfig = path }, path, "cluster", "lost")
    end)

    it("a server that is no URL", function()
        local path = kubeconfig("no-url", "host", "https://127", "https//127")
        refused({ kubeconfig = path }, path, "server")
    end)

    it("a certificate authority that is not a file", function()
        local path = kubeconfig("no-ca", "host", "ca%.crt", "lost.crt")
        refused({ kubeconfig = path }, path, "certificate-authority", "lost.crt")
    end)

    it("a certificate authority that did not sign the server's certificate", function()
        local path = kubeconfig("wrong-ca", "host", "ca%.crt", "admin.crt")
        refused({ kubeconfig = path }, path, "certificate-authority")
    end)

    it("a client key that does not fit the certificate", function()
        local path = kubeconfig("wrong-key", "cert", "admin%.key", "apiserver.key")
        refused({ kubeconfig = path }, path, "client-key")
    end)

    it("a client certificate that is not a file", function()
        local path = kubeconfig("no-certificate", "cert", "admin%.crt", "lost.crt")
        refused({ kubeconfig = path }, path, "client-certificate", "lost.crt")
    end)

    it("a token that the server does not know", function()
        local path = kubeconfig("wrong-token", "host", "token: %x+", "token: 0123")
        refused({ kubeconfig = path }, path, "token")
    end)

    it("an option that does not exist", function()
        local host = functional.host.start({ plane = plane, args = { "--no-such-option" } }):expect_failure()
        assert.same({ code = 2 }, host:await_exit(5))
        assert.truthy(host:log_text():find("--no-such-option", 1, true))
    end)

    it("ceilings of a pass that make no sense", function()
        refused({ args = { "--max-pass-cpu", "50ms" } }, "--max-pass-cpu 50ms", "from 100ms to 1m")
        refused({ args = { "--max-pass-memory", "64MB" } }, "--max-pass-memory 64MB", "from 16Mi to 1Gi")
        refused({ args = { "--max-pass-cpu", "20s" } }, "--max-pass-cpu must not be more than --script-cpu")
        refused({ args = { "--script-cpu", "1s", "--max-pass-cpu", "1001ms" } }, "--max-pass-cpu must not be more")
    end)

    it("a folder of scripts that does not exist", function()
        refused({ args = { "--scripts", "/nonexistent/scripts" } }, "--scripts", "/nonexistent/scripts")
    end)
end)

functional.describe("ways to the server", function()
    local plane, folder

    setup(function()
        plane = functional.controlplane.shared()
        folder = process.temporary_folder()
    end)

    teardown(function()
        process.remove_tree(folder)
    end)

    after_each(function()
        functional.host.stop_all()
    end)

    it("a client certificate", function()
        functional.host.start({ plane = plane, kubeconfig = plane:kubeconfig "cert" }):await_ready()
    end)

    it("KUBECONFIG with several paths, one of them missing, and a context of the second", function()
        functional.host.start({
            plane = plane,
            kubeconfig = false,
            args = { "--context", "host" },
            env = { KUBECONFIG = ("/nonexistent:%s:%s"):format(plane:kubeconfig "cert", plane:kubeconfig "host") },
        }):await_ready()
    end)

    it("~/.kube/config", function()
        assert(require("lfs").mkdir(folder .. "/.kube"))
        local text = process.read_file(plane:kubeconfig()):gsub("pki/", plane.dir .. "/pki/")
        process.write_file(folder .. "/.kube/config", text)
        functional.host.start({ plane = plane, kubeconfig = false, env = { HOME = folder } }):await_ready()
    end)

    it("--server in place of the file's", function()
        local text = process.read_file(plane:kubeconfig())
            :gsub("pki/", plane.dir .. "/pki/"):gsub("https://[%d.:]+", "https://127.0.0.1:1")
        process.write_file(folder .. "/other-server", text)
        functional.host.start({
            plane = plane, kubeconfig = folder .. "/other-server", args = { "--server", plane.server },
        }):await_ready()
    end)

    it("a token in a file", function()
        local text = process.read_file(plane:kubeconfig())
            :gsub("pki/", plane.dir .. "/pki/"):gsub("token: %x+", "tokenFile: " .. plane.dir .. "/host.token")
        process.write_file(folder .. "/token-file", text)
        functional.host.start({ plane = plane, kubeconfig = folder .. "/token-file" }):await_ready()
    end)
end)

functional.describe("a server that comes later", function()
    local plane

    setup(function()
        plane = functional.controlplane.start { "--no-controller-manager", "--crds", "operators/memcached/crd.yaml" }
    end)

    teardown(function()
        plane:stop()
    end)

    after_each(function()
        functional.host.stop_all()
    end)

    it("is tried again and again, and then served", function()
        plane:put_scripts("notes", { ["note.lua"] = functional.note_script("note", "one") })
        plane:create("memcacheds", "default", functional.memcached "waiting")
        plane:component("kube-apiserver", "kill")

        local host = functional.host.start { plane = plane }
        host:await_log(10, plane.server:match "https://(.*)")
        process.sleep(1)
        assert.is_true(host:running())
        assert.equal(200, (host.admin:request("GET", "/healthz")))
        assert.not_equal(200, (host.admin:request("GET", "/readyz")))

        plane:component("kube-apiserver", "start")
        eventually(40, "the subject that waited is served", function()
            return functional.note(plane, "default", "waiting") == "one"
        end)
        host:await_ready()
    end)

    it("may go away and come back while the host runs", function()
        local host = functional.host.start { plane = plane }
        host:await_ready()
        plane:component("kube-apiserver", "kill")
        process.sleep(1)
        assert.is_true(host:running())
        plane:component("kube-apiserver", "start")
        plane:create("memcacheds", "default", functional.memcached "afterwards")
        eventually(40, "a subject made afterwards is served", function()
            return functional.note(plane, "default", "afterwards") == "one"
        end)
    end)
end)

functional.describe("trouble of one script", function()
    local plane, namespace, host

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "trouble"
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    -- Starts the host with a good script beside a bad one.
    local function start(name, bad)
        plane:put_scripts("good", { ["good.lua"] = functional.note_script("good", "fine") })
        plane:put_scripts("bad", { [name .. ".lua"] = bad })
        host = functional.host.start { plane = plane }
        host:await_ready()
    end

    local function add_and_await(name)
        plane:create("memcacheds", namespace, functional.memcached(name))
        eventually(10, "the good script serves " .. name, function()
            return functional.note(plane, namespace, name) == "fine"
        end)
    end

    it("a kind the host has no rights on: the script says so, the others run", function()
        start("jobs", [[
return {
  name = "jobs",
  subject = "batch/v1/Job",
  reconcile = function(job, world) return nil end,
}
]])
        add_and_await "a"
        host:await_log(15, "jobs", "batch/v1/Job")
        eventually(15, "an Event on the ConfigMap says so", function()
            local told = plane:events_about "bad"
            return told:find("batch/v1/Job", 1, true), told
        end)
        add_and_await "b"
    end)

    it("a kind that does not exist yet: the script waits and starts when it comes", function()
        local group = "late" .. namespace:match "%-(.*)" .. ".example.com"
        start("late", ([[
return {
  name = "late",
  subject = "%s/v1/Late",
  reconcile = function(late, world)
    return { apply = { {
      apiVersion = "v1", kind = "ConfigMap", metadata = { name = late.metadata.name .. "-late" }, data = { a = "b" },
    } } }
  end,
}
]]):format(group))
        add_and_await "a"
        assert.is_true(host:running())

        local kind_and_rights = ([[
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lates.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: lates, singular: late, kind: Late}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: GROUP}
rules:
- {apiGroups: [GROUP], resources: [lates, lates/finalizers], verbs: [get, list, watch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: GROUP}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: GROUP}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]):gsub("GROUP", group)
        plane:apply_text(kind_and_rights)
        plane:kubectl { "wait", "--for=condition=Established", "crd/lates." .. group, "--timeout=30s" }
        plane:apply_text(("apiVersion: %s/v1\nkind: Late\nmetadata: {name: one}\n"):format(group), namespace)
        eventually(60, "the late kind's subject is served", function()
            return plane:get("configmaps", namespace, "one-late")
        end)
        plane:kubectl { "delete", "crd", "lates." .. group }
    end)

    local nonsense = {
        ["that raises"] = 'error("boom")',
        ["that raises a table"] = "error({ code = 1 })",
        ["that indexes nil"] = "local x = memcached.status.nothing.there",
        ["that loops for ever"] = "while true do end",
        ["that loops inside pcall"] = "while true do pcall(function() while true do end end) end",
        ["that eats memory"] = 'local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000) .. i end',
        ["that recurses"] = "local function f() return 1 + f() end f()",
        ["that returns a number"] = "do return 42 end",
        ["that returns a text to apply"] = 'do return { apply = "everything" } end',
        ["that returns a child without a kind"] = 'do return { apply = { { metadata = { name = "x" } } } } end',
        ["that returns a child without a name"] =
            'do return { apply = { { apiVersion = "v1", kind = "ConfigMap", metadata = {} } } } end',
        ["that returns a function"] = 'do return { status = { f = function() end } } end',
        ["that returns a cycle"] = "do local t = {} t.t = t return { status = t } end",
    }
    local names = {}
    for name in pairs(nonsense) do
        names[#names + 1] = name
    end
    table.sort(names)

    local function keys_of(map)
        local found = {}
        for key in pairs(map or {}) do
            found[#found + 1] = key
        end
        table.sort(found)
        return found
    end

    for _, name in ipairs(names) do
        it("a script " .. name .. " backs off and writes nothing, the rest goes on", function()
            start("bad", (functional.note_script("bad", "bad", nonsense[name]):gsub("%-note", "-bad")))
            local mark = plane.audit:mark()
            add_and_await "a"
            host:await_log(10, "bad", '"error"')
            process.sleep(2)
            add_and_await "b"
            assert.is_nil(plane:get("configmaps", namespace, "a-bad"))
            -- the host's own report is all there is
            local status = (plane:get("memcacheds", namespace, "a") or {}).status
            assert.same({ "conditions" }, keys_of(status))
            assert.same(1, #status.conditions)
            assert.same("Reconciled", status.conditions[1].type)
            for _, write in ipairs(plane.audit:writes_since(mark)) do
                local resource, written = write.entry.objectRef.resource, write.entry.objectRef.name
                assert.is_true(resource == "events" or written == "a-note" or written == "b-note"
                    or write.entry.objectRef.subresource == "status"
                    or write.entry.objectRef.namespace == "tidelock-system", write.text)
            end
            -- 5 ms doubled each time gives about ten attempts in the first three seconds
            local failures = host:metric("controller_runtime_reconcile_errors_total", { controller = "bad" })
            assert.is_true(failures >= 1 and failures <= 40, failures .. " failed passes")
            assert.is_true(host:running())
        end)
    end
end)
