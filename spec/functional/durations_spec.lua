--- "60m" is "1h" where the schema says that it is a duration; where it does not, but the server spells them its own way, that is
--- learned from its answer.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

local kind = widgets.own_kind { group = "durations.test", kind = "Pause", subresources = "{}", schema = [[
{type: object, properties: {spec: {type: object, properties: {
        known: {type: string, format: duration}, text: {type: string}, respelled: {type: string}}}}}]] }

-- As the webhook of an operator in Go does it, which reads the object into its types and writes it again.
local respelling = [[
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: durations-spec}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [durations.test], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [pauses]}]
  matchConditions: [{name: hour, expression: "has(object.spec.respelled) && object.spec.respelled == '60m'"}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "replace", path: "/spec/respelled", value: "1h0m0s"}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: durations-spec}
spec: {policyName: durations-spec}
]]

functional.describe("durations", function()
    local plane, namespace, host, mark

    functional.around_widgets("durations", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    setup(function()
        plane:apply_text(kind)
        plane:apply_text(respelling)
        eventually(20, "the schema of the new kind is published", function()
            return plane:kubectl({ "get", "--raw", "/openapi/v3/apis/durations.test/v1" }):find("Pause", 1, true)
        end)
    end)

    teardown(function()
        plane:kubectl { "delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", "durations-spec" }
        plane:kubectl { "delete", "clusterrolebinding,clusterrole", "durations.test" }
        plane:kubectl { "delete", "crd", "pauses.durations.test" }
    end)

    local function start()
        host = functional.host.start { plane = plane }
        host:await_ready()
    end

    local function passes()
        return host:metric("controller_runtime_reconcile_total", { controller = "pause" }) or 0
    end

    -- The writes of the passes that follow such a change of what is wanted.
    local function writes_after(spec)
        mark = plane.audit:mark()
        local before = passes()
        plane:patch("widgets", namespace, "w", { spec = spec })
        eventually(5, "the pass is through", function()
            return passes() > before
        end)
        process.sleep(0.3)
        return #widgets.writes(plane, mark, namespace)
    end

    local function pause()
        return plane.api:json("GET", ("/apis/durations.test/v1/namespaces/%s/pauses/p"):format(namespace))
    end

    it("are compared by what they mean, or by what the server has made of them", function()
        plane:put_scripts("pause", { ["pause.lua"] = widgets.script("pause", [[
    return { apply = { { apiVersion = "durations.test/v1", kind = "Pause", metadata = { name = "p" }, spec = o.spec.pause } } }]]) })
        start()
        plane:create("widgets", namespace, widgets.object("Widget", "w", { pause = { known = "1h", text = "1h" } }))
        eventually(10, "it is there", pause)
        for _, same in ipairs { "60m", "3600s", "1h0m0s", "0.5h30m" } do
            assert.equal(0, writes_after { pause = { known = same } }, same)
        end
        assert.equal("1h", pause().spec.known)
        assert.equal(1, writes_after { pause = { known = "61m" } })
        assert.equal("61m", pause().spec.known)
        assert.equal(1, writes_after { pause = { text = "60m" } }) -- for all that is known, a text
        assert.equal("60m", pause().spec.text)

        eventually(20, "the server spells it its own way", function()
            writes_after { pause = { respelled = "59m" } }
            writes_after { pause = { respelled = "60m" } } -- the policy takes a moment to be heeded
            return pause().spec.respelled == "1h0m0s", pause().spec.respelled
        end)
        for i = 1, 5 do
            assert.equal(0, writes_after { touched = i }, functional.audit.describe(widgets.writes(plane, mark, namespace)))
        end
        host:stop()
        mark = plane.audit:mark()
        start() -- it has to learn that again
        process.sleep(1)
        assert.is_true(#widgets.writes(plane, mark, namespace) <= 1, functional.audit.describe(widgets.writes(plane, mark, namespace)))
        for i = 6, 8 do
            assert.equal(0, writes_after { touched = i }, functional.audit.describe(widgets.writes(plane, mark, namespace)))
        end
    end)
end)
