--- A namespace that is deleted does not get stuck on subjects whose scripts can not or will not finish.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

-- For each Widget of its own: a ConfigMap NAME and a cluster-scoped child NAMESPACE-NAME; with a hook that says when it is
-- done.
local script = [[
local k8s = require "tidelock"
return {
  name = "%s",
  subject = "x.test/v1/Widget",
  selector = "app=%s",
  reconcile = function(o)
    return { apply = {
      { apiVersion = "v1", kind = "ConfigMap", metadata = { name = o.metadata.name } },
      { apiVersion = "rbac.authorization.k8s.io/v1", kind = "ClusterRole",
        metadata = { name = o.metadata.namespace .. "-" .. o.metadata.name }, rules = k8s.array {} } } }
  end,
  finalize = function() return { done = %s } end,
  %s
}
]]

local rights = [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-roles}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-roles}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-roles}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]

functional.describe("a namespace that is deleted", function()
    local plane, host

    functional.around_widgets("terminating", function(its_plane)
        plane = its_plane
        plane:apply_text(rights)
    end)

    after_each(function()
        plane:kubectl { "delete", "clusterrolebinding,clusterrole", "tidelock-roles" }
    end)

    local function put(name, done, rest)
        plane:put_scripts(name, {
            [name .. ".lua"] = script:format(name, name, done, rest or ""),
        })
    end

    local function finalizers(where, name)
        local object = plane:get("widgets", where, name)
        return object and #(object.metadata.finalizers or {})
    end

    local function await_told(where, ...)
        for _, text in ipairs { ... } do
            eventually(5, "an Event in `default` says " .. text, function()
                local told = plane:events_about(where, "default")
                return told:find(text, 1, true), told
            end)
            assert.is_true(#host:log_matching(text) > 0)
        end
    end

    local names = { "quick", "waits", "never", "paused", "removed" }

    it("goes, and who was not waited for is said", function()
        local where = "terminating-" .. math.floor(process.now())
        plane:create("namespaces", nil, { metadata = { name = where } })
        local grants = {}
        for _, name in ipairs(names) do
            grants[#grants + 1] = "--grant"
            grants[#grants + 1] = name .. "=rbac.authorization.k8s.io/ClusterRole"
        end
        put("quick", "true")
        put("waits", "true")
        put("never", "false", 'finalize_timeout = "8s",')
        put("paused", "true")
        put("removed", "true")
        host = functional.host.start { plane = plane, args = grants }
        host:await_ready()
        for _, name in ipairs(names) do
            local object = widgets.object("Widget", name, {})
            object.metadata.labels = { app = name }
            plane:create("widgets", where, object)
        end
        for _, name in ipairs(names) do
            eventually(15, name .. " has its child and finalizer", function()
                return finalizers(where, name) == 1 and plane:get("clusterroles", nil, where .. "-" .. name),
                    host:log_text():sub(-500)
            end)
        end
        plane:patch("widgets", where, "paused", { metadata = { annotations = { ["tidelock.dev/paused"] = "true" } } })
        local foreign = { metadata = { finalizers = { "x.test/hers" } } }
        plane:patch("configmaps", where, "quick", foreign) -- a child that nobody waits for: the collector takes it
        plane:patch("clusterroles", nil, where .. "-waits", foreign)
        plane:delete("configmaps", "tidelock-system", "removed")
        host:await_log(15, "tidelock release removed")

        plane:delete("namespaces", nil, where)
        eventually(10, "the one that can finish does", function()
            return not finalizers(where, "quick")
        end)
        assert.equal(1, finalizers(where, "never"))
        assert.equal(1, finalizers(where, "waits"))
        plane:patch("configmaps", where, "quick", { metadata = { finalizers = functional.null } })
        plane:patch("clusterroles", nil, where .. "-waits", { metadata = { finalizers = functional.null } })
        eventually(5, "its child is gone, and so is it", function()
            return not finalizers(where, "waits")
        end)
        eventually(60, "the namespace is gone", function()
            return not plane:get("namespaces", nil, where), host:log_text():sub(-1000)
        end)
        await_told(where, "Widget " .. where .. "/never: the namespace is being deleted",
            "finalize does not return done = true", "Widget " .. where .. "/paused: the namespace is being deleted",
            "it is paused by the annotation tidelock.dev/paused",
            "Widget " .. where .. "/removed: the namespace is being deleted, so the finalizer of script tidelock-system/removed")
        local told = plane:events_about(where, "default")
        for _, name in ipairs { "quick", "waits" } do
            assert.is_nil(told:find("/" .. name, 1, true), told)
        end
        for _, name in ipairs { "quick", "waits", "never", "paused" } do
            assert.is_nil(plane:get("clusterroles", nil, where .. "-" .. name), name)
        end
        for _, name in ipairs { "never", "paused", "removed" } do
            assert.equal(1, host:metric("tidelock_deletions_given_up_total", { script = name }))
        end

        -- what a removed script made elsewhere stays until somebody decides
        assert.is_table(plane:get("clusterroles", nil, where .. "-removed"))
        host:stop()
        local code, printed, complained = process.run {
            functional.host.binary(), "release", "--kubeconfig", plane:kubeconfig "admin", "removed",
        }
        assert.equal(0, code, printed .. complained)
        plane:delete("clusterroles", nil, where .. "-removed")
    end)
end)
