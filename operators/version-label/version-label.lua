--- The label `version` of a Deployment on the pods it owns: it follows a change, and goes when the Deployment's goes.
local k8s = require "tidelock"

-- The pods of a Deployment: those of its ReplicaSets, by the owner's UID.
local function pods_of(deployment, world)
  local pods = {}
  for _, set in ipairs(world.list("apps/v1/ReplicaSet", { owner = deployment.metadata.uid })) do
    for _, pod in ipairs(world.list("v1/Pod", { owner = set.metadata.uid })) do
      pods[#pods + 1] = pod
    end
  end
  return pods
end

return {
  name = "version-label",
  subject = "apps/v1/Deployment",
  reconcile = function(deployment, world)
    local version = k8s.get(deployment, "metadata.labels.version")
    if not version then
      return { patch = {} } -- no pod gets the label; those that have it from here lose it
    end
    local patches = {}
    for _, pod in ipairs(pods_of(deployment, world)) do
      patches[#patches + 1] = {
        apiVersion = "v1",
        kind = "Pod",
        metadata = { name = pod.metadata.name, labels = { version = version } },
      }
    end
    return { patch = patches }
  end,
}
