--- A Deployment and a Service for every Memcached, and a status that tells which pods serve it.
local k8s = require "tidelock"

local PORT = 11211

local function labels(memcached)
  return {
    ["app.kubernetes.io/name"] = "memcached",
    ["app.kubernetes.io/instance"] = memcached.metadata.name,
  }
end

local function size(memcached)
  return memcached.spec.size or 1
end

local function deployment(memcached)
  return {
    apiVersion = "apps/v1",
    kind = "Deployment",
    metadata = { name = memcached.metadata.name, labels = labels(memcached) },
    spec = {
      replicas = size(memcached),
      selector = { matchLabels = labels(memcached) },
      template = {
        metadata = { labels = labels(memcached) },
        spec = {
          containers = {
            {
              name = "memcached",
              image = memcached.spec.image or "memcached:1.6",
              ports = { { name = "memcached", containerPort = PORT } },
            },
          },
        },
      },
    },
  }
end

local function service(memcached)
  return {
    apiVersion = "v1",
    kind = "Service",
    metadata = { name = memcached.metadata.name, labels = labels(memcached) },
    spec = {
      selector = labels(memcached),
      ports = { { name = "memcached", port = PORT, targetPort = "memcached" } },
    },
  }
end

local function status(memcached, world)
  local names = k8s.array {}
  for _, pod in ipairs(world.list("v1/Pod", { labels = labels(memcached) })) do
    names[#names + 1] = pod.metadata.name
  end
  local live = world.get("apps/v1/Deployment", memcached.metadata.name)
  local ready = k8s.get(live, "status.readyReplicas", 0)
  local message = ready .. " of " .. size(memcached) .. " pods are ready"
  local complete = ready == size(memcached)
  return {
    observedGeneration = memcached.metadata.generation,
    readyReplicas = ready,
    podNames = names,
    conditions = { k8s.condition("Ready", complete, complete and "PodsReady" or "PodsNotReady", message) },
  }
end

return {
  name = "memcached",
  subject = "cache.example.com/v1alpha1/Memcached",
  reconcile = function(memcached, world)
    return {
      apply = { deployment(memcached), service(memcached) },
      status = status(memcached, world),
    }
  end,
}
