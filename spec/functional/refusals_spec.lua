--- What a real API server does not take: schema faults, most of which it tells with a 500 as if they would pass, fields that
-- cannot change, and results that are none. Each subject brings one of them, all side by side. The fault is told with its place
-- on the subject, its siblings go on, the attempts back off, and it heals at once when it is mended.
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

local rights = [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-refusals}
rules:
- apiGroups: ["", apps, batch, rbac.authorization.k8s.io, storage.k8s.io]
  resources: [secrets, jobs, statefulsets, deployments, services, persistentvolumeclaims, rolebindings]
  verbs: ["*"]
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles, clusterroles], verbs: [bind]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-refusals}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-refusals}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]

local makers = [[
    local name, step = o.metadata.name, o.spec.step or 1
    local labels = { app = name }
    local function deployment(container, spec)
      container.name, container.image = "c", "i"
      spec = spec or {}
      spec.replicas, spec.selector = 0, spec.selector or { matchLabels = labels }
      spec.template = { metadata = { labels = labels }, spec = { containers = { container } } }
      return { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = name }, spec = spec }
    end
]]

-- NAME -> { what the script returns as `bad`, the place and words that are told, 0: what the schema tells is not sent }
local faults = {
    ["top-level"] = { [[bad = cm(name, { a = "1" }) bad.notYet = 1]],
        "apply[2].notYet: field not declared in schema (ConfigMap top-level)", 0 },
    ["deep"] = { [[bad = deployment({ ports = { { containerPort = 1, notYet = 1 } } })]],
        "apply[2].spec.template.spec.containers[1].ports[1].notYet: field not declared in schema (Deployment deep)", 0 },
    ["boolean"] = { [[bad = cm(name, { a = false })]], "apply[2].data.a: expected string, got false (ConfigMap boolean)", 0 },
    ["integer"] = { [[bad = child("Widget", name .. "-bad", { big = "5" })]],
        'apply[2].spec.big: expected integer, got "5" (Widget integer-bad)', 0 },
    ["list"] = { [[bad = child("Widget", name .. "-bad", { arr = { a = "b" } })]],
        "apply[2].spec.arr: expected array, got an object (Widget list-bad)", 0 },
    ["map"] = { [[bad = child("Widget", name .. "-bad", { m = { "a" } })]],
        "apply[2].spec.m: expected object, got an array (Widget map-bad)", 0 },
    ["null"] = { [[bad = child("Widget", name .. "-bad", { arr = { "a", k8s.null } })]],
        '"null-bad" is invalid: spec.arr[1]: Invalid value: "null"' },
    ["null-integer"] = { [[bad = child("Widget", name .. "-bad", { big = k8s.null })]],
        '"null-integer-bad" is invalid: spec.big: Invalid value: "null"' },
    ["two-ports"] = { [[bad = deployment({ ports = {
        { containerPort = 80, protocol = "TCP", hostPort = 1 }, { containerPort = 80, protocol = "TCP", hostPort = 2 } } })]],
        '.spec.template.spec.containers[name="c"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]' },
    ["two-env"] = { [[bad = deployment({ env = { { name = "A", value = "1" }, { name = "A", value = "2" } } })]],
        '.spec.template.spec.containers[name="c"].env: duplicate entries for key [name="A"]' },
    ["two-tags"] = { [[bad = child("Widget", name .. "-bad", { tags = { "a", "a" } })]],
        '.spec.tags: duplicate entries for key [="a"]' },
    ["two-defaults"] = { [[bad = child("Widget", name .. "-bad", { keyed = { { name = "a" }, { name = "a", ns = "default" } } })]],
        '.spec.keyed: duplicate entries for key [name="a",ns="default"]' },
    ["unit"] = { [[bad = deployment({ resources = { requests = { cpu = "1gi" } } })]],
        'containers[1].resources.requests.cpu: "1gi" is not a quantity', 0 },
    ["no-quantity"] = { [[bad = deployment({ resources = { requests = { cpu = "" } } })]],
        'containers[1].resources.requests.cpu: "" is not a quantity', 0 },
    ["hexadecimal"] = { [[bad = deployment({ resources = { requests = { cpu = "0x10" } } })]],
        'containers[1].resources.requests.cpu: "0x10" is not a quantity', 0 },
    ["underscore"] = { [[bad = deployment({ resources = { requests = { cpu = "1_000" } } })]],
        'containers[1].resources.requests.cpu: "1_000" is not a quantity', 0 },
    ["blank"] = { [[bad = deployment({ resources = { requests = { memory = "1 Gi" } } })]],
        'containers[1].resources.requests.memory: "1 Gi" is not a quantity', 0 },
    ["negative"] = { [[bad = deployment({ resources = { requests = { cpu = "-1" } } })]],
        'containers[0].resources.requests[cpu]: Invalid value: "-1"' },
    ["large"] = { [[local x = ("x"):rep(1024 * 1024) bad = child("Plain", name, { a = x, b = x })]],
        "/large: rpc error: code = ResourceExhausted" },
    ["port-text"] = { [[bad = { apiVersion = "v1", kind = "Service", metadata = { name = name }, spec = {
        ports = { { port = 80, targetPort = "80" } } } }]],
        'spec.ports[0].targetPort: Invalid value: "80": must contain at least one letter' },
    ["claim-template"] = { [[bad = { apiVersion = "apps/v1", kind = "StatefulSet", metadata = { name = name }, spec = {
        serviceName = "s", replicas = 0, selector = { matchLabels = labels }, template = { metadata = { labels = labels },
        spec = { containers = { { name = "c", image = "i" } } } }, volumeClaimTemplates = { { metadata = { name = "v" },
        spec = { accessModes = { "ReadWriteOnce" } } } } } }]], "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value" },
    ["no-template"] = { [[bad = deployment({}) bad.spec.template = nil]], "spec.template.spec.containers: Required value" },
    ["status"] = { [[status = { notYet = 1 }]], "status.notYet: field not declared in schema", 0 },
    ["status-type"] = { [[status = { count = "one" }]], 'status.count: expected integer, got "one"', 0 },
    ["no-name"] = { [[bad = cm(name:upper(), { a = "1" })]], 'ConfigMap "NO-NAME" is invalid: metadata.name' },
    ["long-label"] = { [[bad = cm(name, { a = "1" }) bad.metadata.labels = { a = ("x"):rep(64) }]],
        'ConfigMap "long-label" is invalid: metadata.labels' },
}

-- NAME -> { `bad` by step, words of the message }: the second step is refused.
local immutable = {
    ["job"] = { [[bad = { apiVersion = "batch/v1", kind = "Job", metadata = { name = name }, spec = { suspend = true,
        template = { spec = { restartPolicy = "Never", containers = { { name = "c", image = "i" .. step } } } } } }]],
        "spec.template.spec: Invalid value" },
    ["stateful-set"] = { [[bad = { apiVersion = "apps/v1", kind = "StatefulSet", metadata = { name = name }, spec = { replicas = 0,
        serviceName = "s" .. step, selector = { matchLabels = labels }, template = { metadata = { labels = labels },
        spec = { containers = { { name = "c", image = "i" } } } } } }]],
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'" },
    ["service"] = { [[bad = { apiVersion = "v1", kind = "Service", metadata = { name = name }, spec = {
        clusterIP = step == 2 and "10.96.77.78" or nil, ports = { { port = 80 } } } }]],
        'spec.clusterIPs[0]: Invalid value: ["10.96.77.78"]: may not change once set' },
    ["role-binding"] = { [[bad = { apiVersion = "rbac.authorization.k8s.io/v1", kind = "RoleBinding", metadata = { name = name },
        roleRef = { apiGroup = "rbac.authorization.k8s.io", kind = "Role", name = "r" .. step },
        subjects = { { kind = "User", name = "u", apiGroup = "rbac.authorization.k8s.io" } } }]],
        '"role-binding" is invalid: roleRef: Invalid value' },
    ["claim"] = { [[bad = { apiVersion = "v1", kind = "PersistentVolumeClaim", metadata = { name = name }, spec = {
        accessModes = { "ReadWriteOnce" }, storageClassName = "", resources = { requests = { storage = (3 - step) .. "Gi" } } } }]],
        "spec: Forbidden: spec is immutable after creation" },
    ["secret"] = { [[bad = { apiVersion = "v1", kind = "Secret", metadata = { name = name }, immutable = true,
        stringData = { a = "v" .. step } }]], "data: Forbidden: field is immutable when `immutable` is set" },
    ["new-claims"] = { [[bad = { apiVersion = "apps/v1", kind = "StatefulSet", metadata = { name = name }, spec = {
        serviceName = "s", replicas = 0, selector = { matchLabels = labels }, template = { metadata = { labels = labels },
        spec = { containers = { { name = "c", image = "i" } } } }, volumeClaimTemplates = step == 2 and { {
        metadata = { name = "v" }, spec = { accessModes = { "ReadWriteOnce" },
        resources = { requests = { storage = "1Gi" } } } } } or nil } }]],
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'" },
    ["selector"] = { [[labels.step = tostring(step) bad = deployment({})]],
        'spec.selector: Invalid value: {"matchLabels":{"app":"selector","step":"2"}}: field is immutable' },
}

functional.describe("refusals", function()
    local plane, namespace, host, mark

    functional.around_widgets("refusals", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    setup(function()
        plane:apply_text(rights)
    end)

    teardown(function()
        plane:kubectl { "delete", "clusterrole,clusterrolebinding", "tidelock-refusals" }
    end)

    -- A script whose `bad` is that of the subject's name in the table; mended: it makes good ones only.
    local function script(rows, mended)
        local makes = {}
        for name, row in pairs(rows) do
            makes[#makes + 1] = ("if name == %q then %s end"):format(name, row[1])
        end
        table.sort(makes)
        return widgets.script("refusals", makers .. "    local bad, status\n" .. (mended and "" or table.concat(makes, "\n"))
            .. [[

    local good = cm(name .. "-good", { step = tostring(step) })
    local too = cm(name .. "-too", { a = "1" })
    return { apply = bad and { good, bad, too } or { good, too }, status = status }]])
    end

    local function start(rows)
        plane:put_scripts("refusals", { ["refusals.lua"] = script(rows) })
        mark = plane.audit:mark()
        host = functional.host.start {
            plane = plane,
            args = { "--grant", "refusals=/Secret", "--grant", "refusals=rbac.authorization.k8s.io/RoleBinding", "--script-cpu", "60s" },
        }
        host:await_ready()
        for name in pairs(rows) do
            plane:create("widgets", namespace, widgets.object("Widget", name, { step = 1 }))
        end
    end

    local function await_told(name, words)
        eventually(20, name .. " is told", function()
            local told = plane:events_about(name, namespace)
            return told:find(words, 1, true), told .. host:log_text():sub(-600)
        end)
    end

    local function good(name)
        local sibling = plane:get("configmaps", namespace, name .. "-good")
        return sibling and plane:get("configmaps", namespace, name .. "-too") and sibling.data.step
    end

    -- Attempts at the child of that name so far.
    local function attempts(name)
        local n = 0
        for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
            local ref = write.entry.objectRef
            local child = ref.name:lower()
            n = n + ((child == name or child == name .. "-bad") and ref.subresource ~= "status" and 1 or 0)
        end
        return n
    end

    it("of faults are told with their place, back off, and heal when they are mended", function()
        start(faults)
        local started = process.now()
        for name, row in pairs(faults) do
            await_told(name, row[2])
            eventually(10, "the siblings of " .. name .. " are there", function()
                return good(name) == "1"
            end)
        end
        process.sleep(math.max(0, 6 - (process.now() - started)))
        for name, row in pairs(faults) do
            local tried = attempts(name)
            assert.is_true(row[3] and tried == row[3] or not row[3] and tried >= 3 and tried <= 16,
                name .. " was tried " .. tried .. " times")
            local told = host:log_matching("pass failed", ("%q"):format(namespace .. "/" .. name))
            assert.equal(1, #told, told[1].text .. (told[2] and told[2].text or ""))
        end
        plane:put_scripts("refusals", { ["refusals.lua"] = script(faults, true) })
        for name in pairs(faults) do
            eventually(5, name .. " is healed", function()
                local conditions = plane:get("widgets", namespace, name).status.conditions
                return good(name) == "1" and conditions[1].status == "True"
            end)
        end
    end)

    it("of a field are none when its kind gets it together with the script", function()
        local group = "grows" .. namespace:match "%-(.*)" .. ".test"
        local function kind(fields)
            return widgets.own_kind {
                group = group, kind = "Grow", subresources = "{status: {}}",
                schema = ("{type: object, properties: {spec: {type: object, properties: {%s}}, "
                    .. "status: {type: object, properties: {%s}}}}"):format(fields, fields),
            }
        end
        local function put(fields)
            plane:put_scripts("grow", { ["grow.lua"] = ([[
return { name = "grow", subject = "GROUP/v1/Grow", selector = "!child", reconcile = function(o)
  return { apply = { { apiVersion = "GROUP/v1", kind = "Grow", metadata = { name = "child", labels = { child = "yes" } },
    spec = { %s } } }, status = { %s } }
end }]]):format(fields, fields):gsub("GROUP", group) })
        end
        local path = ("/apis/%s/v1/namespaces/%s/grows"):format(group, namespace)
        local function await(wanted)
            eventually(20, "the child and the status have what is wanted", function()
                local child, parent = plane.api:json("GET", path .. "/child"), plane.api:json("GET", path .. "/g")
                assert.same(wanted, child and child.spec)
                assert.same(wanted, parent.status)
                return true
            end)
        end
        plane:apply_text((kind "old: {type: string}"))
        plane:kubectl { "wait", "--for=condition=Established", "crd/grows." .. group, "--timeout=30s" }
        put [[old = "1"]]
        host = functional.host.start { plane = plane }
        host:await_ready()
        eventually(20, "the kind is served", function()
            return plane.api:json("POST", path, { apiVersion = group .. "/v1", kind = "Grow", metadata = { name = "g" } })
        end)
        await { old = "1" }
        process.sleep(3) -- its document is there by now, and no longer looked for
        for i = 1, 3 do
            plane:apply_text((kind(("old: {type: string}, new%d: {type: integer}"):format(i))))
            put(([[new%d = %d]]):format(i, i))
            await { ["new" .. i] = i }
        end
        assert.equal(0, #host:log_matching "field not declared", host:log_text())
        assert.equal(0, #host:log_matching "pass failed", host:log_text())
        put [[never = true]] -- what it really does not have is told
        host:await_log(10, "pass failed", "apply[1].spec.never: field not declared in schema")
        plane:kubectl { "delete", "crd", "grows." .. group }
        plane:kubectl { "delete", "clusterrole,clusterrolebinding", group }
    end)

    it("of changes that are not possible are told, back off, and leave the siblings alone", function()
        start(immutable)
        for name in pairs(immutable) do
            eventually(20, name .. " is made", function()
                return good(name) == "1" and attempts(name) >= 1
            end)
        end
        process.sleep(1)
        mark = plane.audit:mark()
        for name in pairs(immutable) do
            plane:patch("widgets", namespace, name, { spec = { step = 2 } })
        end
        for name, row in pairs(immutable) do
            await_told(name, row[2])
            eventually(10, "the siblings of " .. name .. " follow", function()
                return good(name) == "2"
            end)
        end
        process.sleep(3)
        for name in pairs(immutable) do
            assert.is_true(attempts(name) <= 14, name .. " was tried " .. attempts(name) .. " times")
            plane:patch("widgets", namespace, name, { spec = { step = 1 } })
        end
        for name in pairs(immutable) do
            eventually(5, name .. " is healed", function()
                return plane:get("widgets", namespace, name).status.conditions[1].status == "True"
            end)
        end
    end)

    it("of such changes are none where the child may be replaced, also over a restart", function()
        local replaced = {}
        for name, row in pairs(immutable) do
            replaced[name] = { row[1] .. " bad = { object = bad, replace = true }", row[2] }
        end
        start(replaced)
        for name in pairs(replaced) do
            eventually(20, name .. " is made", function()
                return good(name) == "1"
            end)
        end
        -- the old Job stays for a while, and the host dies meanwhile
        plane:patch("jobs", namespace, "job", { metadata = { finalizers = { "x.test/hold" } } })
        local uid = plane:get("jobs", namespace, "job").metadata.uid
        mark = plane.audit:mark()
        for name in pairs(replaced) do
            plane:patch("widgets", namespace, name, { spec = { step = 2 } })
        end
        eventually(10, "the Job is being deleted", function()
            return plane:get("jobs", namespace, "job").metadata.deletionTimestamp
        end)
        process.sleep(1)
        assert.is_true(attempts "job" <= 2, attempts "job" .. " writes to an object that is being deleted")
        host:expect_failure():signal "KILL"
        host:await_exit(5)
        host = functional.host.start {
            plane = plane, args = { "--grant", "refusals=/Secret", "--grant", "refusals=rbac.authorization.k8s.io/RoleBinding" },
        }
        host:await_ready()
        process.sleep(0.5)
        plane:patch("jobs", namespace, "job", { metadata = { finalizers = functional.null } })
        local checks = {
            ["role-binding"] = function()
                local path = "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings/role-binding"
                return plane.api:json("GET", path:format(namespace)).roleRef.name == "r2"
            end,
            ["new-claims"] = function()
                return #(plane:get("statefulsets", namespace, "new-claims").spec.volumeClaimTemplates or {}) == 1
            end,
            job = function() return plane:get("jobs", namespace, "job").metadata.uid ~= uid end,
            service = function() return plane:get("services", namespace, "service").spec.clusterIP == "10.96.77.78" end,
            secret = function() return plane:get("secrets", namespace, "secret").data.a == "djI=" end,
            selector = function() return plane:get("deployments", namespace, "selector").spec.selector.matchLabels.step == "2" end,
            ["stateful-set"] = function() return plane:get("statefulsets", namespace, "stateful-set").spec.serviceName == "s2" end,
            claim = function()
                return plane:get("persistentvolumeclaims", namespace, "claim").spec.resources.requests.storage == "1Gi"
            end,
        }
        for name, check in pairs(checks) do
            eventually(20, name .. " is another", check)
        end
        local deletions = 0
        for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
            local options = write.entry.verb == "delete" and write.entry.requestObject
            if options then
                deletions = deletions + 1
                assert.equal("Background", options.propagationPolicy)
                assert.truthy(options.preconditions.uid)
            end
        end
        assert.equal(8, deletions)
    end)
end)
