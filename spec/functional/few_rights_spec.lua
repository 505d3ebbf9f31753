--- Ownership with few rights, on a server that checks who may set ownerReferences; and a server that goes away.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

functional.describe("ownership with few rights", function()
    local plane, namespace

    setup(function()
        plane = functional.controlplane.start {
            "--no-controller-manager", "--api-arg", "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        }
        widgets.install(plane)
        widgets.remove(plane) -- the kinds stay
        plane:apply_text [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-few}
rules:
- {apiGroups: [x.test], resources: [widgets], verbs: [get, list, watch]}
- {apiGroups: [x.test], resources: [widgets/status], verbs: [get, patch]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-few}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-few}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]
    end)

    teardown(function()
        plane:stop()
    end)

    before_each(function()
        namespace = plane:namespace "few"
    end)

    after_each(function()
        functional.host.stop_all()
        plane.api:json("DELETE", "/api/v1/namespaces/tidelock-system/configmaps?labelSelector=tidelock.dev%2Fscripts%3Dtrue")
        for _, item in ipairs(plane:list "widgets") do
            plane:delete("widgets", item.metadata.namespace, item.metadata.name)
        end
    end)

    local function start(body, rest)
        plane:put_scripts("few", { ["few.lua"] = widgets.script("few", body, rest) })
        local host = functional.host.start { plane = plane, args = { "--grant", "few=/Secret" } }
        host:await_ready()
        plane:create("widgets", namespace, widgets.object("Widget", "w", {}))
        return host
    end

    it("is no reason to prune when the server was away", function()
        start [[
    local all = {}
    for i = 1, 20 do
      all[i] = cm("c" .. i, { a = "1" })
    end
    return { apply = all }]]
        local function count()
            return #plane:list("configmaps", namespace, "labelSelector=tidelock.dev%2Fscript")
        end
        eventually(10, "all children are there", function()
            return count() == 20
        end)
        local mark = plane.audit:mark()
        for _ = 1, 2 do
            plane:component("kube-apiserver", "kill")
            process.sleep(1)
            plane:component("kube-apiserver", "start")
            eventually(20, "the server is back", function()
                return count() == 20
            end)
        end
        plane:create("widgets", namespace, widgets.object("Widget", "again", {}))
        plane:delete("widgets", namespace, "again")
        eventually(40, "the host goes on", function()
            plane:patch("widgets", namespace, "w", { metadata = { annotations = { touched = tostring(process.now()) } } })
            plane:delete("configmaps", namespace, "c1")
            process.sleep(0.3)
            return plane:get("configmaps", namespace, "c1")
        end)
        assert.equal(20, count())
        for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
            assert.not_equal("delete", write.entry.verb, write.text)
        end
    end)

    it("goes without the owner's finalizers subresource: the reference blocks nobody", function()
        local host = start [[
    return { apply = { cm("c", { a = "1" }), { apiVersion = "v1", kind = "Secret", metadata = { name = "s" },
      stringData = { a = "hidden" } } }, status = { phase = "Up" } }]]
        for _, resource in ipairs { "configmaps", "secrets" } do
            local object = eventually(10, "the child is there", function()
                return plane:get(resource, namespace, resource == "secrets" and "s" or "c"), host:log_text():sub(-500)
            end)
            local reference = object.metadata.ownerReferences[1]
            assert.equal("w", reference.name)
            assert.is_true(reference.controller)
            assert.is_nil(reference.blockOwnerDeletion)
        end
        assert.equal(0, #host:log_matching "pass failed", host:log_text())
        assert.is_nil(host:log_text():find("hidden", 1, true))
    end)

    it("makes nothing that needs a finalizer which can not be put on, and says so", function()
        local elsewhere = plane:namespace "few-elsewhere"
        local host = start(([[
    local far = { apiVersion = "v1", kind = "Secret", metadata = { name = "far", namespace = "%s" }, stringData = { a = "b" } }
    return { apply = { far }, status = { phase = "Up" } }]]):format(elsewhere))
        local told = eventually(10, "an Event tells", function()
            local text = plane:events_about("w", namespace)
            return text:find("finalizer", 1, true) and text:find("forbidden", 1, true) and text, text .. host:log_text():sub(-500)
        end)
        assert.truthy(told:find("patch", 1, true), told)
        process.sleep(1)
        assert.is_nil(plane:get("secrets", elsewhere, "far"))
    end)

    it("tells what the server refused as well as why the host could not help it", function()
        plane:apply_text [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-blind}
rules:
- {apiGroups: [x.test], resources: [widgets], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-blind}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-blind}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]
        -- it may patch the status, and not look at it alone
        plane.api:json("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidelock-few",
            [=[[{"op":"replace","path":"/rules/1/verbs","value":["patch"]}]]=], "application/json-patch+json")
        finally(function()
            plane:kubectl { "delete", "clusterrole,clusterrolebinding", "tidelock-blind" }
            plane.api:json("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidelock-few",
                [=[[{"op":"replace","path":"/rules/1/verbs","value":["get","patch"]}]]=], "application/json-patch+json")
        end)
        start [[ return { status = { byName = not o.spec.none and { a = "1" } or nil } } ]]
        local function status()
            return plane:get("widgets", namespace, "w").status
        end
        eventually(10, "the status is there", function()
            return status() and status().byName
        end)
        -- somebody else keeps the map, which would be left with nothing in it
        plane.api:json("PATCH", ("/apis/x.test/v1/namespaces/%s/widgets/w/status?fieldManager=alice"):format(namespace),
            [[{"apiVersion":"x.test/v1","kind":"Widget","metadata":{"name":"w"},"status":{"byName":{}}}]],
            "application/apply-patch+yaml")
        plane:patch("widgets", namespace, "w", { spec = { none = true } })
        eventually(10, "an Event tells both", function()
            local text = plane:events_about("w", namespace)
            return text:find("must be of type object", 1, true) and text:find("cannot get resource", 1, true)
                and text:find("nor could its containers be emptied first", 1, true), text
        end)
        plane.api:json("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidelock-few",
            [=[[{"op":"replace","path":"/rules/1/verbs","value":["get","patch"]}]]=], "application/json-patch+json")
        eventually(30, "it heals with the right", function()
            return status().byName and next(status().byName) == nil
        end)
    end)

    it("does not reach kinds that were not granted", function()
        plane:put_scripts("few", { ["few.lua"] = widgets.script("few", [[
    local secret = { apiVersion = "v1", kind = "Secret", metadata = { name = "s" }, stringData = { a = "b" } }
    return { apply = { cm("c", { a = "1" }), secret } }]]) })
        functional.host.start({ plane = plane }):await_ready()
        plane:create("widgets", namespace, widgets.object("Widget", "w", {}))
        eventually(10, "an Event tells", function()
            local text = plane:events_about("w", namespace)
            return text:find("apply[2]", 1, true) and text:find("--grant", 1, true), text
        end)
        assert.truthy(plane:get("configmaps", namespace, "c"))
        assert.is_nil(plane:get("secrets", namespace, "s"))
    end)
end)
