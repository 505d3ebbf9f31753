--- Real control planes for the specs: one for the whole run, others on demand, all gone when the runner ends.
local cjson = require "cjson"
local process = require "spec.functional.support.process"
local http = require "spec.functional.support.http"
local audit = require "spec.functional.support.audit"
local wait = require "spec.functional.support.wait"

local scripts = "spec/controlplane/"
local shared_variable = "TIDELOCK_CONTROLPLANE_DIR"
local memcached_crd = "operators/memcached/crd.yaml"
local unavailable = 69

-- Where the kinds the specs look at are served.
local served = {
    configmaps = "/api/v1", events = "/api/v1", namespaces = "/api/v1", pods = "/api/v1", secrets = "/api/v1",
    services = "/api/v1", serviceaccounts = "/api/v1",
    deployments = "/apis/apps/v1", replicasets = "/apis/apps/v1", jobs = "/apis/batch/v1",
    statefulsets = "/apis/apps/v1", networkpolicies = "/apis/networking.k8s.io/v1",
    endpointslices = "/apis/discovery.k8s.io/v1", clusterroles = "/apis/rbac.authorization.k8s.io/v1",
    persistentvolumeclaims = "/api/v1",
    memcacheds = "/apis/cache.example.com/v1alpha1",
    widgets = "/apis/x.test/v1", plains = "/apis/x.test/v1", rooms = "/apis/x.test/v1", -- support/widgets
    crates = "/apis/sequences.test/v1", -- support/random_children
}

local controlplane = {}
local Plane = {}
Plane.__index = Plane

local function trim(text)
    return (text:gsub("%s+$", ""))
end

--- The binary's path, or nil and the reason when this machine has none and cannot build it.
function controlplane.available()
    local code, printed, complained = process.run({ scripts .. "build" }, { timeout = 3600 })
    if code == unavailable then
        return nil, trim(complained)
    end
    assert(code == 0, complained)
    return trim(printed)
end

-- The handle of a running instance.
local function attach(dir)
    local function text(name)
        return trim(assert(process.read_file(dir .. "/" .. name), dir .. "/" .. name .. " is missing"))
    end
    local plane = setmetatable({ dir = dir, server = text "server" }, Plane)
    plane.api = http.client { base = plane.server, ca = dir .. "/pki/ca.crt", token = text "admin.token" }
    plane.audit = audit.of(dir .. "/log/audit.log")
    return plane
end

--- A fresh instance; options as of spec/controlplane/up.
function controlplane.start(options)
    local dir = process.temporary_folder()
    local args = { scripts .. "up", dir, "--owner", tostring(process.runner_pid()) }
    for _, option in ipairs(options or {}) do
        args[#args + 1] = option
    end
    local code, _, complained = process.run(args, { timeout = 300 })
    assert(code == 0, complained)
    local plane = attach(dir)
    plane:apply_file(scripts .. "host-rbac.yaml")
    return plane
end

--- The instance for the whole run, with scheduler, kwok and the CRD of memcached: the one of
-- TIDELOCK_CONTROLPLANE_DIR, else started on first use and left to spec/controlplane/up's --owner.
function controlplane.shared()
    local dir = os.getenv(shared_variable)
    if dir then
        local plane = attach(dir)
        plane:apply_file(scripts .. "host-rbac.yaml")
        return plane
    end
    local plane = controlplane.start { "--full", "--crds", memcached_crd }
    process.setenv(shared_variable, plane.dir) -- modules are loaded anew for each spec file, the environment stays
    return plane
end

function Plane:stop()
    process.run { scripts .. "down", self.dir }
    process.remove_tree(self.dir)
end

--- start, stop, kill, freeze or thaw one program, for example "kube-apiserver".
function Plane:component(name, action)
    local code, _, complained = process.run { scripts .. "component", self.dir, name, action }
    assert(code == 0, complained)
end

function Plane:kubeconfig(name)
    return ("%s/%s.kubeconfig"):format(self.dir, name or "host")
end

--- Runs kubectl as the admin; what it printed. `input` is its standard input.
function Plane:kubectl(args, input)
    local assets = os.getenv "KUBEBUILDER_ASSETS"
    local command = assets and { assets .. "/kubectl" } or { assert(controlplane.available()), "kubectl" }
    command[#command + 1] = "--kubeconfig=" .. self:kubeconfig "admin"
    for _, arg in ipairs(args) do
        command[#command + 1] = arg
    end
    local code, printed, complained = process.run(command, { input = input })
    assert(code == 0, complained)
    return printed
end

function Plane:apply_file(path)
    return self:kubectl { "apply", "-f", path }
end

function Plane:apply_text(text, namespace)
    return self:kubectl({ "apply", "-n", namespace or "default", "-f", "-" }, text)
end

function Plane:scale(kind, namespace, name, replicas)
    return self:kubectl { "scale", kind .. "/" .. name, "-n", namespace, "--replicas=" .. replicas }
end

-- Path of a collection (name nil) or an object; namespace nil: cluster-scoped, or all of them.
local function path(resource, namespace, name)
    local base = assert(served[resource], "unknown resource " .. resource)
    if namespace then
        base = base .. "/namespaces/" .. namespace
    end
    base = base .. "/" .. resource
    return name and base .. "/" .. name or base
end

--- The object, or nil.
function Plane:get(resource, namespace, name)
    return (self.api:json("GET", path(resource, namespace, name)))
end

--- The items. `query` without the "?": for example "labelSelector=app%3Dsample".
function Plane:list(resource, namespace, query)
    local list = self.api:json("GET", path(resource, namespace) .. (query and "?" .. query or ""))
    return list and list.items or {}
end

--- The object as the server writes it: numbers and empty lists as they are stored.
function Plane:text(resource, namespace, name)
    local status, text = self.api:request("GET", path(resource, namespace, name))
    assert(status == 200, text)
    return text
end

function Plane:create(resource, namespace, object)
    return self.api:json("POST", path(resource, namespace), object)
end

--- A JSON merge patch: cjson.null removes a field.
function Plane:patch(resource, namespace, name, change)
    return assert(self.api:json("PATCH", path(resource, namespace, name), change, "application/merge-patch+json"))
end

--- Deletes in the background, as kubectl does; nothing there is no error.
function Plane:delete(resource, namespace, name)
    self.api:json("DELETE", path(resource, namespace, name), { propagationPolicy = "Background" })
end

--- A new namespace for one spec; its name.
function Plane:namespace(prefix)
    local made = self:create("namespaces", nil, { metadata = { generateName = prefix .. "-" } })
    return made.metadata.name
end

--- Creates or replaces a ConfigMap of scripts: files is name -> text.
function Plane:put_scripts(name, files, namespace)
    namespace = namespace or "tidelock-system"
    local object = {
        apiVersion = "v1", kind = "ConfigMap", data = files,
        metadata = { name = name, labels = { ["tidelock.dev/scripts"] = "true" } },
    }
    if self:get("configmaps", namespace, name) then
        return self.api:json("PUT", path("configmaps", namespace, name), object)
    end
    return self:create("configmaps", namespace, object)
end

--- Events about an object of tidelock-system (ConfigMaps of scripts), as one text.
function Plane:events_about(name, namespace)
    local texts = {}
    local query = "fieldSelector=involvedObject.name%3D" .. name
    for _, event in ipairs(self:list("events", namespace or "tidelock-system", query)) do
        texts[#texts + 1] = ("%s %s: %s"):format(event.type, event.reason, event.message)
    end
    return table.concat(texts, "\n")
end

--- Takes away what earlier specs left where the next host would find it: scripts and Memcacheds.
function Plane:clean()
    self.api:json("DELETE", path("configmaps", "tidelock-system") .. "?labelSelector=tidelock.dev%2Fscripts%3Dtrue")
    for _, item in ipairs(self:list("memcacheds")) do
        self:delete("memcacheds", item.metadata.namespace, item.metadata.name)
    end
    wait.eventually(60, "no Memcached is left", function()
        return #self:list "memcacheds" == 0
    end)
end

controlplane.null = cjson.null

return controlplane
