--- The checks of the source find what they are there to find.
local includes = require "spec.lint.includes"
local sizes = require "spec.lint.sizes"

describe("include graph", function()
    local layers = includes.layers [[

tidelock_layer(base)
tidelock_layer(data LINKS base FOREIGN yyjson yaml)
tidelock_layer(io LINKS base data FOREIGN libevent)
tidelock_layer(script LINKS base data FOREIGN luajit)
tidelock_layer(run LINKS base data io script)
]]

    local function problems(path, ...)
        return includes.check(path, table.concat({ ... }, "\n"), layers)
    end

    it("is read from CMakeLists.txt", function()
        assert.same({ script = true, base = true, data = true }, layers.script)
        assert.is_true(layers.cli.run)
    end)

    it("accepts the layers below, the C library and the libraries that have their place here", function()
        assert.same({}, problems("io/server.c", '#include "io/server.h"', '#include "base/err.h"', "#include <errno.h>",
            "#include <event2/http.h>", "#include <openssl/ssl.h>", "#include <sys/queue.h>"))
        assert.same({}, problems("script/state.c", "#include <lua.h>", "#include <lauxlib.h>"))
        assert.same({}, problems("cli/main.c", '#include "run/host.h"'))
    end)

    it("finds a layer that reaches up or aside", function()
        assert.same({ "host/base/err.c:2: io/loop.h is in io/, which base/ may not use" },
            problems("base/err.c", "// text", '#include "io/loop.h"'))
        assert.equal(1, #problems("script/world.c", '#include "io/loop.h"'))
        assert.equal(1, #problems("data/json.c", '  #  include "io/loop.h"'))
    end)

    it("finds a room that reaches ahead, and lets a layer's own files reach all", function()
        assert.same({}, problems("run/apply/apply.c", '#include "run/plan/plan.h"', '#include "run/apply/claims.h"'))
        assert.same({}, problems("run/host.c", '#include "run/release/leftovers.h"', '#include "run/scripts.h"'))
        assert.equal(1, #problems("run/plan/plan.c", '#include "run/apply/apply.h"'))
        assert.equal(1, #problems("run/plan/plan.c", '#include "run/host.h"'))
    end)

    it("finds a path that does not name its layer", function()
        assert.equal(1, #problems("base/err.c", '#include "err.h"'))
        assert.equal(1, #problems("base/err.c", '#include "../io/loop.h"'))
    end)

    it("finds a foreign library outside of its place, and one that nobody named", function()
        assert.equal(1, #problems("run/host.c", "#include <lua.h>"))
        assert.equal(1, #problems("io/transport.c", "#include <curl/curl.h>"))
        assert.equal(0, #problems("io/transport_curl.c", "#include <curl/curl.h>"))
        assert.equal(1, #problems("data/quantity.c", "#include <yyjson.h>"))
        assert.equal(1, #problems("base/err.c", "#include <zstd.h>"))
    end)
end)

describe("limits of size", function()
    it("count a function's lines and branches, not those of comments and texts", function()
        local found = sizes.functions [[
#include <a.h>
#define TWICE(x) { if (x) { x; } }
struct pair { int a, b; };
static const char *words[] = {"if", "{"};
/* if (a) { */
int first(int a)
{
    // while for if
    if (a && strcmp("? && {", "'"))
        return '{';
    return a ? 1 : 2;
}

static void second(void (*f)(int), int n)
{
    switch (n) {
    case 1:
    case 2:
        break;
    }
}
]]
        assert.same({
            { name = "first", line = 7, lines = 6, complexity = 4 },
            { name = "second", line = 15, lines = 7, complexity = 2 },
        }, found)
    end)

    it("are held", function()
        local long = "void f(void)\n{\n" .. ("    g();\n"):rep(100) .. "}\n"
        assert.equal(1, #sizes.check("a.c", long))
        local branchy = "void f(int a)\n{\n    if (a" .. (" || a"):rep(19) .. ")\n        g();\n}\n"
        assert.equal(1, #sizes.check("a.c", branchy))
        assert.equal(1, #sizes.check("a.lua", ("x()\n"):rep(1001)))
        assert.equal(0, #sizes.check("a.c", "void f(void)\n{\n    g();\n}\n"))
    end)
end)
