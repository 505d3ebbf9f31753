--- Waiting for what must become true, and time limits that a sanitizer build may stretch.
local process = require "spec.functional.support.process"

local wait = {}

wait.sanitized = (os.getenv "TIDELOCK_SANITIZED" or "") ~= ""

--- Sanitizers make everything several times slower: their runs check outcomes, not time.
function wait.limit(seconds)
    return wait.sanitized and seconds * 10 or seconds
end

--- Calls `check` until it returns something true, and returns that and the seconds it took. `check` may raise (a failed
--- assertion, a nil field) or return nil and a reason: both mean "not yet", and the last of them is told at the end.
function wait.eventually(seconds, what, check)
    local started, pause = process.now(), 0.01
    local limit = wait.limit(seconds)
    while true do
        local ok, result, why = pcall(check)
        if ok and result then
            return result, process.now() - started
        end
        local reason = ok and why or result
        if process.now() - started > limit then
            if type(reason) == "table" then
                reason = reason.message or require("cjson").encode(reason)
            end
            error(("not within %g s: %s (last: %s)"):format(limit, what, tostring(reason)), 2)
        end
        process.sleep(pause)
        pause = math.min(pause * 1.3, 0.1)
    end
end

--- `check` must hold all the time.
function wait.always(seconds, what, check)
    local deadline = process.now() + seconds
    repeat
        local ok, why = check()
        if not ok then
            error(("not all the time: %s (%s)"):format(what, tostring(why)), 2)
        end
        process.sleep(0.1)
    until process.now() > deadline
end

return wait
