--- Processes, time and files for the specs, by the C library: what Lua lacks.
-- A started process dies with the runner, however the runner ends (PR_SET_PDEATHSIG).
local ffi = require "ffi"
local lfs = require "lfs"

-- busted loads modules anew for each spec file, but the C declarations are the whole process's.
pcall(ffi.cdef, [[
struct tidelock_time { int64_t seconds; int64_t nanoseconds; };
int clock_gettime(int clock, struct tidelock_time *ret);
int nanosleep(const struct tidelock_time *wanted, struct tidelock_time *left);
int fork(void);
int execvp(const char *file, char *const argv[]);
void _exit(int status);
int open(const char *path, int flags, ...);
int dup2(int from, int to);
int prctl(int option, ...);
int waitpid(int pid, int *status, int options);
int kill(int pid, int signal);
int getpid(void);
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);
int rename(const char *from, const char *to);
char *mkdtemp(char *template);
char *strerror(int number);
long ptrace(int request, ...);
]])
local C = ffi.C

local PR_SET_PDEATHSIG, WNOHANG, CLOCK_MONOTONIC = 1, 1, 1
local O_RDONLY, O_WRONLY_CREAT_APPEND = 0, 0x441
local signals = { HUP = 1, INT = 2, KILL = 9, TERM = 15, CONT = 18, STOP = 19 }

local process = {}
local Process = {}
Process.__index = Process

function process.now()
    local time = ffi.new("struct tidelock_time")
    C.clock_gettime(CLOCK_MONOTONIC, time)
    return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

function process.sleep(seconds)
    local whole = math.floor(seconds)
    C.nanosleep(ffi.new("struct tidelock_time", whole, (seconds - whole) * 1e9), nil)
end

function process.runner_pid()
    return C.getpid()
end

--- Sets a variable of this process, or removes it (nil).
function process.setenv(name, value)
    if value then
        C.setenv(name, value, 1)
    else
        C.unsetenv(name)
    end
end

function process.temporary_folder()
    local template = (os.getenv "TMPDIR" or "/tmp") .. "/tidelock-spec-XXXXXX"
    local buffer = ffi.new("char[?]", #template + 1, template)
    assert(C.mkdtemp(buffer) ~= nil, "no temporary folder " .. template)
    return ffi.string(buffer)
end

function process.read_file(path)
    local file = io.open(path, "rb")
    if not file then
        return nil
    end
    local text = file:read("*a")
    file:close()
    return text
end

function process.write_file(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    assert(file:close())
end

--- Replaces `to` in one step, as an editor or a mounted volume does.
function process.rename(from, to)
    assert(C.rename(from, to) == 0, ffi.string(C.strerror(ffi.errno())))
end

function process.remove_tree(path)
    if lfs.symlinkattributes(path, "mode") == "directory" then
        for entry in lfs.dir(path) do
            if entry ~= "." and entry ~= ".." then
                process.remove_tree(path .. "/" .. entry)
            end
        end
    end
    os.remove(path)
end

-- Runs in the child: does not return.
local function become(argv, options)
    C.prctl(PR_SET_PDEATHSIG, ffi.cast("long", signals.KILL))
    local mode = ffi.cast("int", 420) -- 0644
    C.dup2(C.open(options.input or "/dev/null", O_RDONLY), 0)
    C.dup2(C.open(options.stdout, O_WRONLY_CREAT_APPEND, mode), 1)
    C.dup2(C.open(options.stderr or options.stdout, O_WRONLY_CREAT_APPEND, mode), 2)
    for name, value in pairs(options.env or {}) do
        process.setenv(name, value or nil)
    end
    C.execvp(argv[0], ffi.cast("char *const *", argv))
    C._exit(127)
end

--- Starts a program. options: stdout (a file), stderr (same file by default), input (a file), env (false removes).
function process.start(args, options)
    local argv = ffi.new("const char *[?]", #args + 1)
    for i, arg in ipairs(args) do
        argv[i - 1] = arg
    end
    io.stdout:flush() -- or the child would hold a copy of what is not written yet
    local pid = C.fork()
    assert(pid >= 0, "fork failed")
    if pid == 0 then
        become(argv, options)
    end
    return setmetatable({ pid = pid, name = args[1] }, Process)
end

--- The way it ended ({code=} or {signal=}), or nil while it runs.
function Process:status()
    if not self.ended then
        local status = ffi.new("int[1]")
        local got = C.waitpid(self.pid, status, WNOHANG)
        if got == self.pid then
            local signal = bit.band(status[0], 0x7f)
            self.ended = signal ~= 0 and { signal = signal } or { code = bit.rshift(status[0], 8) }
        elseif got < 0 then
            self.ended = { lost = true }
        end
    end
    return self.ended
end

function Process:signal(name)
    if not self:status() then
        C.kill(self.pid, (assert(signals[name], name)))
    end
end

--- Waits for the end; nil when the time is over first.
function Process:wait(seconds)
    local deadline = process.now() + seconds
    while not self:status() do
        if process.now() > deadline then
            return nil
        end
        process.sleep(0.005)
    end
    return self.ended
end

--- Kills and reaps, whatever state it is in.
function Process:destroy()
    self:signal "KILL"
    return self:wait(10)
end

-- Nanoseconds that each thread of the process has run, by its id.
local function thread_times(pid)
    local times = {}
    for tid in lfs.dir(("/proc/%d/task"):format(pid)) do
        local text = process.read_file(("/proc/%d/task/%s/schedstat"):format(pid, tid))
        times[tid] = text and tonumber(text:match "^%d+")
    end
    return times
end

--- The id of a thread of the program that has just begun to work and goes on, as one that loops: waits for it.
function Process:await_busy_thread(seconds)
    local deadline, step = process.now() + seconds, 0.02
    local before, was_busy = thread_times(self.pid), {}
    while process.now() < deadline do
        process.sleep(step)
        local after, busy = thread_times(self.pid), {}
        for tid, time in pairs(after) do
            busy[tid] = before[tid] and time - before[tid] > step / 2 * 1e9
            if busy[tid] and was_busy[tid] == false then
                return tonumber(tid)
            end
        end
        before, was_busy = after, busy
    end
    error(("no thread of %s has begun to work within %g s"):format(self.name, seconds), 2)
end

--- Stops one thread of a started program where it is, as a debugger does; the others go on. Returns what lets it go on.
function process.stop_thread(tid)
    local SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
    local function trace(request)
        local null = ffi.cast("void *", 0)
        assert(C.ptrace(request, ffi.cast("int", tid), null, null) == 0, ffi.string(C.strerror(ffi.errno())))
    end
    trace(SEIZE)
    trace(INTERRUPT)
    assert(C.waitpid(tid, ffi.new("int[1]"), WALL) == tid, "the thread did not stop")
    return function()
        trace(DETACH)
    end
end

--- Runs a program to its end: exit code (nil after a signal or the timeout), what it printed, what it complained.
function process.run(args, options)
    options = options or {}
    local folder = process.temporary_folder()
    local out, err, input = folder .. "/out", folder .. "/err", nil
    if options.input then
        input = folder .. "/in"
        process.write_file(input, options.input)
    end
    local child = process.start(args, { stdout = out, stderr = err, input = input, env = options.env })
    local status = child:wait(options.timeout or 120) or child:destroy()
    local printed, complained = process.read_file(out) or "", process.read_file(err) or ""
    process.remove_tree(folder)
    return status.code, printed, complained
end

return process
