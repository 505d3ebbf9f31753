--- The frame of a functional spec: with a control plane it runs, without one it is shown as pending.
local controlplane = require "spec.functional.support.controlplane"

local functional = {
    controlplane = controlplane,
    process = require "spec.functional.support.process",
    host = require "spec.functional.support.host",
    http = require "spec.functional.support.http",
    widgets = require "spec.functional.support.widgets",
    audit = require "spec.functional.support.audit",
    eventually = require("spec.functional.support.wait").eventually,
    always = require("spec.functional.support.wait").always,
    limit = require("spec.functional.support.wait").limit,
    null = controlplane.null,
    sanitized = require("spec.functional.support.wait").sanitized,
}

--- describe(), or one pending line that says why nothing here can run.
function functional.describe(name, body)
    local busted = getfenv(2) -- busted's functions are in the environment of the spec file only
    local available, reason = controlplane.available()
    if available then
        return busted.describe(name, body)
    end
    return busted.describe(name, function()
        busted.pending("needs a control plane: " .. reason)
    end)
end

--- The hooks of specs about Widgets, on the shared control plane: the kinds are there, each test has a namespace of its own,
-- and no host and no object is left after it. `use(plane, namespace)` is told of both, at first without the namespace.
function functional.around_widgets(prefix, use)
    local busted, widgets = getfenv(2), functional.widgets
    local plane

    busted.setup(function()
        plane = controlplane.shared()
        use(plane)
        widgets.install(plane)
        widgets.clean(plane)
    end)

    busted.teardown(function()
        widgets.remove(plane)
    end)

    busted.before_each(function()
        use(plane, plane:namespace(prefix))
    end)

    busted.after_each(function()
        functional.host.stop_all()
        widgets.clean(plane)
    end)
end

--- A script small enough to follow: for each Memcached a ConfigMap NAME-note whose text is `text`.
function functional.note_script(name, text, extra)
    return ([[
local k8s = require "tidelock"
return {
  name = "%s",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
    local name = memcached.metadata.name
    %s
    return { apply = { {
      apiVersion = "v1", kind = "ConfigMap",
      metadata = { name = name .. "-note", namespace = memcached.metadata.namespace },
      data = { text = "%s" },
    } } }
  end,
}
]]):format(name, extra or "", text)
end

function functional.memcached(name, spec)
    return {
        apiVersion = "cache.example.com/v1alpha1", kind = "Memcached", metadata = { name = name },
        spec = spec or { size = 1, image = "memcached:1.6" },
    }
end

--- Text of a note_script's child, nil while there is none.
function functional.note(plane, namespace, name)
    local child = plane:get("configmaps", namespace, name .. "-note")
    return child and child.data.text
end

return functional
