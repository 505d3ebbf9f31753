--- The admin address: health, readiness, and metrics that Prometheus can read.
local functional = require "spec.functional.support"
local eventually = functional.eventually

-- name -> type, and a list of {name=, labels=, value=}; raises on a line that is no exposition format.
local function parse(text)
    local types, samples = {}, {}
    for line in text:gmatch "([^\n]*)\n" do
        local name, kind = line:match "^# TYPE ([%a_:][%w_:]*) (%a+)$"
        if name then
            assert(not types[name], name .. " has two TYPE lines")
            types[name] = kind
        elseif not line:match "^# HELP [%a_:][%w_:]* ." and line ~= "" then
            local series, labels, value = line:match "^([%a_:][%w_:]*){(.*)} (%S+)$"
            if not series then
                series, value = line:match "^([%a_:][%w_:]*) (%S+)$"
            end
            assert(series, "not a sample: " .. line)
            assert(tonumber(value) or value == "+Inf" or value == "NaN", "not a number: " .. line)
            -- what is left after taking all the pairs away
            local rest = (labels or ""):gsub('[%a_][%w_]*="[^"]*",?', "")
            assert(rest == "", "labels are wrong: " .. line)
            samples[#samples + 1] = { name = series, labels = labels or "", value = tonumber(value) }
        end
    end
    return types, samples
end

functional.describe("admin address", function()
    local plane, host, namespace

    setup(function()
        plane = functional.controlplane.shared()
        plane:clean()
        namespace = plane:namespace "admin"
        plane:put_scripts("notes", { ["note.lua"] = functional.note_script("note", "one") })
        host = functional.host.start { plane = plane }
        host:await_ready()
        plane:create("memcacheds", namespace, functional.memcached "a")
        eventually(10, "a pass was run", function()
            return functional.note(plane, namespace, "a") == "one"
        end)
    end)

    teardown(function()
        functional.host.stop_all()
        plane:clean()
    end)

    it("says that the host lives and is ready", function()
        for _, path in ipairs { "/healthz", "/readyz" } do
            local status, text = host.admin:request("GET", path)
            assert.equal(200, status, path)
            assert.truthy(text:find "ok", path)
        end
    end)

    it("knows no other path", function()
        assert.equal(404, (host.admin:request("GET", "/secrets")))
    end)

    it("is told in the log", function()
        assert.is_true(#host:log_matching("127.0.0.1:" .. host.port) >= 1)
    end)

    it("is refused when somebody has it already", function()
        local second = functional.host.start({
            plane = plane, args = { "--admin-address", "127.0.0.1:" .. host.port },
        }):expect_failure()
        assert.not_equal(0, second:await_exit(5).code)
        assert.truthy(second:log_text():find(tostring(host.port), 1, true))
    end)

    it("shows metrics in Prometheus's format, by the names dashboards know", function()
        local status, text, headers = host.admin:request("GET", "/metrics")
        assert.equal(200, status)
        assert.truthy(headers:lower():find("content-type: text/plain", 1, true))
        local types, samples = parse(text)
        for _, sample in ipairs(samples) do
            local family = sample.name:gsub("_bucket$", ""):gsub("_sum$", ""):gsub("_count$", "")
            assert.truthy(types[sample.name] or types[family], sample.name .. " has no TYPE line")
        end
        for name, kind in pairs {
            controller_runtime_reconcile_total = "counter",
            controller_runtime_reconcile_errors_total = "counter",
            controller_runtime_reconcile_time_seconds = "histogram",
            controller_runtime_active_workers = "gauge",
            workqueue_depth = "gauge",
            workqueue_adds_total = "counter",
            workqueue_retries_total = "counter",
            workqueue_queue_duration_seconds = "histogram",
            workqueue_work_duration_seconds = "histogram",
            rest_client_requests_total = "counter",
        } do
            assert.equal(kind, types[name], name)
        end
    end)

    it("counts passes and requests", function()
        local passes = host:metric("controller_runtime_reconcile_total", { controller = "note", result = "success" })
        assert.is_true(passes >= 1)
        assert.is_true(host:metric("rest_client_requests_total", { method = "PATCH" }) >= 1)
        assert.equal(0, host:metric("workqueue_depth", { name = "note" }))
    end)
end)

functional.describe("log", function()
    local plane

    setup(function()
        plane = functional.controlplane.shared()
    end)

    after_each(function()
        functional.host.stop_all()
    end)

    it("is one JSON object a line with --log-format json", function()
        local host = functional.host.start { plane = plane, format = "json" }
        host:await_ready()
        local lines = host:log_lines()
        assert.is_true(#lines >= 1)
        for _, line in ipairs(lines) do
            assert.truthy(line.fields, line.text)
            assert.truthy(line.fields.ts and line.fields.level and line.fields.msg, line.text)
        end
    end)

    it("is klog's text with --log-format text, and says more with -v", function()
        local quiet = functional.host.start { plane = plane, format = "text" }
        quiet:await_ready()
        for _, line in ipairs(quiet:log_lines()) do
            assert.truthy(line.text:match "^[IWE]%d%d%d%d %d%d:%d%d:%d%d%.%d+ ", line.text)
        end
        local loud = functional.host.start { plane = plane, format = "text", args = { "-v", "6" } }
        loud:await_ready()
        assert.is_true(#loud:log_lines() > #quiet:log_lines())
    end)
end)
