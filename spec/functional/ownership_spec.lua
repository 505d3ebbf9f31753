--- Whose an object is, and whose a field: objects that others made first, fields that others set, owners across scopes, and
-- that nothing is deleted but what the host made.
local cjson = require "cjson"
local functional = require "spec.functional.support"
local widgets, eventually, process = functional.widgets, functional.eventually, functional.process

functional.describe("ownership", function()
    local plane, namespace, host, mark

    functional.around_widgets("ownership", function(its_plane, its_namespace)
        plane, namespace = its_plane, its_namespace
    end)

    local function put(body, rest)
        plane:put_scripts("own", { ["own.lua"] = widgets.script("own", body, rest) })
    end

    local function start()
        host = functional.host.start { plane = plane, args = { "--grant", "own=/Secret" } }
        host:await_ready()
        mark = plane.audit:mark()
    end

    local function create(name, spec)
        plane:create("widgets", namespace, widgets.object("Widget", name, spec or {}))
    end

    local function set(name, spec)
        plane:patch("widgets", namespace, name, { spec = spec })
    end

    local function data(name, where)
        local object = plane:get("configmaps", where or namespace, name)
        return object and (object.data or {})
    end

    local function await_data(name, wanted)
        eventually(10, name .. " holds what it should", function()
            assert.same(wanted, data(name))
            return true
        end)
    end

    local function await_event(name, ...)
        local needles = { ... }
        eventually(10, "an Event says " .. table.concat(needles, ", "), function()
            local text = plane:events_about(name, namespace)
            for _, needle in ipairs(needles) do
                if not text:find(needle, 1, true) then
                    return nil, text
                end
            end
            return true
        end)
    end

    -- Writes of the host to objects of that name; `verb` nil: any.
    local function writes_to(name, verb)
        local found = {}
        for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
            if write.entry.objectRef.name == name and (not verb or write.entry.verb == verb) then
                found[#found + 1] = write
            end
        end
        return found
    end

    local function config_map_path(name, query)
        return ("/api/v1/namespaces/%s/configmaps%s?%s"):format(namespace, name and "/" .. name or "", query)
    end

    local function merge(name, manager, change)
        assert(plane.api:json("PATCH", config_map_path(name, "fieldManager=" .. manager), change,
            "application/merge-patch+json"))
    end

    describe("of an object that was there", function()
        local taken = [[
    return { apply = { { object = cm(o.spec.child or o.metadata.name, o.spec.data),
      adopt = { "host-0.1", "host-v1", "kubectl-client-side-apply" } } } }]]

        local makers = {
            posted = function()
                plane.api:json("POST", config_map_path(nil, "fieldManager=host-0.1"),
                    { metadata = { name = "posted" }, data = { key = "v", legacy = "old" } })
            end,
            kubectl = function()
                plane:apply_text([[
apiVersion: v1
kind: ConfigMap
metadata: {name: kubectl}
data: {key: v, legacy: old}
]], namespace)
            end,
            applied = function()
                plane.api:json("PATCH", config_map_path("applied", "fieldManager=host-v1"),
                    [[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"key":"v","legacy":"old"}}]],
                    "application/apply-patch+yaml")
            end,
        }

        it("is taken over with all that its manager set, and nothing of others", function()
            put(taken)
            start()
            for name, make in pairs(makers) do
                make()
                merge(name, "alice", { data = { hers = "1" }, metadata = { annotations = { note = "hers" } } })
                create(name, { data = { key = "v" } })
                await_data(name, { key = "v", hers = "1" })
                assert.same({ note = "hers" }, plane:get("configmaps", namespace, name).metadata.annotations)
                assert.equal(2, #writes_to(name, "patch"), functional.audit.describe(writes_to(name)))
                set(name, { data = { key = "w" } })
                await_data(name, { key = "w", hers = "1" })
                set(name, { data = functional.null })
                await_data(name, { hers = "1" })
            end
            process.sleep(1)
            mark = plane.audit:mark()
            process.sleep(1)
            assert.equal(0, #widgets.writes(plane, mark))
        end)

        it("is not forced on a stranger who sets the same field", function()
            put(taken)
            start()
            makers.posted()
            merge("posted", "alice", { data = { key = "hers" } })
            create("posted", { data = { key = "v", more = "1" } })
            await_event("posted", "alice", ".data.key")
            process.sleep(2)
            assert.equal("hers", data("posted").key)
            assert.is_nil(data("posted").more)
            assert.is_true(#writes_to "posted" <= 14, functional.audit.describe(writes_to "posted"))
            set("posted", { data = { more = "1" } }) -- leaves it to her
            plane:patch("widgets", namespace, "posted", { spec = { data = { key = functional.null } } })
            await_data("posted", { key = "hers", more = "1" })
        end)

        it("is put right in one write when somebody forces the host's fields", function()
            put [[ return { apply = { cm("c", o.spec.data) } }]]
            start()
            create("w", { data = { a = "1", b = "1" } })
            await_data("c", { a = "1", b = "1" })
            process.sleep(0.5)
            mark = plane.audit:mark()
            assert(plane.api:json("PATCH", config_map_path("c", "fieldManager=alice&force=true"),
                [[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"hers","more":"hers"}}]],
                "application/apply-patch+yaml"))
            await_data("c", { a = "1", b = "1", more = "hers" })
            process.sleep(1)
            assert.equal(1, #writes_to "c", functional.audit.describe(writes_to "c"))
            for _, entry in ipairs(plane:get("configmaps", namespace, "c").metadata.managedFields) do
                if entry.manager == "alice" then
                    assert.same({ ["f:data"] = { ["f:more"] = {} } }, entry.fieldsV1)
                end
            end
            set("w", { data = { a = "2" } }) -- nobody is in the way
            await_data("c", { a = "2", b = "1", more = "hers" })
        end)

        it("is refused with the names of its managers", function()
            put [[ return { apply = { cm("posted", { key = "w" }) } }]]
            start()
            makers.posted()
            create "w"
            await_event("w", "posted", "host-0.1", "adopt")
            assert.same({ key = "v", legacy = "old" }, data "posted")
            assert.equal(0, #writes_to "posted")
        end)

        it("is not touched by a creation that comes late, whatever its kind", function()
            local function apply(path, manager, object)
                local body = cjson.encode(object):gsub("\\/", "/") -- the server's YAML reader knows no such escape
                return plane.api:request("PATCH", path .. "?fieldManager=" .. manager, body,
                    "application/apply-patch+yaml")
            end
            local labels = { app = "late" }
            for path, object in pairs {
                ["/api/v1/namespaces/%s/configmaps/late"] = { apiVersion = "v1", kind = "ConfigMap", data = { key = "v" } },
                ["/apis/apps/v1/namespaces/%s/deployments/late"] = { apiVersion = "apps/v1", kind = "Deployment", spec = {
                    replicas = 0, selector = { matchLabels = labels },
                    template = { metadata = { labels = labels }, spec = { containers = { { name = "c", image = "i" } } } },
                } },
                ["/apis/x.test/v1/namespaces/%s/widgets/late"] = { apiVersion = "x.test/v1", kind = "Widget", spec = {} },
            } do
                path = path:format(namespace)
                object.metadata = { name = "late", resourceVersion = "1" } -- as the host creates
                assert.equal(201, apply(path, "first", object))
                object.metadata.labels = { second = "yes" }
                assert.equal(409, apply(path, "second", object))
                local text = select(2, plane.api:request("GET", path))
                assert.is_nil(text:find("second", 1, true), text)
            end
        end)

        it("is refused while another controller owns it", function()
            put(taken)
            start()
            local boss = plane:create("configmaps", namespace, { metadata = { name = "boss" } })
            local owners = { {
                apiVersion = "v1", kind = "ConfigMap", name = "boss", uid = boss.metadata.uid, controller = true,
            } }
            makers.posted()
            merge("posted", "host-0.1", { metadata = { ownerReferences = owners } })
            create("w", { child = "posted", data = { key = "w" } })
            await_event("w", "posted")
            process.sleep(1)
            local stays = plane:get("configmaps", namespace, "posted")
            assert.same(owners, stays.metadata.ownerReferences)
            assert.equal("v", stays.data.key)
        end)

        it("keeps the status that its manager wrote, and who may go on writing it", function()
            local path = ("/apis/x.test/v1/namespaces/%s/widgets"):format(namespace)
            local function write_status(manager, status)
                assert(plane.api:json("PATCH", path .. "/c/status?fieldManager=" .. manager, { status = status },
                    "application/merge-patch+json"))
            end
            local function of_status(object)
                local found = {}
                for _, entry in ipairs(object.metadata.managedFields) do
                    if entry.subresource == "status" then
                        found[#found + 1] = entry.manager .. " " .. entry.operation
                    end
                end
                table.sort(found)
                return found
            end
            assert(plane.api:json("POST", path .. "?fieldManager=host-0.1", { apiVersion = "x.test/v1", kind = "Widget",
                metadata = { name = "c", labels = { child = "yes" } }, spec = { m = { key = "v", legacy = "old" } } }))
            write_status("host-0.1", { phase = "Up", count = 1 })
            write_status("alice", { byName = { a = "hers" } })
            put [[ return { apply = { { object = child("Widget", "c", o.spec), adopt = { "host-0.1" } } } }]]
            start()
            create("w", { m = { key = "v" } })
            local adopted = eventually(10, "it is taken over", function()
                local now = plane:get("widgets", namespace, "c")
                return not now.spec.m.legacy and now
            end)
            assert.same({ key = "v" }, adopted.spec.m)
            assert.same({ phase = "Up", count = 1, byName = { a = "hers" } }, adopted.status)
            assert.same({ "alice Update", "host-0.1 Update" }, of_status(adopted))
            assert.equal(2, #writes_to("c", "patch"), functional.audit.describe(writes_to "c"))
            process.sleep(0.5)
            mark = plane.audit:mark()
            for i = 2, 5 do -- it goes on as it did
                write_status("host-0.1", { count = i })
                process.sleep(0.3)
            end
            assert.equal(0, #writes_to "c", functional.audit.describe(writes_to "c"))
            set("w", { m = { key = "w" } })
            eventually(10, "the script's fields follow", function()
                return plane:get("widgets", namespace, "c").spec.m.key == "w"
            end)
            local now = plane:get("widgets", namespace, "c")
            assert.same({ phase = "Up", count = 5, byName = { a = "hers" } }, now.status)
            assert.same({ "alice Update", "host-0.1 Update" }, of_status(now))
            assert.equal(0, #host:log_matching "pass failed", host:log_text())
        end)

        it("is applied again when its managedFields were lost", function()
            put [[ return { apply = { cm("c", o.spec.data) } }]]
            start()
            create("w", { data = { a = "1", b = "1" } })
            await_data("c", { a = "1", b = "1" })
            for i, lost in ipairs { '[{}]', '[]' } do
                plane.api:json("PATCH", config_map_path("c", ""), ('{"metadata":{"managedFields":%s}}'):format(lost),
                    "application/merge-patch+json")
                process.sleep(1)
                mark = plane.audit:mark()
                set("w", { data = { a = tostring(i + 1) } })

                await_data("c", { a = tostring(i + 1), b = "1" })
                process.sleep(1)
                assert.equal(1, #writes_to "c", functional.audit.describe(writes_to "c"))
            end
            set("w", { data = functional.null })
            process.sleep(1)
            put [[ return { apply = {} }]]
            eventually(10, "it is still the host's to prune", function()
                return not data "c"
            end)
        end)
    end)

    describe("of children", function()
        it("decides what is pruned, not their labels", function()
            put [[
    local app = { app = o.metadata.name }
    local pod = { metadata = { labels = app }, spec = { containers = { { name = "c", image = "i" } } } }
    local all = {
      deployment = { apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "d", labels = app },
        spec = { replicas = 1, selector = { matchLabels = app }, template = pod } },
      service = { apiVersion = "v1", kind = "Service", metadata = { name = "s", labels = app },
        spec = { selector = app, ports = { { port = 80 } } } },
      set = { apiVersion = "apps/v1", kind = "StatefulSet", metadata = { name = "f", labels = app },
        spec = { serviceName = "s", selector = { matchLabels = app }, template = pod, volumeClaimTemplates = { {
          metadata = { name = "v", labels = app },
          spec = { accessModes = { "ReadWriteOnce" }, resources = { requests = { storage = "1Gi" } } } } } } },
    }
    if o.spec.how == "error" then
      error("on purpose")
    elseif o.spec.how == "nil" then
      return nil
    elseif o.spec.how == "status" then
      return { status = { phase = "Up" } }
    end
    local children = { cm(o.spec.name, { a = "1" }), cm("held", { a = "1" }) }
    for _, kind in ipairs(o.spec.kinds) do
      table.insert(children, all[kind])
    end
    if o.spec.how == "fewer" then
      table.remove(children, 2)
    end
    return { apply = children }]]
            start()
            create("w", { name = "first", kinds = { "deployment", "service", "set" } })
            local function copies()
                local slice = plane:list("endpointslices", namespace)[1]
                return slice and plane:list("replicasets", namespace)[1]
                    and plane:list("persistentvolumeclaims", namespace)[1] and slice
            end
            local slice = eventually(20, "the cluster has copied the labels", copies)
            local ours = eventually(10, "the child is there", function()
                return plane:get("configmaps", namespace, "first")
            end)
            assert.equal(ours.metadata.labels["tidelock.dev/script"], slice.metadata.labels["tidelock.dev/script"])
            local by_hand = {
                labels = { labels = ours.metadata.labels },
                owner = { ownerReferences = ours.metadata.ownerReferences },
                both = { labels = ours.metadata.labels, ownerReferences = ours.metadata.ownerReferences },
            }
            for name, metadata in pairs(by_hand) do
                metadata.name = "by-hand-" .. name
                plane:create("configmaps", namespace, { metadata = metadata, data = { a = "1" } })
            end
            plane:patch("configmaps", namespace, "held", { metadata = { finalizers = { "x.test/hold" } } })
            plane:delete("configmaps", namespace, "held")

            for _, how in ipairs { "error", "nil", "status" } do
                set("w", { how = how, name = "second" })
                process.sleep(0.7)
            end
            set("w", { how = "", kinds = { "deployment", "service" } })
            eventually(15, "the renamed one and the dropped kind are gone", function()
                return data "second" and not data "first" and not plane:get("statefulsets", namespace, "f")
            end)

            host:stop() -- a new script with a child fewer, while none runs
            plane:put_scripts("own", { ["own.lua"] = widgets.script("own",
                [[ return { apply = { cm("second", { a = "1" }), cm("third", { a = "1" }) } }]]) })
            start()
            eventually(15, "the others are gone", function()
                return data "third" and not plane:get("deployments", namespace, "d")
                    and not plane:get("services", namespace, "s")
            end)
            process.sleep(2)
            assert.truthy(data "second")
            for name in pairs(by_hand) do
                assert.truthy(data("by-hand-" .. name), name)
            end
            assert.is_true(#writes_to("held", "delete") <= 1, functional.audit.describe(writes_to "held"))
            assert.truthy(plane:list("persistentvolumeclaims", namespace)[1])
            plane:patch("configmaps", namespace, "held", { metadata = { finalizers = functional.null } })
            -- what the host deleted in the namespace since its restart
            local deleted = {}
            for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
                if write.entry.verb == "delete" then
                    deleted[write.entry.objectRef.name] = true
                end
            end
            deleted.held, deleted.d, deleted.s = nil, nil, nil
            assert.same({}, deleted)
        end)

        it("lets five hundred go at once: by their UIDs, a few at a time, and it is said", function()
            put [[
    local children = { cm("stays", { a = "1" }) }
    for i = 1, o.spec.count do
      children[i + 1] = cm("c" .. i, { a = "1" })
    end
    return { apply = children }]]
            start()
            create("w", { count = 500 })
            eventually(30, "all are there", function()
                return #plane:list("configmaps", namespace) >= 502, #plane:list("configmaps", namespace)
            end)
            local uids = {}
            for _, item in ipairs(plane:list("configmaps", namespace)) do
                uids[item.metadata.name] = item.metadata.uid
            end
            mark = plane.audit:mark()
            set("w", { count = 0 })
            eventually(30, "they are gone", function()
                return #plane:list("configmaps", namespace) == 2, #plane:list("configmaps", namespace)
            end)
            await_event("w", "Pruned", "500 children")
            local deletes, others = 0, 0
            for _, write in ipairs(widgets.writes(plane, mark, namespace)) do
                local options = write.entry.requestObject
                if write.entry.verb == "delete" then
                    deletes = deletes + 1
                    assert.equal(uids[write.entry.objectRef.name], options.preconditions.uid)
                    assert.equal("Background", options.propagationPolicy)
                else
                    others = others + 1
                end
            end
            assert.equal(500, deletes)
            assert.equal(0, others)
            assert.truthy(data "stays")
        end)

        it("deletes no object that has taken the place of one of them", function()
            put [[
    if o.spec.drop then
      return { apply = {} }
    end
    return { apply = { cm("c", { a = "1" }) } }]]
            start()
            create "w"
            await_data("c", { a = "1" })
            local labels = plane:get("configmaps", namespace, "c").metadata.labels
            host:signal "STOP" -- it sees nothing of this
            plane:delete("configmaps", namespace, "c")
            plane:create("configmaps", namespace, { metadata = { name = "c", labels = labels }, data = { hers = "1" } })
            set("w", { drop = true })
            host:signal "CONT"
            process.sleep(2)
            assert.same({ hers = "1" }, data "c")
        end)

        it("waits for the right to delete them, and says so", function()
            -- a script of its own: the host remembers that it has children of a kind it has no right to later
            plane:put_scripts("rights", { ["rights.lua"] = widgets.script("rights", [[
    return { apply = o.spec.drop and { cm("d", { a = "1" }) } or { { apiVersion = "v1", kind = "PodTemplate",
      metadata = { name = "c" }, template = { spec = { containers = { { name = "c", image = "i" } } } } } } }]]) })
            local function rights(verbs)
                plane:apply_text(([[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-ownership}
rules:
- {apiGroups: [""], resources: [podtemplates], verbs: [%s]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-ownership}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-ownership}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]):format(verbs))
            end
            local function there()
                return plane.api:json("GET", ("/api/v1/namespaces/%s/podtemplates/c"):format(namespace))
            end
            rights "get, list, watch, create, patch"
            start()
            create "w"
            eventually(10, "the child is there", there)
            set("w", { drop = true })
            await_event("w", "delete v1/PodTemplate", "forbidden")
            await_data("d", { a = "1" }) -- the others go on
            assert.truthy(there())
            rights "get, list, watch, create, patch, delete"
            set("w", { touched = true })
            eventually(10, "the child is gone", function()
                return not there()
            end)
            plane:kubectl { "delete", "clusterrole,clusterrolebinding", "tidelock-ownership" }
            host:stop() -- without the right to look, another host can not know that nothing is left
            host = functional.host.start { plane = plane }
            host:await_log(10, "script waits", "podtemplates is forbidden", "the script has made objects of this kind")
        end)

        it("holds when a script names the kind by another version", function()
            put [[
    local target = { apiVersion = "apps/v1", kind = "Deployment", name = "none" }
    local one = { apiVersion = "autoscaling/v1", kind = "HorizontalPodAutoscaler", metadata = { name = "h", labels = { v = "1" } },
      spec = { minReplicas = 2, maxReplicas = 3, scaleTargetRef = target, targetCPUUtilizationPercentage = 50 } }
    local two = { apiVersion = "autoscaling/v2", kind = "HorizontalPodAutoscaler", metadata = { name = "h" },
      spec = { maxReplicas = 4, scaleTargetRef = target, metrics = { { type = "Resource", resource = { name = "cpu",
        target = { type = "Utilization", averageUtilization = 60 } } } } } }
    if o.spec.version == 0 then
      return { apply = {} }
    end
    return { apply = { o.spec.version == 2 and two or one } }]]
            local function autoscaler()
                return plane.api:json("GET", ("/apis/autoscaling/v2/namespaces/%s/horizontalpodautoscalers/h"):format(namespace))
            end
            start()
            create("w", { version = 1 })
            local first = eventually(10, "it is there", autoscaler)
            assert.equal(50, first.spec.metrics[1].resource.target.averageUtilization)
            assert.equal(2, first.spec.minReplicas)
            process.sleep(0.5)
            mark = plane.audit:mark()
            set("w", { version = 2 })
            local second = eventually(10, "it has the new values", function()
                local now = autoscaler()
                return now.spec.maxReplicas == 4 and now
            end)
            assert.equal(first.metadata.uid, second.metadata.uid)
            assert.equal(60, second.spec.metrics[1].resource.target.averageUtilization)
            assert.is_nil(second.metadata.labels.v) -- what it had in the other version's fields goes
            assert.equal(1, second.spec.minReplicas)
            process.sleep(1)
            assert.equal(1, #writes_to "h", functional.audit.describe(writes_to "h"))
            mark = plane.audit:mark()
            host:stop()
            host = functional.host.start { plane = plane, args = { "--grant", "own=/Secret" } }
            host:await_ready()
            process.sleep(1.5)
            assert.equal(0, #writes_to "h", functional.audit.describe(writes_to "h"))
            set("w", { version = 0 })
            eventually(10, "it is pruned", function()
                return not autoscaler()
            end)
        end)

        it("crosses scopes, and lasts as long as the subject", function()
            local elsewhere, made = plane:namespace "elsewhere", namespace .. "-made"
            put(([[
    if o.spec.same then
      return { apply = { cm("here", { a = "2" }) } }
    end
    local there = cm("there", { a = "1" })
    there.metadata.namespace = "%s"
    local secret = { apiVersion = "v1", kind = "Secret", metadata = { name = "there", namespace = there.metadata.namespace },
      stringData = { a = "1" } }
    return { apply = { cm("here", { a = "1" }), there, secret, child("Room", "%s", { a = "1" }),
      { apiVersion = "v1", kind = "Namespace", metadata = { name = "%s" } } } }]]):format(elsewhere, made, made))
            plane:put_scripts("rooms", { ["rooms.lua"] = widgets.script("rooms", ([[
    local far = cm("of-room", { a = "1" })
    far.metadata.namespace = "%s"
    return { apply = { far } }]]):format(namespace), nil, "Room") })
            start()
            create "w"
            plane:create("rooms", nil, widgets.object("Room", "parent-" .. namespace, {}))
            local function there()
                return {
                    secret = plane:get("secrets", elsewhere, "there") ~= nil,
                    here = data "here" ~= nil, there = data("there", elsewhere) ~= nil, of_room = data "of-room" ~= nil,
                    room = plane:get("rooms", nil, made) ~= nil, namespace = plane:get("namespaces", nil, made) ~= nil,
                }
            end
            local all = { secret = true, here = true, there = true, of_room = true, room = true, namespace = true }
            eventually(15, "all children are there", function()
                assert.same(all, there(), host:log_text())
                return true
            end)
            local function owners(object)
                return object.metadata.ownerReferences
            end
            local subject = plane:get("widgets", namespace, "w")
            local reference = owners(plane:get("configmaps", namespace, "here"))[1]
            assert.equal(subject.metadata.uid, reference.uid)
            assert.equal("x.test/v1 Widget w", ("%s %s %s"):format(reference.apiVersion, reference.kind, reference.name))
            assert.is_true(reference.controller)
            assert.equal("Room", owners(plane:get("configmaps", namespace, "of-room"))[1].kind)
            assert.is_nil(owners(plane:get("configmaps", elsewhere, "there")))
            assert.is_nil(owners(plane:get("rooms", nil, made)))
            assert.is_nil(owners(plane:get("namespaces", nil, made)))

            create("second", { same = true })
            await_event("second", "here", "w")
            local version = plane:get("configmaps", namespace, "here").metadata.resourceVersion
            plane:component("kube-controller-manager", "stop") -- another one looks at all references anew
            plane:component("kube-controller-manager", "start")
            process.sleep(5)
            assert.same(all, there())
            assert.equal(version, plane:get("configmaps", namespace, "here").metadata.resourceVersion)
            for _, event in ipairs(plane:list "events") do
                assert.not_equal("OwnerRefInvalidNamespace", event.reason)
            end

            plane:delete("widgets", namespace, "second")
            process.sleep(1)
            assert.same(all, there())
            plane:delete("widgets", namespace, "w")
            plane:delete("rooms", nil, "parent-" .. namespace)
            eventually(60, "nothing is left", function()
                assert.same({ secret = false, here = false, there = false, of_room = false, room = false, namespace = false }, there())
                return true
            end)
            assert.is_nil(plane:get("widgets", namespace, "w"))
        end)
    end)
end)
