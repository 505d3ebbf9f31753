--- The memcached operator on a real cluster, from the ConfigMap with its script to the collected children.
local functional = require "spec.functional.support"
local eventually = functional.eventually

local folder = "operators/memcached/"

-- The same script with every Deployment's image replaced, whatever the source looks like.
local function with_image(source, image)
    return ([[
local script = (function(...)
%s
end)(...)
local reconcile = script.reconcile
script.reconcile = function(memcached, world)
  local result = reconcile(memcached, world)
  for _, child in ipairs(result.apply) do
    if child.kind == "Deployment" then
      child.spec.template.spec.containers[1].image = "%s"
    end
  end
  return result
end
return script
]]):format(source, image)
end

functional.describe("memcached", function()
    local plane, host

    -- As a person would do it: kubectl only.
    local function install_script()
        plane:kubectl {
            "create", "configmap", "memcached", "-n", "tidelock-system", "--from-file=" .. folder .. "memcached.lua",
        }
        plane:kubectl { "label", "configmap", "memcached", "-n", "tidelock-system", "tidelock.dev/scripts=true" }
    end

    local function available(namespace, name, replicas)
        local deployment = plane:get("deployments", namespace, name)
        local status = deployment and deployment.status or {}
        return deployment and deployment.spec.replicas == replicas and status.availableReplicas == replicas
            and (status.observedGeneration or 0) >= deployment.metadata.generation
    end

    local function condition(object, kind)
        for _, each in ipairs(object.status and object.status.conditions or {}) do
            if each.type == kind then
                return each
            end
        end
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    after_each(function()
        functional.host.stop_all()
        plane:clean()
    end)

    describe("one subject", function()
        local namespace

        before_each(function()
            namespace = plane:namespace "memcached"
            host = functional.host.start { plane = plane }
            host:await_ready()
            plane:apply_file(folder .. "crd.yaml")
            install_script()
            plane:kubectl { "apply", "-n", namespace, "-f", folder .. "sample.yaml" }
            eventually(10, "the Deployment is available and the status right", function()
                local subject = plane:get("memcacheds", namespace, "sample")
                local size = subject.spec.size
                local ready = condition(subject, "Ready")
                return available(namespace, "sample", size) and plane:get("services", namespace, "sample")
                    and subject.status.readyReplicas == size and ready and ready.status == "True"
            end)
        end)

        it("has a Deployment, a Service and a status with the names of the pods", function()
            local subject = plane:get("memcacheds", namespace, "sample")
            local deployment = plane:get("deployments", namespace, "sample")
            assert.equal(subject.spec.image, deployment.spec.template.spec.containers[1].image)
            assert.equal(subject.metadata.uid, deployment.metadata.ownerReferences[1].uid)
            assert.equal(subject.metadata.uid, deployment.metadata.labels["tidelock.dev/owner-uid"])
            assert.truthy(deployment.metadata.labels["tidelock.dev/script"])

            local pods = {}
            for _, pod in ipairs(plane:list("pods", namespace)) do
                pods[#pods + 1] = pod.metadata.name
            end
            table.sort(pods)
            local told = subject.status.podNames
            table.sort(told)
            assert.same(pods, told)
        end)

        it("follows spec.size within two seconds", function()
            local size = plane:get("memcacheds", namespace, "sample").spec.size + 1
            plane:patch("memcacheds", namespace, "sample", { spec = { size = size } })
            eventually(2, "the Deployment has the new size", function()
                return plane:get("deployments", namespace, "sample").spec.replicas == size
            end)
            eventually(10, "the status counts the new pods", function()
                return plane:get("memcacheds", namespace, "sample").status.readyReplicas == size
            end)
        end)

        it("is back at its size within two seconds after somebody scaled the Deployment", function()
            local size = plane:get("memcacheds", namespace, "sample").spec.size
            plane:scale("deployment", namespace, "sample", size + 4)
            eventually(2, "the Deployment has the size of its subject", function()
                local deployment = plane:get("deployments", namespace, "sample")
                return deployment.spec.replicas == size, "replicas " .. deployment.spec.replicas
            end)
        end)

        it("has its Service back within two seconds after somebody deleted it", function()
            local uid = plane:get("services", namespace, "sample").metadata.uid
            plane:delete("services", namespace, "sample")
            eventually(2, "there is another Service", function()
                local service = plane:get("services", namespace, "sample")
                return service and service.metadata.uid ~= uid
            end)
        end)

        it("gets another image by an edit of the script, without a restart", function()
            local source = functional.process.read_file(folder .. "memcached.lua")
            plane:put_scripts("memcached", { ["memcached.lua"] = with_image(source, "memcached:edited") })
            eventually(5, "the Deployment runs the new image", function()
                local deployment = plane:get("deployments", namespace, "sample")
                return deployment.spec.template.spec.containers[1].image == "memcached:edited"
            end)
            assert.is_true(host:running())
        end)

        it("leaves nothing behind when it is deleted", function()
            plane:delete("memcacheds", namespace, "sample")
            eventually(60, "Deployment and Service are collected", function()
                return not plane:get("deployments", namespace, "sample")
                    and not plane:get("services", namespace, "sample")
            end)
        end)

        it("is left alone by a host that was started again", function()
            host:stop()
            local mark = plane.audit:mark()
            host = functional.host.start { plane = plane }
            host:await_ready()
            functional.process.sleep(3)
            for _, write in ipairs(plane.audit:writes_since(mark)) do
                assert.equal("events", write.entry.objectRef.resource, write.text) -- that a script was loaded
            end
        end)
    end)

    describe("300 subjects", function()
        local count = functional.sanitized and 60 or 300

        it("converge and are then left alone", function()
            local namespace = plane:namespace "many"
            install_script()
            host = functional.host.start { plane = plane }
            host:await_ready()
            for i = 1, count do
                plane:create("memcacheds", namespace, functional.memcached(("m%03d"):format(i)))
            end
            eventually(240, count .. " Memcacheds are ready", function()
                local ready = 0
                for _, item in ipairs(plane:list("memcacheds", namespace)) do
                    ready = ready + ((item.status or {}).readyReplicas == 1 and 1 or 0)
                end
                return ready == count, ready .. " are"
            end)

            -- The last pods and statuses may still be on their way: idle begins when nothing was written for a while.
            local mark, since = plane.audit:mark(), functional.process.now()
            eventually(60, "the writes have ended", function()
                if #plane.audit:writes_since(mark) > 0 then
                    mark, since = plane.audit:mark(), functional.process.now()
                end
                return functional.process.now() - since > 3
            end)
            functional.process.sleep(10)
            local writes = plane.audit:writes_since(mark)
            assert.equal(0, #writes, functional.audit.describe(writes))

            assert.equal(count, #plane:list("deployments", namespace))
            assert.equal(count, #plane:list("services", namespace))
            assert.is_true(host:running())
        end)
    end)
end)
