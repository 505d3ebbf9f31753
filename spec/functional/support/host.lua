--- The real binary, started as a user would: its process, its log and its admin address.
local cjson = require "cjson"
local process = require "spec.functional.support.process"
local http = require "spec.functional.support.http"
local wait = require "spec.functional.support.wait"

local host = {}
local Host = {}
Host.__index = Host

local started = {} -- those not stopped yet

function host.binary()
    local path = os.getenv "TIDELOCK_BIN" or "build/tidelock"
    assert(io.open(path, "rb"), path .. " is missing: build it (make build) or name another in TIDELOCK_BIN"):close()
    return path
end

-- A port nobody listens on: below the ephemeral range, spread by the runner's pid and the time.
local next_port = 12000 + (process.runner_pid() * 7 + math.floor(process.now() * 1000)) % 7000
local function free_port()
    repeat
        next_port = next_port + 1
        local answer, why = http.client({ timeout = 1 }):request("GET", ("http://127.0.0.1:%d/"):format(next_port))
    until not answer and why:find "connect"
    return next_port
end

--- Starts `tidelock run`. options: plane (its host.kubeconfig is used), kubeconfig (a path; false: no flag), args, env,
--- format ("json").
function host.start(options)
    local args = { host.binary(), "run", "--log-format", options.format or "json" }
    local kubeconfig = options.kubeconfig
    if kubeconfig == nil then
        kubeconfig = options.plane:kubeconfig()
    end
    if kubeconfig then
        args[#args + 1] = "--kubeconfig"
        args[#args + 1] = kubeconfig
    end
    local self = setmetatable({ folder = process.temporary_folder(), port = free_port() }, Host)
    self.log_path = self.folder .. "/log"
    args[#args + 1] = "--admin-address"
    args[#args + 1] = "127.0.0.1:" .. self.port
    for _, arg in ipairs(options.args or {}) do
        args[#args + 1] = arg
    end
    process.write_file(self.log_path, "")
    -- the variables of the developer's own cluster are not the spec's
    local env = { KUBECONFIG = false, KUBERNETES_SERVICE_HOST = false, KUBERNETES_SERVICE_PORT = false }
    for name, value in pairs(options.env or {}) do
        env[name] = value
    end
    self.process = process.start(args, { stdout = self.log_path, env = env })
    self.pid = self.process.pid
    self.admin = http.client { base = "http://127.0.0.1:" .. self.port, timeout = 5 }
    started[self] = true
    return self
end

function Host:running()
    return self.process:status() == nil
end

function Host:log_text()
    return process.read_file(self.log_path)
end

--- The lines of the log, as {text=, fields=}: fields is the decoded JSON, or nil for a line that is none.
function Host:log_lines()
    local lines = {}
    for text in self:log_text():gmatch "[^\n]+" do
        local ok, fields = pcall(cjson.decode, text)
        lines[#lines + 1] = { text = text, fields = ok and type(fields) == "table" and fields or nil }
    end
    return lines
end

local function contains_all(text, needles)
    for _, needle in ipairs(needles) do
        if not text:find(needle, 1, true) then
            return false
        end
    end
    return true
end

--- The lines that contain all the texts.
function Host:log_matching(...)
    local needles, found = { ... }, {}
    for _, line in ipairs(self:log_lines()) do
        if contains_all(line.text, needles) then
            found[#found + 1] = line
        end
    end
    return found
end

--- Waits for a line that contains all the texts.
function Host:await_log(seconds, ...)
    local needles = { ... }
    return wait.eventually(seconds, "the log says " .. table.concat(needles, ", "), function()
        local line = self:log_matching(unpack(needles))[1]
        return line, "the log ends: " .. self:log_text():sub(-1500)
    end)
end

--- Waits until /readyz says ok.
function Host:await_ready(seconds)
    return wait.eventually(seconds or 15, "the host is ready", function()
        if not self:running() then
            return nil, "it ended: " .. self:log_text():sub(-1500)
        end
        local status, text = self.admin:request("GET", "/readyz")
        return status == 200, text
    end)
end

--- The value of a metric: the sum over the series whose labels contain the given ones.
function Host:metric(name, labels)
    local _, text = self.admin:request("GET", "/metrics")
    local sum
    for line in (text or ""):gmatch "[^\n]+" do
        local series, value = line:match "^(%S-)%s+(%S+)$"
        local series_name, series_labels = (series or ""):match "^([%w_:]+){?(.-)}?$"
        if series_name == name then
            local wanted = true
            for label, label_value in pairs(labels or {}) do
                wanted = wanted and series_labels:find(('%s="%s"'):format(label, label_value), 1, true)
            end
            if wanted then
                sum = (sum or 0) + tonumber(value)
            end
        end
    end
    return sum
end

function Host:signal(name)
    self.process:signal(name)
end

--- Waits for the end: {code=} or {signal=}; raises when it does not come.
function Host:await_exit(seconds)
    local status = self.process:wait(wait.limit(seconds))
    if not status then
        self.process:destroy()
        error(("the host did not end within %g s; its log ends: %s"):format(seconds, self:log_text():sub(-1500)), 2)
    end
    return status
end

--- Ends the host as kubelet would. A status other than 0 is a failure: a sanitizer's report is one too.
function Host:stop()
    if not started[self] then
        return
    end
    started[self] = nil
    if self:running() then
        self:signal "TERM"
    end
    local status = self.process:wait(wait.limit(35)) or self.process:destroy()
    local log = self:log_text()
    process.remove_tree(self.folder)
    if status.code ~= 0 and not self.expected_to_fail then
        error(("the host ended with %s; its log ends: %s"):format(
            status.code and "status " .. status.code or "signal " .. tostring(status.signal), log:sub(-3000)), 2)
    end
end

--- For specs that end the host otherwise: no status is an error at stop().
function Host:expect_failure()
    self.expected_to_fail = true
    return self
end

--- Stops what a spec left running; for after_each.
function host.stop_all()
    local failure
    for each in pairs(started) do
        local ok, why = pcall(each.stop, each)
        failure = failure or (not ok and why)
    end
    if failure then
        error(failure, 0)
    end
end

return host
