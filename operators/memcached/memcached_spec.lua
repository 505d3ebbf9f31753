local kit = require "tidelock.kit"

describe("memcached", function()
  local script, subject

  before_each(function()
    script = kit.load "operators/memcached/memcached.lua"
    subject = kit.object "operators/memcached/sample.yaml"
    subject.metadata.namespace = "caches"
    subject.metadata.generation = 4
  end)

  local function pod(name, instance, namespace)
    return {
      apiVersion = "v1",
      kind = "Pod",
      metadata = {
        name = name,
        namespace = namespace or "caches",
        labels = { ["app.kubernetes.io/name"] = "memcached", ["app.kubernetes.io/instance"] = instance },
      },
    }
  end

  local function deployment(ready)
    return {
      apiVersion = "apps/v1",
      kind = "Deployment",
      metadata = { name = "sample", namespace = "caches" },
      status = { readyReplicas = ready },
    }
  end

  it("makes a Deployment of the wanted size and image", function()
    subject.spec.image = "memcached:1.5"
    local made = kit.find(script:reconcile(subject).apply, "apps/v1/Deployment", "sample")
    assert.equal(3, made.spec.replicas)
    assert.equal("memcached:1.5", made.spec.template.spec.containers[1].image)
    assert.same(made.spec.selector.matchLabels, made.spec.template.metadata.labels)
  end)

  it("has a default for the image", function()
    subject.spec.image = nil
    local made = kit.find(script:reconcile(subject).apply, "apps/v1/Deployment", "sample")
    assert.equal("memcached:1.6", made.spec.template.spec.containers[1].image)
  end)

  it("makes a Service that finds the pods", function()
    local result = script:reconcile(subject)
    local service = kit.find(result.apply, "v1/Service", "sample")
    local made = kit.find(result.apply, "apps/v1/Deployment", "sample")
    assert.equal(11211, service.spec.ports[1].port)
    assert.same(made.spec.template.metadata.labels, service.spec.selector)
    assert.equal(2, #result.apply)
  end)

  it("is not ready at first", function()
    local status = script:reconcile(subject).status
    assert.equal(0, status.readyReplicas)
    assert.equal(4, status.observedGeneration)
    assert.equal("[]", kit.json(status.podNames))
    assert.equal("False", status.conditions[1].status)
    assert.equal("PodsNotReady", status.conditions[1].reason)
  end)

  it("names its own pods and is ready when all of them are", function()
    local result = script:reconcile(subject, {
      objects = {
        pod("sample-b", "sample"), pod("sample-a", "sample"), pod("sample-c", "sample"),
        pod("other-a", "other"), pod("sample-d", "sample", "elsewhere"),
        deployment(3),
      },
    })
    assert.same({ "sample-a", "sample-b", "sample-c" }, result.status.podNames)
    assert.equal(3, result.status.readyReplicas)
    assert.equal("Ready", result.status.conditions[1].type)
    assert.equal("True", result.status.conditions[1].status)
    assert.equal("3 of 3 pods are ready", result.status.conditions[1].message)
  end)

  it("is not ready while a pod is missing", function()
    local result = script:reconcile(subject, { objects = { deployment(2) } })
    assert.equal("False", result.status.conditions[1].status)
    assert.equal("2 of 3 pods are ready", result.status.conditions[1].message)
  end)

  it("reads its pods and its Deployment only", function()
    local reads = script:reconcile(subject).reads
    assert.equal(2, #reads)
    assert.same({ "list", "v1/Pod", "caches" }, { reads[1].op, reads[1].kind, reads[1].namespace })
    assert.same({ "get", "apps/v1/Deployment", "sample" }, { reads[2].op, reads[2].kind, reads[2].name })
  end)

  it("gives the same result when it is fed its own status", function()
    local world = { objects = { pod("sample-a", "sample"), deployment(1) } }
    local first = script:reconcile(subject, world)
    subject.status = first.status
    assert.same(first.status, script:reconcile(subject, world).status)
  end)
end)
