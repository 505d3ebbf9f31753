--- The tools of the functional specs themselves: a control plane whose parts work, an audit log to be read at once.
local functional = require "spec.functional.support"
local eventually = functional.eventually

functional.describe("control plane", function()
    local plane, namespace

    setup(function()
        plane = functional.controlplane.shared()
        namespace = plane:namespace "plane"
    end)

    it("makes a Deployment available and collects what it owns", function()
        plane:apply_text([[
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
]], namespace)
        eventually(20, "two replicas are available", function()
            return plane:get("deployments", namespace, "web").status.availableReplicas == 2
        end)
        plane:delete("deployments", namespace, "web")
        eventually(60, "the pods are gone", function()
            return #plane:list("pods", namespace, "labelSelector=app%3Dweb") == 0
        end)
    end)

    it("gives the host's user the rights of host-rbac.yaml and no others", function()
        local function may(verb, resource)
            local args = { "auth", "can-i", verb, resource, "--all-namespaces", "--as=tidelock" }
            local ok, answer = pcall(plane.kubectl, plane, args)
            return ok and answer:match "^yes" ~= nil
        end
        assert.is_true(may("patch", "deployments.apps"))
        assert.is_true(may("watch", "memcacheds.cache.example.com"))
        assert.is_false(may("get", "secrets"))
        assert.is_false(may("create", "pods"))
        assert.is_false(may("delete", "memcacheds.cache.example.com"))
        assert.is_false(may("patch", "widgets.bench.tidelock.dev"))
    end)

    it("tells who wrote what as soon as it is answered", function()
        local mark = plane.audit:mark()
        plane:create("configmaps", namespace, { metadata = { name = "audited" } })
        local writes = plane.audit:writes_since(mark, "admin")
        assert.equal(1, #writes)
        assert.equal(("create configmaps %s/audited 201"):format(namespace), writes[1].text)
        assert.equal(0, #plane.audit:writes_since(mark))
    end)

    it("admits the administrator's client certificate", function()
        local code, printed = functional.process.run {
            "curl", "-sS", "--noproxy", "*", "--cacert", plane.dir .. "/pki/ca.crt",
            "--cert", plane.dir .. "/pki/admin.crt", "--key", plane.dir .. "/pki/admin.key",
            plane.server .. "/api/v1/namespaces/default",
        }
        assert.equal(0, code)
        assert.truthy(printed:find '"name": "default"')
    end)
end)

functional.describe("a fresh control plane", function()
    local plane

    setup(function()
        plane = functional.controlplane.start { "--no-controller-manager" }
    end)

    teardown(function()
        plane:stop()
    end)

    it("keeps its data when the API server goes and comes back", function()
        plane:create("configmaps", "default", { metadata = { name = "kept" } })
        plane:component("kube-apiserver", "kill")
        assert.is_nil((plane.api:request("GET", "/readyz")))
        plane:component("kube-apiserver", "start")
        assert.truthy(plane:get("configmaps", "default", "kept"))
    end)
end)

describe("processes of the specs", function()
    local process = functional.process

    it("report the code, the signal and the output of a program", function()
        local code, printed, complained = process.run({ "sh", "-c", "cat; echo no >&2; exit 3" }, { input = "yes" })
        assert.same({ 3, "yes", "no\n" }, { code, printed, complained })
        local child = process.start({ "sleep", "100" }, { stdout = "/dev/null" })
        assert.is_nil(child:status())
        child:signal "TERM"
        assert.same({ signal = 15 }, child:wait(5))
    end)

    it("end a program that takes too long", function()
        assert.is_nil((process.run({ "sleep", "100" }, { timeout = 0.1 })))
    end)
end)
