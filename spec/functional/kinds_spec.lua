--- Every kind that a Kubernetes server has built in, on its way through a script: what was read and is returned is the same
-- JSON value, member for member and number for number. The script returns each object as the `spec` of a Plain, whose
-- schema takes anything; the spec reads both texts from the server. First objects of the cluster, then random ones of all
-- kinds in its OpenAPI documents, which few servers would take for what they say they are: these are read from Plains, too.
-- luacheck: no max string line length
local functional = require "spec.functional.support"
local random_object = require "spec.functional.support.random_object"
local widgets, eventually = functional.widgets, functional.eventually

-- For each kind something to read, with what its fields can hold: empty and null values, quantities, numbers that are
-- texts, integers of 64 bits. Kinds that are missing here have objects of the cluster's own.
local namespaced = [=[
{apiVersion: v1, kind: ConfigMap, metadata: {name: k}, data: {a: "1", b: "", c: "012", d: "null"}, binaryData: {x: "AAEC/w=="}, immutable: false}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: k}, subsets: [{addresses: [{ip: 10.1.2.3}], notReadyAddresses: [{ip: 10.1.2.4}], ports: [{port: 80}]}]}
---
{apiVersion: v1, kind: Event, metadata: {name: k}, involvedObject: {kind: Pod, name: p, namespace: NAMESPACE}, reason: R, message: "a\n\"b\"", type: Normal, count: 3}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: k}, spec: {limits: [{type: Container, max: {cpu: 1500m, memory: 1.5Gi}, default: {cpu: "0.5"}}, {type: Pod}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: k}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeMode: Block, resources: {requests: {storage: 1500M}}}
---
apiVersion: v1
kind: Pod
metadata: {name: k, annotations: {empty: ""}, labels: {a: ""}}
spec:
  nodeSelector: {never: "true"}
  securityContext: {}
  terminationGracePeriodSeconds: 9007199254740993
  tolerations: [{operator: Exists}, {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: t, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: t, labelSelector: {}}}]}}
  containers:
  - name: c
    image: registry.test/a/b@sha256:0000000000000000000000000000000000000000000000000000000000000000
    command: ["/bin/sh", "-c", "echo \"$X\" | sed 's/a/b/' && true\n"]
    args: []
    env: [{name: A}, {name: B, value: "1"}, {name: "N", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]
    resources: {requests: {cpu: 0.1, memory: 128Mi, ephemeral-storage: "1e3"}, limits: {}}
    securityContext: {runAsUser: 1000660000, capabilities: {}}
    livenessProbe: {httpGet: {path: /, port: web, httpHeaders: [{name: A, value: ""}]}}
    readinessProbe: {tcpSocket: {port: 80}}
  volumes:
  - {name: e, emptyDir: {}}
  - {name: f, emptyDir: {sizeLimit: 1.5Gi, medium: Memory}}
  - {name: c, configMap: {name: x, items: [], defaultMode: 0o644}}
  - {name: p, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 3607}}, {downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}]}}
---
{apiVersion: v1, kind: PodTemplate, metadata: {name: k}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: k}, spec: {replicas: 0, selector: {a: k-rc}, template: {metadata: {labels: {a: k-rc}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: k}, spec: {hard: {pods: 1k, requests.cpu: 1500m, count/things.x.test: "7"}, scopes: [NotTerminating]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: k}, type: Opaque, data: {a: AAEC, e: ""}, stringData: {s: "ä\u2028b"}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: k}, secrets: [], imagePullSecrets: [{name: x}], automountServiceAccountToken: false}
---
{apiVersion: v1, kind: Service, metadata: {name: k}, spec: {selector: {}, ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 81, targetPort: http}]}}
---
{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: k}, revision: 9007199254740993, data: {a: [[], {}, null, 1.5, 1e-7, -0.25], e: {}, n: null, big: 9223372036854775807}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: k}, spec: {selector: {matchLabels: {a: k-ds}}, updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}, template: {metadata: {labels: {a: k-ds}}, spec: {nodeSelector: {never: "true"}, containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: k}, spec: {replicas: 0, strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}, selector: {matchLabels: {a: k-d}}, template: {metadata: {labels: {a: k-d}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: k}, spec: {replicas: 0, selector: {matchExpressions: [{key: a, operator: In, values: [k-rs]}]}, template: {metadata: {labels: {a: k-rs}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: k}, spec: {replicas: 0, serviceName: s, selector: {matchLabels: {a: k-ss}}, template: {metadata: {labels: {a: k-ss}}, spec: {containers: [{name: c, image: i}]}}, volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: k}, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}, metrics: [{type: Pods, pods: {metric: {name: m, selector: {}}, target: {type: AverageValue, averageValue: 1500m}}}], behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 15}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: k}, spec: {schedule: "0 0 1 1 *", suspend: true, jobTemplate: {metadata: {}, spec: {template: {metadata: {}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: k}, spec: {suspend: true, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [1, 2]}}, {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: k}, spec: {holderIdentity: "", leaseDurationSeconds: 15, renewTime: "2026-01-02T03:04:05.000000Z", acquireTime: "2026-01-02T03:04:05.123456Z"}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: k}, addressType: IPv4, endpoints: [{addresses: [10.1.2.3], conditions: {}}, {addresses: [10.1.2.4], conditions: {ready: false}}], ports: [{port: 80, name: ""}]}
---
{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: k-new}, eventTime: "2026-01-02T03:04:05.123456Z", action: A, reason: R, reportingController: x.test/c, reportingInstance: i, type: Warning, note: "n", regarding: {kind: Pod, name: p, namespace: NAMESPACE}, series: {count: 2, lastObservedTime: "2026-01-02T03:04:06.000000Z"}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: k}, spec: {defaultBackend: {service: {name: a, port: {name: web}}}, tls: [{hosts: [], secretName: t}, {hosts: ["*.h.test"]}], rules: [{host: h.test, http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: k}, spec: {podSelector: {}, ingress: [], egress: [{}, {to: [{ipBlock: {cidr: 10.0.0.0/8, except: []}}, {podSelector: {}, namespaceSelector: {}}], ports: [{port: 80, endPort: 90}, {port: web, protocol: UDP}]}], policyTypes: [Ingress, Egress]}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: k}, spec: {minAvailable: 50%, selector: {}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: k}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}, subjects: [{kind: User, name: u, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: s, namespace: default}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: k}, rules: [{apiGroups: ["", "*"], resources: [pods/log], resourceNames: [], verbs: [get]}]}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: k}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: x.test, allocationMode: ExactCount, count: 2, selectors: [{cel: {expression: "device.driver == \"x\""}}]}}], constraints: [{requests: [], matchAttribute: x.test/a}], config: [{requests: [a], opaque: {driver: x.test, parameters: {any: [1, null, {}, []], n: 9007199254740993}}}]}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: k}, spec: {metadata: {labels: {a: b}}, spec: {devices: {requests: [{name: a, firstAvailable: [{name: b, deviceClassName: x.test}]}]}}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: k}, storageClassName: x, capacity: 1500M, maximumVolumeSize: 1Ti, nodeTopology: {}}
]=]

local cluster_scoped = [=[
{apiVersion: v1, kind: PersistentVolume, metadata: {name: kinds-spec}, spec: {capacity: {storage: 1.5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x, type: ""}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: kinds-spec}, spec: {failurePolicy: Ignore, reinvocationPolicy: Never, matchConstraints: {namespaceSelector: {matchLabels: {never: "true"}}, resourceRules: [{apiGroups: [x.test], apiVersions: ["*"], operations: [CREATE], resources: [things]}]}, variables: [{name: a, expression: "1 < 2"}], mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {\"a\": \"b\"}}}"}}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: kinds-spec}, spec: {policyName: kinds-spec, matchResources: {objectSelector: {}}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: kinds-spec}, webhooks: [{name: a.x.test, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Ignore, timeoutSeconds: 1, namespaceSelector: {matchLabels: {never: "true"}}, clientConfig: {url: "https://h.test:1/a"}, rules: [{apiGroups: [x.test], apiVersions: [v1], operations: ["*"], resources: [things]}]}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: kinds-spec}, spec: {failurePolicy: Ignore, matchConstraints: {resourceRules: [{apiGroups: [x.test], apiVersions: ["*"], operations: [CREATE], resources: [things]}]}, validations: [{expression: "object.spec.a <= 5", messageExpression: "'a' + \"b\""}], auditAnnotations: [{key: k, valueExpression: "'v'"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: kinds-spec}, spec: {policyName: kinds-spec, validationActions: [Audit]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: kinds-spec}, webhooks: [{name: a.x.test, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Ignore, namespaceSelector: {matchLabels: {never: "true"}}, clientConfig: {service: {name: s, namespace: default}, caBundle: ""}, rules: []}]}
---
{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: kinds-spec}, spec: {request: REQUEST, signerName: x.test/s, usages: [client auth], expirationSeconds: 3600}}
---
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: kinds-spec}, spec: {controller: x.test/c, parameters: {apiGroup: x.test, kind: K, name: "x"}}}
---
{apiVersion: networking.k8s.io/v1, kind: IPAddress, metadata: {name: 10.97.1.1}, spec: {parentRef: {resource: services, name: none, namespace: default}}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kinds-spec}, handler: h, overhead: {podFixed: {cpu: 100m}}, scheduling: {nodeSelector: {a: b}, tolerations: []}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: kinds-spec}, spec: {selectors: [{cel: {expression: "device.driver == 'x.test'"}}], config: [{opaque: {driver: x.test, parameters: {a: {}, l: [], n: null}}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: kinds-spec}, spec: {driver: x.test, pool: {name: p, generation: 9007199254740993, resourceSliceCount: 1}, allNodes: true, devices: [{name: d, attributes: {a: {int: 9007199254740993}, b: {bool: false}, c: {string: ""}, v: {version: 1.0.0}}, capacity: {memory: {value: 1.5Gi}}}]}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: kinds-spec}, spec: {attachRequired: false, tokenRequests: [{audience: a, expirationSeconds: 3600}], volumeLifecycleModes: [Persistent]}}
---
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: kinds-spec}, spec: {drivers: [{name: d.x.test, nodeID: "1", topologyKeys: [], allocatable: {count: 0}}]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: kinds-spec}, provisioner: x.test/p, parameters: {a: "1", b: ""}, mountOptions: [], allowedTopologies: [{matchLabelExpressions: [{key: a, values: [b]}]}], volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: kinds-spec}, spec: {attacher: x.test, nodeName: none, source: {persistentVolumeName: none}}}
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: kinds-spec}, driverName: x.test/d, parameters: {iops: "1000"}}
]=]

local rights = [[
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-kinds}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]

-- A JSON text in one form: members sorted, no blanks, numbers and texts as they stand, the paths in `skip` left out. The spec's
-- own reader, as one that makes Lua values of it could lose the same things as the host.
local function canonical(text, skip)
    local at = 1
    local value

    local function blanks()
        at = text:find("[^%s]", at)
    end

    local function string_token()
        local from = at
        at = at + 1
        while text:sub(at, at) ~= '"' do
            at = at + (text:sub(at, at) == "\\" and 2 or 1)
        end
        at = at + 1
        return text:sub(from, at - 1)
    end

    local function members(close, read)
        local found = {}
        at = at + 1
        blanks()
        while text:sub(at, at) ~= close do
            found[#found + 1] = read(#found + 1)
            blanks()
            if text:sub(at, at) == "," then
                at = at + 1
                blanks()
            end
        end
        at = at + 1
        return found
    end

    function value(path)
        blanks()
        local c = text:sub(at, at)
        if c == "{" then
            local found = members("}", function()
                local key = string_token()
                blanks()
                at = at + 1 -- the colon
                local where = path .. "." .. key:sub(2, -2)
                local member = { key = key, text = key .. ":" .. value(where) }
                return skip and skip[where] and { key = "", text = "" } or member
            end)
            table.sort(found, function(a, b) return a.key < b.key end)
            local texts = {}
            for _, member in ipairs(found) do
                texts[#texts + 1] = member.text ~= "" and member.text or nil
            end
            return "{" .. table.concat(texts, ",") .. "}"
        elseif c == "[" then
            return "[" .. table.concat(members("]", function(i)
                return value(path .. "[" .. i .. "]")
            end), ",") .. "]"
        elseif c == '"' then
            return string_token()
        end
        local from, to = text:find("^[%w%.%+%-]+", at)
        at = to + 1
        return text:sub(from, to)
    end

    return value ""
end

functional.describe("the built-in kinds", function()
    local plane, namespace, host, kinds

    -- All kinds that can be read and watched, as the server tells them; those of other specs are no built-in ones.
    local function served()
        local found, versions = {}, { { path = "/api/v1", group = "", api_version = "v1" } }
        for _, group in ipairs(plane.api:json("GET", "/apis").groups) do
            local api_version = group.preferredVersion.groupVersion
            local built_in = group.name:find("%.k8s%.io$") or not group.name:find(".", 1, true)
            versions[#versions + 1] = built_in
                and { path = "/apis/" .. api_version, group = group.name, api_version = api_version } or nil
        end
        for _, version in ipairs(versions) do
            for _, resource in ipairs(plane.api:json("GET", version.path).resources) do
                local verbs = table.concat(resource.verbs, " ")
                if not resource.name:find("/", 1, true) and verbs:find "get" and verbs:find "list" and verbs:find "watch" then
                    found[#found + 1] = {
                        group = version.group, kind = resource.kind, id = version.api_version .. "/" .. resource.kind,
                        path = version.path, plural = resource.name, namespaced = resource.namespaced,
                    }
                end
            end
        end
        return found
    end

    local function list(kind)
        local where = kind.path .. (kind.namespaced and "/namespaces/" .. namespace or "") .. "/" .. kind.plural
        return plane.api:json("GET", where).items, where
    end

    setup(function()
        plane = functional.controlplane.shared()
        widgets.install(plane)
        widgets.clean(plane)
        namespace = plane:namespace "kinds"
        plane:apply_text(rights)
        local code, request = functional.process.run { "sh", "-c",
            "openssl req -newkey rsa:2048 -noenc -subj /CN=x -keyout /dev/null 2>/dev/null | openssl base64 -A" }
        assert.equal(0, code)
        plane:kubectl({ "create", "-n", namespace, "-f", "-" }, (namespaced:gsub("NAMESPACE", namespace)))
        plane:kubectl({ "create", "-f", "-" }, (cluster_scoped:gsub("REQUEST", function() return request end)))
        kinds = served()
    end)

    teardown(function()
        functional.host.stop_all()
        widgets.clean(plane)
        plane:kubectl({ "delete", "--ignore-not-found", "--wait=false", "-f", "-" },
            (cluster_scoped:gsub("REQUEST", "AAAA")))
        plane:delete("namespaces", nil, namespace)
        plane:kubectl { "delete", "clusterrolebinding", "tidelock-kinds" }
        widgets.remove(plane)
    end)

    after_each(function()
        functional.host.stop_all()
        widgets.clean(plane)
    end)

    -- With a script that may do with each kind what it likes. `body`: of its reconcile(o, world).
    local function start(body)
        plane:put_scripts("kinds", { ["kinds.lua"] = widgets.script("kinds", body) })
        local args = { "--script-cpu", "60s" }
        for _, kind in ipairs(kinds) do
            args[#args + 1] = "--grant"
            args[#args + 1] = ("kinds=%s/%s"):format(kind.group, kind.kind)
        end
        host = functional.host.start { plane = plane, args = args }
        host:await_ready()
    end

    it("go through a script unchanged", function()
        start [[
    local object = world.get(o.spec.kind, o.spec.name, o.spec.namespace)
    return { apply = { child("Plain", o.metadata.name, object) } }]]
        assert.is_true(#kinds > 50, #kinds .. " kinds")

        local wanted = {}
        for _, kind in ipairs(kinds) do
            local items, where = list(kind)
            assert.is_true(#items > 0, "there is no " .. kind.id .. " to read")
            for i = 1, math.min(#items, 3) do
                local object = items[i].metadata
                local name = ("k-%d-%d"):format(#wanted + 1, i)
                wanted[#wanted + 1] = { copy = name, id = kind.id, path = where .. "/" .. object.name:gsub(":", "%%3A") }
                plane:create("widgets", namespace, widgets.object("Widget", name,
                    { kind = kind.id, name = object.name, namespace = object.namespace }))
            end
        end
        for _, each in ipairs(wanted) do
            eventually(30, each.id .. " is copied as it is", function()
                local status, text = plane.api:request("GET", each.path)
                assert(status == 200, text)
                local original = canonical(text, { [".metadata.managedFields"] = true })
                local copy = canonical(plane:text("plains", namespace, each.copy)):match '"spec":({.*)}$'
                return original == copy, ("%s\n%s\n%s"):format(original, copy, host:log_text():sub(-600))
            end)
        end
        assert.equal(0, #host:log_matching "pass failed", host:log_text():sub(-2000))
    end)

    -- What the server makes for each object anew.
    local made_anew = {
        ["v1/Service"] = { "spec.clusterIP", "spec.clusterIPs" },
        ["batch/v1/Job"] = { "spec.selector", "spec.template.metadata" },
    }

    it("are read, returned as children of their own kind, the same, and then cost nothing", function()
        start [[
    local copy = world.get(o.spec.kind, o.spec.name)
    copy.metadata, copy.status = { name = o.metadata.name }, nil
    for _, path in ipairs(o.spec.without or {}) do
      local at, last = copy, path:match "[^.]+$"
      for part in path:sub(1, -#last - 1):gmatch "[^.]+" do
        at = at[part]
      end
      at[last] = nil
    end
    return { apply = { copy } }]]
        local copies, mark = {}, plane.audit:mark()
        for i, kind in ipairs(kinds) do
            local path = ("%s/namespaces/%s/%s/"):format(kind.path, namespace, kind.plural)
            local name = kind.id == "events.k8s.io/v1/Event" and "k-new" or "k"
            if kind.namespaced and plane.api:request("GET", path .. name) == 200 then
                local copy = { id = kind.id, from = path .. name, to = path .. "copy-" .. i }
                copy.skip = { [".metadata"] = true, [".status"] = true }
                local without = made_anew[kind.id] or {}
                for _, member in ipairs(without) do
                    copy.skip["." .. member] = true
                end
                copies[#copies + 1] = copy
                plane:create("widgets", namespace, widgets.object("Widget", "copy-" .. i,
                    { kind = kind.id, name = name, without = #without > 0 and without or nil }))
            end
        end
        assert.is_true(#copies >= 30, #copies .. " kinds")
        for _, copy in ipairs(copies) do
            eventually(30, copy.id .. " has a copy that is the same", function()
                local _, original = plane.api:request("GET", copy.from)
                local status, text = plane.api:request("GET", copy.to)
                assert(status == 200, text .. host:log_text():sub(-600))
                local a, b = canonical(original, copy.skip), canonical(text, copy.skip)
                return a == b, ("%s\n%s"):format(a, b)
            end)
        end
        assert.equal(0, #host:log_matching "pass failed", host:log_text():sub(-2000))
        functional.process.sleep(1)
        local function written() -- Events among them
            local found = {}
            for _, write in ipairs(plane.audit:writes_since(mark)) do
                found[#found + 1] = (write.entry.objectRef.name or ""):find "^copy%-%d+$" and write or nil
            end
            return found
        end
        assert.equal(#copies, #written(), functional.audit.describe(written()))
        local function passes()
            return host:metric("controller_runtime_reconcile_total", { controller = "kinds" })
        end
        mark = plane.audit:mark()
        local before = passes()
        plane:kubectl { "annotate", "widgets", "--all", "-n", namespace, "touched=yes" }
        eventually(30, "all have had another pass", function()
            return passes() >= before + #copies
        end)
        functional.process.sleep(0.5)
        assert.equal(0, #written(), functional.audit.describe(written()))
    end)

    -- The OpenAPI documents of what the server has built in.
    local function documents()
        local found = {}
        for path in pairs(plane.api:json("GET", "/openapi/v3").paths) do
            local group = path:match "^apis/([^/]+)/[^/]+$"
            if path == "api/v1" or group and (group:find "%.k8s%.io$" or not group:find(".", 1, true)) then
                found[#found + 1] = path
            end
        end
        table.sort(found)
        for i, path in ipairs(found) do
            found[i] = assert(plane.api:json("GET", "/openapi/v3/" .. path), path)
        end
        return found
    end

    -- A random one as the server gives it back, with its defaults and what it normalises, if it takes it.
    local function as_served(document, kind, name)
        for _, each in ipairs(kinds) do
            if each.id == kind.api_version .. "/" .. kind.kind then
                local where = each.path .. (each.namespaced and "/namespaces/" .. namespace or "") .. "/" .. each.plural
                local text = random_object.make(document, kind, { name = name })
                local status, answer = plane.api:request("POST", where .. "?dryRun=All", text, "application/json")
                return status == 201 and answer or nil
            end
        end
    end

    it("go through a script unchanged when they are random ones, made of their schemas", function()
        random_object.seed "spec/functional/kinds_spec.lua"
        plane:put_scripts("kinds", { ["kinds.lua"] = widgets.script("kinds", [[
    local apply = {}
    for _, name in ipairs(o.spec.names) do
      apply[#apply + 1] = child("Plain", "copy-" .. name, world.get("x.test/v1/Plain", name, o.metadata.namespace).spec)
    end
    return { apply = apply }]]) })
        host = functional.host.start { plane = plane, args = { "--script-cpu", "60s" } }
        host:await_ready()

        local count, of_server, seen, names = 0, 0, {}, {}
        for _, document in ipairs(documents()) do
            for _, kind in ipairs(random_object.kinds(document)) do
                local id = kind.api_version .. "/" .. kind.kind
                seen[id] = true
                for _ = 1, 4 do
                    count = count + 1
                    local name = ("r-%d"):format(count)
                    local answer = as_served(document, kind, name)
                    of_server = of_server + (answer and 1 or 0)
                    names[#names + 1] = name
                    plane:create("plains", namespace, ('{"apiVersion":"x.test/v1","kind":"Plain","metadata":{"name":"%s"},"spec":%s}')
                        :format(name, answer or random_object.make(document, kind)))
                end
            end
        end
        for _, kind in ipairs(kinds) do
            assert(seen[kind.id], kind.id .. " is in no document")
        end
        for from = 1, #names, 20 do
            plane:create("widgets", namespace, widgets.object("Widget", "random-" .. from,
                { names = { unpack(names, from, math.min(from + 19, #names)) } }))
        end
        local bytes = 0
        for _, name in ipairs(names) do
            local original = canonical(plane:text("plains", namespace, name)):match '"spec":({.*)}$'
            bytes = bytes + #original
            eventually(30, name .. " is copied as it is", function()
                local status, text = plane.api:request("GET", ("/apis/x.test/v1/namespaces/%s/plains/copy-%s"):format(namespace, name))
                local copy = status == 200 and canonical(text):match '"spec":({.*)}$'
                return original == copy, ("%s\n%s\n%s"):format(original, copy, host:log_text():sub(-600))
            end)
        end
        assert.equal(0, #host:log_matching "pass failed", host:log_text():sub(-2000))
        print(("%d objects of %d kinds, %d of them with the server's defaults, %d bytes: the same"):format(count, count / 4,
            of_server, bytes))
        assert.is_true(count / 4 >= #kinds)
        assert.is_true(of_server > 5, of_server .. " were taken by the server")
    end)
end)
