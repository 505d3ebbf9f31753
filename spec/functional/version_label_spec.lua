--- The version-label operator on a real cluster: a Deployment's label on the pods it owns, through its ReplicaSets.
local functional = require "spec.functional.support"
local eventually = functional.eventually

local folder = "operators/version-label/"

functional.describe("version-label", function()
    local plane, namespace

    local function deploy(name, version, replicas)
        plane:apply_text(([[
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, labels: {version: "%s"}}
spec:
  replicas: %d
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec: {containers: [{name: main, image: web}]}
]]):format(name, version, replicas, name, name), namespace)
    end

    -- All pods of the application carry the version (nil: none does), and there are so many of them.
    local function labelled(name, version, replicas)
        local pods = plane:list("pods", namespace, "labelSelector=app%3D" .. name)
        for _, pod in ipairs(pods) do
            if pod.metadata.labels.version ~= version then
                return nil, pod.metadata.name .. " has " .. tostring(pod.metadata.labels.version)
            end
        end
        return #pods == replicas, #pods .. " pods"
    end

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
    end)

    before_each(function()
        namespace = plane:namespace "labels"
        plane:put_scripts("version-label", {
            ["version-label.lua"] = assert(functional.process.read_file(folder .. "version-label.lua")),
        })
        functional.host.start({ plane = plane }):await_ready()
        deploy("web", "1.0", 2)
        eventually(15, "both pods carry the label", function()
            return labelled("web", "1.0", 2)
        end)
    end)

    after_each(function()
        plane:kubectl { "delete", "deployment", "--all", "-n", namespace }
        functional.host.stop_all()
        plane:clean()
    end)

    it("follows a change of the label", function()
        plane:patch("deployments", namespace, "web", { metadata = { labels = { version = "2.0" } } })
        eventually(2, "both pods follow", function()
            return labelled("web", "2.0", 2)
        end)
    end)

    it("labels pods that come later", function()
        plane:scale("deployment", namespace, "web", 4)
        eventually(15, "all four carry the label", function()
            return labelled("web", "1.0", 4)
        end)
    end)

    it("takes the label away with the Deployment's", function()
        plane:patch("deployments", namespace, "web", { metadata = { labels = { version = functional.null } } })
        eventually(2, "no pod carries it", function()
            return labelled("web", nil, 2)
        end)
    end)

    it("touches no pod of another owner", function()
        plane:create("pods", namespace, {
            metadata = { name = "stranger", labels = { app = "web" } },
            spec = { containers = { { name = "main", image = "web" } } },
        })
        plane:scale("deployment", namespace, "web", 3)
        eventually(15, "three pods of the Deployment carry it", function()
            return #plane:list("pods", namespace, "labelSelector=version%3D1.0") == 3
        end)
        assert.is_nil(plane:get("pods", namespace, "stranger").metadata.labels.version)
    end)
end)
