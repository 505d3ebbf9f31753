--- Kinds for the specs of what scripts return: Widgets (with a status subresource and a typed schema), Plains (without
-- either) and Rooms (cluster-scoped); and the rights to use them.
local cjson = require "cjson"
local eventually = require("spec.functional.support.wait").eventually

local widgets = {}

local kinds = [[
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.x.test}
spec:
  group: x.test
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              big: {type: integer, format: int64}
              ratio: {type: number}
              m: {type: object, additionalProperties: {type: string}}
              arr: {type: array, items: {type: string}}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              keyed:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name, ns]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, ns: {type: string, default: default}}
          status:
            type: object
            properties:
              phase: {type: string}
              count: {type: integer}
              big: {type: integer, format: int64}
              odd: {type: integer, format: int64}
              neg: {type: integer, format: int64}
              half: {type: integer}
              ratio: {type: number}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              items: {type: array, items: {type: string}}
              byName: {type: object, additionalProperties: {type: string}}
              observedGeneration: {type: integer, format: int64}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [type, status]
                  properties:
                    type: {type: string}
                    status: {type: string}
                    reason: {type: string}
                    message: {type: string}
                    observedGeneration: {type: integer, format: int64}
                    lastTransitionTime: {type: string, format: date-time}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plains.x.test}
spec:
  group: x.test
  scope: Namespaced
  names: {plural: plains, singular: plain, kind: Plain}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rooms.x.test}
spec:
  group: x.test
  scope: Cluster
  names: {plural: rooms, singular: room, kind: Room}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tidelock-widgets}
rules:
- {apiGroups: [x.test], resources: ["*"], verbs: ["*"]}
- {apiGroups: [""], resources: [pods, configmaps, secrets, services, persistentvolumeclaims, namespaces], verbs: ["*"]}
- {apiGroups: [apps, autoscaling, networking.k8s.io], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tidelock-widgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tidelock-widgets}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]

--- The text of a kind of one spec's own, namespaced, and of the host's rights to use it. `options`: group, kind,
-- subresources and schema (openAPIV3Schema), both as YAML in one line.
function widgets.own_kind(options)
    local singular = options.kind:lower()
    local values = {
        GROUP = options.group, KIND = options.kind, SINGULAR = singular, PLURAL = singular .. "s",
        SUBRESOURCES = options.subresources, SCHEMA = options.schema,
    }
    return (([[
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: PLURAL, singular: SINGULAR, kind: KIND}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: SUBRESOURCES
    schema: {openAPIV3Schema: SCHEMA}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: GROUP}
rules:
- {apiGroups: [GROUP], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: GROUP}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: GROUP}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tidelock}]
]]):gsub("%u%u%u%u+", values))
end

function widgets.install(plane)
    plane:apply_text(kinds)
    eventually(30, "the kinds are served", function()
        return plane:list "widgets" and plane:list "plains" and plane:list "rooms"
    end)
end

--- Takes the rights back. The kinds stay: the garbage collector would learn of new ones late.
function widgets.remove(plane)
    plane:kubectl { "delete", "clusterrolebinding,clusterrole", "tidelock-widgets" }
end

--- Takes away scripts, Memcacheds and what is left of these kinds, once no host runs.
function widgets.clean(plane)
    plane:clean()
    for _, resource in ipairs { "widgets", "plains", "rooms" } do
        for _, item in ipairs(plane:list(resource)) do
            if item.metadata.finalizers then
                plane:patch(resource, item.metadata.namespace, item.metadata.name, { metadata = { finalizers = cjson.null } })
            end
            plane:delete(resource, item.metadata.namespace, item.metadata.name)
        end
    end
end

--- A script for Widgets (or another kind of theirs): `body` is that of reconcile(o, world), `rest` stands beside it in
-- the table. `cm(name, data)` makes a ConfigMap, `child(kind, name, spec)` a child of one of these kinds.
function widgets.script(name, body, rest, kind)
    return ([[
local k8s = require "tidelock"
local function cm(name, data)
  return { apiVersion = "v1", kind = "ConfigMap", metadata = { name = name }, data = data }
end
local function child(kind, name, spec)
  return { apiVersion = "x.test/v1", kind = kind, metadata = { name = name, labels = { child = "yes" } }, spec = spec }
end
return {
  name = "%s",
  subject = "x.test/v1/%s",
  selector = "!child",
  reconcile = function(o, world)
%s
  end,
%s
}
]]):format(name, kind or "Widget", body, rest or "")
end

function widgets.object(kind, name, spec)
    return { apiVersion = "x.test/v1", kind = kind, metadata = { name = name }, spec = spec }
end

--- Writes of the host after the mark that are no Events and touch the namespace (nil: any but the host's own).
function widgets.writes(plane, mark, namespace)
    local found = {}
    for _, write in ipairs(plane.audit:writes_since(mark)) do
        local ref = write.entry.objectRef or {}
        local counts = ref.namespace == namespace or (not namespace and ref.namespace ~= "tidelock-system")
        if ref.resource ~= "events" and counts then
            found[#found + 1] = write
        end
    end
    return found
end

return widgets
