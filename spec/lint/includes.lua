--- The include graph: a layer includes only what CMakeLists.txt links it with, a room of run/ only rooms to its left,
-- a foreign library's headers stand only in the files named here, and a header that nobody named is refused.
-- From the command line: luajit spec/lint/includes.lua, in the root of the source tree.
package.path = "./?.lua;" .. package.path
local files = require "spec.lint.files"

local includes = {}

-- Header (a Lua pattern) -> the files or folders of host/ that may include it.
local foreign = {
    { "^lua%.h$", "script/" }, { "^lauxlib%.h$", "script/" },
    { "^lualib%.h$", "script/" }, { "^luajit%.h$", "script/" },
    { "^curl/", "io/transport_curl.c", "io/curl_" },
    { "^nghttp2/", "io/h2_" },
    { "^zlib%.h$", "io/gunzip.c" },
    { "^yaml%.h$", "data/yaml.c" },
    { "^yyjson%.h$", "data/json.h", "data/json.c" },
    { "^event2/", "io/" },
    { "^openssl/", "data/digest.c", "io/tls.c", "io/server.c" },
    { "^uthash%.h$", "base/hash_table.h" }, { "^utlist%.h$", "" }, { "^sys/queue%.h$", "" },
}

-- The rooms of a layer that has any: each may include from those before it, and the layer's own files from all.
local rooms = {
    run = { "source", "world", "plan", "workqueue", "apply", "report", "controller", "release" },
}

-- The C library's and the kernel's own.
local system = {}
for name in ([[
arpa/inet.h assert.h ctype.h dirent.h dlfcn.h endian.h errno.h fcntl.h fnmatch.h getopt.h glob.h inttypes.h
libgen.h limits.h linux/futex.h locale.h malloc.h math.h netdb.h netinet/in.h netinet/tcp.h poll.h pthread.h pwd.h
regex.h sched.h semaphore.h setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h
stdlib.h stdnoreturn.h string.h strings.h sys/epoll.h sys/eventfd.h sys/file.h sys/inotify.h sys/mman.h sys/prctl.h
sys/random.h sys/resource.h sys/select.h sys/signalfd.h sys/socket.h sys/stat.h sys/syscall.h sys/time.h
sys/timerfd.h sys/types.h sys/uio.h sys/un.h sys/wait.h termios.h threads.h time.h ucontext.h unistd.h
]]):gmatch "%S+" do
    system[name] = true
end

--- layer -> set of layers it may include, from the tidelock_layer lines of a CMakeLists.txt. cli is the program: all.
function includes.layers(cmake)
    local layers = { cli = { cli = true } }
    for name, arguments in cmake:gmatch "\ntidelock_layer%((%w+)([^)]*)%)" do
        layers[name] = { [name] = true }
        layers.cli[name] = true
        for link in ((arguments .. " FOREIGN"):match "LINKS(.-)FOREIGN" or ""):gmatch "%w+" do
            layers[name][link] = true
        end
    end
    return layers
end

local function may_include_foreign(header, path)
    for _, rule in ipairs(foreign) do
        if header:find(rule[1]) then
            for i = 2, #rule do
                if path:sub(1, #rule[i]) == rule[i] then
                    return true
                end
            end
            return false, "may be included only in " .. table.concat(rule, ", ", 2)
        end
    end
    return system[header], "is neither the C library's nor named in spec/lint/includes.lua"
end

-- The place of a file among its layer's rooms.
local function room(path)
    local layer, name = path:match "^(%w+)/([^/]+)"
    local order = rooms[layer] or {}
    for i, each in ipairs(order) do
        if each == name then
            return i
        end
    end
    return #order + 1
end

--- What is wrong with the includes of one file: path is relative to host/, as in "io/loop.c".
function includes.check(path, text, layers)
    local problems, number = {}, 0
    local layer = path:match "^(%w+)/"
    for line in (text .. "\n"):gmatch "(.-)\n" do
        number = number + 1
        local open, header = line:match '^%s*#%s*include%s*([<"])([^>"]+)[>"]'
        local ok, why = true, nil
        if open == '"' then
            local target = header:match "^(%w+)/" or ""
            if not layers[target] then
                ok, why = false, 'does not begin with a layer, as in "base/err.h"'
            elseif not (layers[layer] or {})[target] then
                ok, why = false, ("is in %s/, which %s/ may not use"):format(target, tostring(layer))
            elseif target == layer and room(header) > room(path) then
                ok, why = false, "is in a room that comes later (spec/lint/includes.lua names their order)"
            end
        elseif open == "<" then
            ok, why = may_include_foreign(header, path)
        end
        if not ok then
            problems[#problems + 1] = ("host/%s:%d: %s %s"):format(path, number, header, why)
        end
    end
    return problems
end

function includes.run()
    local layers = includes.layers(files.read "CMakeLists.txt")
    local problems, paths = {}, files.below("host", "c", "h")
    for _, path in ipairs(paths) do
        for _, problem in ipairs(includes.check(path:match "^host/(.*)", files.read(path), layers)) do
            problems[#problems + 1] = problem
        end
    end
    files.report("includes", problems, #paths .. " files")
end

if arg and (arg[0] or ""):match "spec/lint/includes%.lua$" then
    includes.run()
end

return includes
