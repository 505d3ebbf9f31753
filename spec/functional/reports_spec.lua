--- What the host says about a subject on the cluster: Events in the right place and number, the condition Reconciled, and
--- that neither sets anything off.
local functional = require "spec.functional.support"
local audit = functional.audit
local eventually, process = functional.eventually, functional.process

-- spec.image says what a pass does; see each spec.
local script = [[
local k8s = require "tidelock"
return {
  name = "reports",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
    local what, size = memcached.spec.image, memcached.spec.size
    if what == "invalid" then
      k8s.invalid("BadImage", "no such image")
    elseif what == "error" then
      error("broken at size " .. size, 0)
    elseif what == "long" then
      return { events = { k8s.event("Normal", "Long", ("\195\164"):rep(2500)) } }
    elseif what == "many" then
      local events = {}
      for i = 1, 30 do
        events[i] = k8s.event("Normal", "Reason" .. i, "one of many")
      end
      for i = 1, 60 do
        events[30 + i] = k8s.event("Warning", "Counted", "number " .. i)
      end
      return { events = events }
    elseif what == "again" then
      return { events = { k8s.event("Normal", size % 2 == 0 and "Even" or "Odd", "the same each time") } }
    elseif what == "odd" then
      return { status = { readyReplicas = size }, events = { k8s.event("Normal", ("R"):rep(200), "a long reason"),
        k8s.event("Normal", "two words", "a reason with a blank"), k8s.event("Warning", "", "no reason"),
        k8s.event("Warning", "NoText", "") } }
    end
    return { status = { readyReplicas = size } }
  end,
}
]]

-- The host of the specs may not read namespaces.
local namespace_reader = [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-namespaces}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-namespaces}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-namespaces}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}
]]

local about_namespaces = [[
local k8s = require "tidelock"
return {
  name = "spaces",
  subject = "v1/Namespace",
  selector = { reports = "yes" },
  reconcile = function(namespace)
    return { events = { k8s.event("Normal", "Seen", "at " .. (namespace.metadata.labels.step or "first")) } }
  end,
}
]]

functional.describe("reports", function()
    local plane, namespace

    local function image(name, what, size)
        plane:patch("memcacheds", namespace, name, { spec = { image = what, size = size } })
    end

    local function await_size(name, size)
        eventually(10, ("the status of %s says %d"):format(name, size), function()
            local status = plane:get("memcacheds", namespace, name).status
            return status and status.readyReplicas == size
        end)
    end

    local function reconciled(name)
        local subject = plane:get("memcacheds", namespace, name)
        for _, condition in ipairs(subject.status and subject.status.conditions or {}) do
            if condition.type == "Reconciled" then
                return condition
            end
        end
    end

    local function await_reconciled(name, status, reason)
        return (eventually(10, ("Reconciled is %s, %s"):format(status, reason), function()
            local condition = reconciled(name)
            return condition and condition.status == status and condition.reason == reason and condition,
                condition and condition.status .. " " .. condition.reason .. " " .. condition.message or "no condition"
        end))
    end

    local function events(name, where)
        local found = plane:list("events", where or namespace, "fieldSelector=involvedObject.name%3D" .. name)
        local by_reason = {}
        for _, event in ipairs(found) do
            by_reason[event.reason] = event
        end
        return found, by_reason
    end

    -- The host writes nothing but Events for so long.
    local function stays_quiet(seconds)
        local mark = plane.audit:mark()
        process.sleep(seconds)
        local writes = {}
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            writes[#writes + 1] = not write.text:find(" events ", 1, true) and write or nil
        end
        assert(#writes == 0, audit.describe(writes))
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "reports"
        plane:put_scripts("reports", { ["reports.lua"] = script })
        functional.host.start({ plane = plane }):await_ready()
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    it("a failing key by a condition of its own, until it is healed", function()
        plane:create("memcacheds", namespace, functional.memcached("a", { size = 1, image = "fine" }))
        plane:create("memcacheds", namespace, functional.memcached("b", { size = 1, image = "fine" }))
        eventually(10, "both have a status", function()
            return plane:get("memcacheds", namespace, "a").status and plane:get("memcacheds", namespace, "b").status
        end)
        image("a", "invalid", 1)
        local first = await_reconciled("a", "False", "BadImage")
        assert.equal("no such image", first.message)
        assert.is_nil(reconciled "b") -- it never failed
        stays_quiet(3) -- nothing goes round and round
        image("a", "error", 2)
        local second = await_reconciled("a", "False", "ScriptError")
        assert.equal("broken at size 2", second.message)
        assert.equal(first.lastTransitionTime, second.lastTransitionTime)
        stays_quiet(3) -- though it is retried all the time
        image("a", "fine", 3)
        local healed = await_reconciled("a", "True", "Reconciled")
        assert.equal(plane:get("memcacheds", namespace, "a").metadata.generation, healed.observedGeneration)
        assert.equal(3, plane:get("memcacheds", namespace, "a").status.readyReplicas)
        for _, entry in ipairs(plane:get("memcacheds", namespace, "a").metadata.managedFields) do
            if entry.fieldsV1["f:status"] and entry.fieldsV1["f:status"]["f:conditions"] then
                assert.matches("^tidelock%.host%-", entry.manager)
                assert.equal("status", entry.subresource)
            end
        end
        stays_quiet(2)
    end)

    it("events cut at a character, each reason seen, varying texts combined", function()
        plane:create("memcacheds", namespace, functional.memcached("a", { size = 1, image = "fine" }))
        eventually(10, "the subject has a status", function() -- so that the host knows the key when it says something
            return plane:get("memcacheds", namespace, "a").status
        end)
        image("a", "long", 1)
        eventually(10, "the long event is there", function()
            local _, by_reason = events "a"
            return by_reason.Long and #by_reason.Long.message == 1024
        end)
        image("a", "many", 1)
        eventually(15, "all reasons are there", function()
            local _, by_reason = events "a"
            for i = 1, 30 do
                if not by_reason["Reason" .. i] then
                    return nil, "Reason" .. i .. " is missing"
                end
            end
            return true
        end)
        local counted, combined
        eventually(15, "all events are written", function()
            counted, combined = 0, 0
            for _, event in ipairs((events "a")) do
                counted = counted + (event.reason == "Counted" and 1 or 0)
                combined = combined + (event.message:find("combined from similar", 1, true) and 1 or 0)
            end
            return counted >= 11 and combined >= 1, counted .. " of 11"
        end)
        assert.equal(11, counted)
        assert.equal(1, combined)
    end)

    it("equal events by one object with a series, in times of six digits", function()
        plane:create("memcacheds", namespace, functional.memcached("a", { size = 1, image = "fine" }))
        eventually(10, "the subject has a status", function()
            return plane:get("memcacheds", namespace, "a").status
        end)
        local mark = plane.audit:mark()
        for i = 1, 1000 do -- new against the result before it, each time
            image("a", "again", 2 + i % 2)
        end
        local function event(reason)
            local path = ("/apis/events.k8s.io/v1/namespaces/%s/events"):format(namespace)
            for _, item in ipairs(plane.api:json("GET", path).items) do
                if item.reason == reason then
                    return item
                end
            end
        end
        local odd = eventually(60, "there is a series", function()
            local found = event "Odd"
            return found and found.series and found.series.count >= 100 and found, found and require("cjson").encode(found.series)
        end)
        local six = "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%d%d%d%dZ$"
        assert.matches(six, odd.eventTime)
        assert.matches(six, odd.series.lastObservedTime)
        assert.equal("the same each time", odd.note)
        local writes = 0
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            writes = writes + (write.text:find(" events ", 1, true) and 1 or 0)
            assert.is_nil(write.text:find(" events .* [45]%d%d$"), write.text)
        end
        assert.is_true(writes <= 10, writes .. " writes of Events")
    end)

    it("events with odd reasons as the server takes them, also of an object that is gone", function()
        for _, name in ipairs { "a", "gone" } do
            plane:create("memcacheds", namespace, functional.memcached(name, { size = 1, image = "fine" }))
            await_size(name, 1)
        end
        image("a", "odd", 2)
        await_size("a", 2)
        local wanted = {
            [("R"):rep(128)] = "a long reason", ["two words"] = "a reason with a blank", Unknown = "no reason", NoText = "NoText",
        }
        eventually(5, "all are there", function()
            local texts = {}
            for _, event in ipairs((events "a")) do
                texts[event.reason] = event.message
            end
            assert.same(wanted, texts)
            return true
        end)
        assert.is_nil(reconciled "a")
        image("gone", "odd", 2)
        plane:delete("memcacheds", namespace, "gone")
        -- the key is in nobody's way
        plane:create("memcacheds", namespace, functional.memcached("b", { size = 1, image = "fine" }))
        await_size("b", 1)
    end)

    it("nothing that a pass waits for: without the right to write Events all else goes on", function()
        local path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidelock"
        local role = plane.api:json("GET", path)
        for _, rule in ipairs(role.rules) do
            rule.verbs = rule.resources[1] == "events" and { "get" } or rule.verbs
        end
        plane.api:json("PUT", path, role)
        plane:create("memcacheds", namespace, functional.memcached("a", { size = 1, image = "fine" }))
        eventually(10, "the subject has a status", function()
            return plane:get("memcacheds", namespace, "a").status
        end)
        image("a", "many", 1)
        image("a", "error", 1)
        await_reconciled("a", "False", "ScriptError")
        image("a", "fine", 7)
        eventually(5, "it goes on", function()
            return plane:get("memcacheds", namespace, "a").status.readyReplicas == 7
        end)
        assert.equal(0, #events "a")
        plane:apply_file "spec/controlplane/host-rbac.yaml"
    end)

    it("events about cluster-scoped objects in namespace default", function()
        plane:apply_text(namespace_reader)
        plane:patch("namespaces", nil, namespace, { metadata = { labels = { reports = "yes" } } })
        plane:put_scripts("spaces", { ["spaces.lua"] = about_namespaces })
        local step = 0
        local event = eventually(15, "the event is there", function()
            step = step + 1 -- the first pass of a host says nothing of what may have been said before it
            plane:patch("namespaces", nil, namespace, { metadata = { labels = { step = tostring(step) } } })
            local _, by_reason = events(namespace, "default")
            return by_reason.Seen
        end)
        assert.equal("Namespace", event.involvedObject.kind)
        assert.is_nil(event.involvedObject.namespace)
        plane:kubectl { "delete", "clusterrole,clusterrolebinding", "tidelock-namespaces" }
    end)

    it("nothing in a namespace that goes away", function()
        plane:create("memcacheds", namespace, functional.memcached("a", { size = 1, image = "fine" }))
        -- something that holds the namespace, with the subject in it
        plane:patch("memcacheds", namespace, "a", { metadata = { finalizers = { "x.test/hold" } } })
        eventually(10, "the subject has a status", function()
            return plane:get("memcacheds", namespace, "a").status
        end)
        plane:delete("namespaces", nil, namespace)
        eventually(20, "the subject is being deleted", function()
            return plane:get("memcacheds", namespace, "a").metadata.deletionTimestamp
        end)
        local mark = plane.audit:mark()
        for size = 2, 6 do
            image("a", "error", size)
        end
        process.sleep(3)
        local attempts = 0
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            attempts = attempts + (write.text:find("create events", 1, true) and 1 or 0)
        end
        assert.is_true(attempts <= 1, attempts .. " Events were tried")
        plane:patch("memcacheds", namespace, "a", { metadata = { finalizers = functional.null } })
    end)
end)

-- A server that takes ten Events, then twenty a second, and answers 429 to the others.
local admission = [[
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 20, burst: 10}]
]]

functional.describe("reports to a server that has only core/v1 Events, and few of them", function()
    local plane, folder, host

    setup(function()
        folder = process.temporary_folder()
        process.write_file(folder .. "/admission.yaml", admission)
        plane = functional.controlplane.start { "--no-controller-manager", "--crds", "operators/memcached/crd.yaml",
            "--api-arg", "--runtime-config=events.k8s.io/v1=false", "--api-arg", "--enable-admission-plugins=EventRateLimit",
            "--api-arg", "--admission-control-config-file=" .. folder .. "/admission.yaml" }
        plane:put_scripts("reports", { ["reports.lua"] = script })
        host = functional.host.start { plane = plane }
        host:await_ready()
        plane:create("memcacheds", "default", functional.memcached("a", { size = 1, image = "fine" }))
    end)

    teardown(function()
        functional.host.stop_all()
        plane:stop()
        process.remove_tree(folder)
    end)

    local function status()
        return plane:get("memcacheds", "default", "a").status
    end

    local function await_size(size)
        eventually(5, ("the status says %d"):format(size), function()
            return status() and status().readyReplicas == size
        end)
    end

    local function image(what, size)
        plane:patch("memcacheds", "default", "a", { spec = { image = what, size = size } })
    end

    local function answers(mark)
        local codes = {}
        for _, write in ipairs(plane.audit:writes_since(mark)) do
            local verb, code = write.text:match "^(%S+) events .* (%d+)$"
            codes[#codes + 1] = verb and verb .. " " .. code
            assert.not_equal("events.k8s.io", write.entry.objectRef and write.entry.objectRef.apiGroup)
        end
        return codes
    end

    it("are of core/v1", function()
        await_size(1)
        image("again", 2)
        local event = eventually(10, "the Event is there", function()
            return plane:list("events", "default", "fieldSelector=involvedObject.name%3Da")[1]
        end)
        assert.equal("Even", event.reason)
        assert.equal("the same each time", event.message)
        assert.equal("Normal", event.type)
        assert.equal("tidelock", event.source.component)
        assert.equal("Memcached", event.involvedObject.kind)
        assert.equal(1, event.count)
        assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ$", event.firstTimestamp)
        assert.equal(event.firstTimestamp, event.lastTimestamp)
        assert.equal("create 201", table.concat(answers(0), ","):sub(-10))
        assert.is_nil(table.concat(answers(0), ","):find("create [45]"))
    end)

    it("are tried again when there were too many, and hold nothing up", function()
        local mark = plane.audit:mark()
        image("many", 3) -- 41 of them
        for size = 4, 9 do
            image("fine", size)
            await_size(size)
        end
        local codes = eventually(20, "all reasons are there", function()
            local reasons, n = {}, 0
            for _, event in ipairs(plane:list("events", "default", "fieldSelector=involvedObject.name%3Da")) do
                n = n + (not reasons[event.reason] and event.reason:find "^Reason%d+$" and 1 or 0)
                reasons[event.reason] = true
            end
            return n == 30 and answers(mark), n .. " of 30"
        end)
        assert.truthy(table.concat(codes, ","):find("create 429", 1, true), table.concat(codes, ","))
        assert.equal(0, host:metric("tidelock_events_total", { result = "dropped" }) or 0)
        assert.same({ readyReplicas = 9 }, status()) -- and no Reconciled, as nothing failed
    end)
end)
