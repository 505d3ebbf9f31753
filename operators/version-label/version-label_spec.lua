local kit = require "tidelock.kit"

describe("version-label", function()
  local script = kit.load "operators/version-label/version-label.lua"
  local deployment

  before_each(function()
    deployment = kit.object "operators/version-label/sample.yaml"
    deployment.metadata.namespace = "shop"
    deployment.metadata.uid = "d1"
  end)

  local function owned(kind, name, uid, owner)
    return {
      apiVersion = kind == "Pod" and "v1" or "apps/v1",
      kind = kind,
      metadata = { name = name, namespace = "shop", uid = uid, ownerReferences = { { uid = owner } } },
    }
  end

  local function world()
    return {
      objects = {
        owned("ReplicaSet", "web-1", "r1", "d1"),
        owned("ReplicaSet", "web-2", "r2", "d1"),
        owned("ReplicaSet", "web-3", "r3", "another"), -- of a Deployment with the same name, deleted since
        owned("Pod", "web-1-a", "p1", "r1"),
        owned("Pod", "web-2-a", "p2", "r2"),
        owned("Pod", "web-3-a", "p3", "r3"),
        owned("Pod", "loose", "p4", "d1"),
      },
    }
  end

  it("labels the pods of all ReplicaSets of the Deployment, and no other", function()
    local result = script:reconcile(deployment, world())
    assert.equal(2, #result.patch)
    for _, name in ipairs { "web-1-a", "web-2-a" } do
      local patch = kit.find(result.patch, "v1/Pod", name)
      assert.same({ name = name, labels = { version = "1.0" } }, patch.metadata)
    end
  end)

  it("follows a change of the label", function()
    deployment.metadata.labels.version = "2.0"
    local result = script:reconcile(deployment, world())
    assert.equal("2.0", result.patch[1].metadata.labels.version)
  end)

  it("releases the pods when the label goes", function()
    deployment.metadata.labels.version = nil
    assert.equal("[]", kit.json(script:reconcile(deployment, world()).patch))
    deployment.metadata.labels = nil
    assert.equal("[]", kit.json(script:reconcile(deployment, world()).patch))
  end)

  it("has no opinion about children, status or events", function()
    local result = script:reconcile(deployment, world())
    assert.is_nil(result.apply)
    assert.is_nil(result.status)
    assert.is_nil(result.events)
  end)
end)
