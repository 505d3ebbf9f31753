---@meta
-- luacheck: ignore 212 241
--- Types for editors that read LuaCATS annotations (lua-language-server, EmmyLua). Nothing loads this file at run time.

---@alias tidelock.Kind string "v1/Pod", "apps/v1/Deployment", "cache.example.com/v1alpha1/Memcached"
---@alias tidelock.Duration string|number Go's spelling ("30s", "1h30m") or seconds

---@class tidelock.Metadata
---@field name string
---@field namespace? string
---@field uid? string
---@field resourceVersion? string
---@field generation? integer
---@field creationTimestamp? string
---@field deletionTimestamp? string
---@field labels? table<string, string>
---@field annotations? table<string, string>
---@field ownerReferences? table[]
---@field finalizers? string[]

---@class tidelock.Object
---@field apiVersion string
---@field kind string
---@field metadata tidelock.Metadata
---@field spec? any
---@field status? any
---@field data? any
---@field [string] any

---@class tidelock.Condition
---@field type string
---@field status "True"|"False"|"Unknown"
---@field reason string
---@field message string
---@field lastTransitionTime? string filled by the host
---@field observedGeneration? integer

---@class tidelock.Event
---@field type "Normal"|"Warning"
---@field reason string CamelCase; cut at 128 bytes
---@field message string cut at 1024 bytes

---@class tidelock.Quantity
---@operator add(tidelock.Quantity|string|number): tidelock.Quantity
---@operator sub(tidelock.Quantity|string|number): tidelock.Quantity
---@operator mul(integer): tidelock.Quantity
---@operator unm: tidelock.Quantity
local Quantity = {}

---@param other tidelock.Quantity|string|number
---@return integer -1, 0 or 1
function Quantity:compare(other) end

---@return number
function Quantity:tonumber() end

---@class tidelock.ListOptions
---@field namespace? string default: the subject's; "*": all
---@field labels? table<string, string>|string a map, or a selector such as "app=web,tier in (a,b),!old"
---@field fields? string|table<string, string> a field selector such as "spec.nodeName=n1"
---@field index? table<string, string> values by the names of the script's index: { node = "n1" }
---@field owner? string|tidelock.Object an owner that was read, or its UID
---@field metadata? boolean only apiVersion, kind and metadata

---@class tidelock.World
---@field env table<string, any> the host's environment: its name and values
local World = {}

--- An object, or nil. The namespace defaults to the subject's.
---@param kind tidelock.Kind
---@param name string
---@param namespace? string
---@return tidelock.Object?
function World.get(kind, name, namespace) end

--- Objects, sorted by namespace and name.
---@param kind tidelock.Kind
---@param options? tidelock.ListOptions
---@return tidelock.Object[]
function World.list(kind, options) end

--- The live children of the subject.
---@param kind tidelock.Kind
---@return tidelock.Object[]
function World.children(kind) end

--- When the pass began: the same at each call.
---@return number seconds since 1970; k8s.format_time makes a time of the API of it
function World.now() end

--- A text of the script's ConfigMap or folder that is not a .lua file, or nil.
---@param key string
---@return string?
function World.data(key) end

---@param level "error"|"warn"|"info"|"debug"
---@param message string
---@param fields? table<string, any>
function World.log(level, message, fields) end

--- A generated secret: the same on every pass for this subject and name.
---@param name string
---@param options? { length?: integer, charset?: string }
---@return string
function World.secret_value(name, options) end

---@class tidelock.Entry
---@field object tidelock.Object
---@field once? boolean created, then never touched
---@field keep? boolean stays when it is no longer returned, and when the subject goes
---@field replace? boolean deleted and created again when a field that cannot change must
---@field adopt? string[] field managers from whom an existing object is taken over
---@field after? tidelock.Object[] entries of this `apply` that must be ready before it is created, and outlive it
---@field ready? boolean|fun(live: tidelock.Object): boolean? whether the live child is ready; default: what its kind tells

---@class tidelock.PatchEntry
---@field object tidelock.Object
---@field force? boolean takes fields over from other managers

---@class tidelock.Result
---@field apply? (tidelock.Object|tidelock.Entry)[] all children; others are deleted; nil: children are left alone
---@field patch? (tidelock.Object|tidelock.PatchEntry)[] fields on objects of others; released when left out
---@field delete? tidelock.Object[] references
---@field status? table complete; {} clears it; nil: left alone
---@field events? tidelock.Event[]
---@field requeue_after? tidelock.Duration

---@class tidelock.FinalizeResult: tidelock.Result
---@field done? boolean true: the finalizer is taken away

---@class tidelock.Retry
---@field kind "exponential"|"fast_slow"|"fixed"

---@class tidelock.Limits
---@field cpu? tidelock.Duration CPU time of a pass; default 100 ms
---@field memory? string|number a size such as "32Mi", or bytes; default 16 MiB

---@class tidelock.Script
---@field name? string a DNS label; default: the file's stem
---@field subject tidelock.Kind
---@field selector? string label selector for subjects
---@field fields? string field selector for subjects
---@field namespaces? string[] where subjects are watched; default: everywhere
---@field changed? string[] dotted paths: a pass only when one of them changed
---@field when? fun(old: tidelock.Object, new: tidelock.Object): boolean old: as the last completed pass saw it
---@field reconcile fun(object: tidelock.Object, world: tidelock.World): tidelock.Result?
---@field finalize? fun(object: tidelock.Object, world: tidelock.World): tidelock.FinalizeResult?
---@field index? table<string, string> names for paths of fields, for world.list: { node = "spec.nodeName" }
---@field workers? integer
---@field resync? tidelock.Duration
---@field retry? tidelock.Retry
---@field limits? tidelock.Limits
