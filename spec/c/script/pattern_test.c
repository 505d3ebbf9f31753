// The library functions that search, against LuaJIT's own on random cases: a million in a release build,
// fewer in the slow ones. TIDELOCK_PATTERN_CASES=N runs that many, TIDELOCK_SEED=N from that seed (both are
// printed). No differences are known but the words of some errors.
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "script/script_support.h"

#include "base/random.h"
#include "script/sandbox.h"

#if defined(TIDELOCK_SANITIZED)
enum { CASES = 20000 };
#elif defined(NDEBUG)
enum { CASES = 1000000 };
#else
enum { CASES = 100000 };
#endif

// Both states are asked by one script: ours in a sandbox, LuaJIT's in a state of its own.
static const char ask[] =
    "local s, p, r, n = ...\n"
    "local out = {}\n"
    "local function add(...)\n"
    "  for i = 1, select('#', ...) do out[#out + 1] = tostring((select(i, ...))) end out[#out + 1] = '|'\n"
    "end\n"
    "local function try(f, ...)\n"
    "  local function keep(ok, ...)\n"
    "    if ok then add(...) else add((tostring((...)):gsub('^[^:]*:%d+: ', '', 1))) end\n"
    "  end\n"
    "  keep(pcall(f, ...))\n"
    "end\n"
    "try(string.find, s, p) try(string.find, s, p, n) try(string.match, s, p) try(string.match, s, p, n)\n"
    "try(string.find, s, p, n, true)\n"
    "try(string.gsub, s, p, r) try(string.gsub, s, p, '<%0>', n) try(string.gsub, s, p, function(a, b) "
    "return b and a end)\n"
    "try(string.gsub, s, p, {a = 'A', b = false, ab = 7})\n"
    "try(function() local k = 0 for a, b in string.gmatch(s, p) do add(a, b) k = k + 1 if k > 50 then break "
    "end end end)\n"
    "return table.concat(out, ',')\n";

static const char *const pieces[] = {
    "a",    "b",     "ab",    ".",      "%a",     "%d",   "%s",    "%w",       "%p",         "%x", "%l",
    "%u",   "%c",    "%z",    "%A",     "%S",     "%D",   "%g",    "%%",       "%.",         "%-", "[ab]",
    "[^a]", "[a-c]", "[%a_]", "[]]",    "[^]b]",  "[a-]", "[%]]",  "(",        ")",          "()", "(a)",
    "(.)",  "(.-)",  "%1",    "%2",     "%b()",   "%bab", "%f[a]", "%f[%w]",   "*",          "+",  "-",
    "?",    "^",     "$",     "%",      "[",      "]",    "[^",    "%b",       "%f",         ",",  " ",
    "1",    "\n",    "%0",    "[%d-z]", "[a-%d]", "%Z",   "_",     "\xC3\xA9", "[\x80-\xFF]"};
static const char subjects[] = "aaabbbab()()  1,2.-_%[]^$\nAB\xC3\xA9z\t0";

static size_t make_pattern(struct random *r, char *out)
{
    size_t n = 0;
    uint64_t parts = 1 + random_below(r, 7);
    for (uint64_t i = 0; i < parts; i++) {
        const char *piece = pieces[random_below(r, sizeof(pieces) / sizeof(pieces[0]))];
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
        if (random_below(r, 100) == 0)
            out[n++] = 0;
    }
    return n;
}

static size_t make_subject(struct random *r, char *out)
{
    size_t n = random_below(r, 24);
    for (size_t i = 0; i < n; i++)
        out[i] = random_below(r, 60) == 0 ? 0 : subjects[random_below(r, sizeof(subjects) - 1)];
    return n;
}

static size_t make_replacement(struct random *r, char *out)
{
    static const char *const parts[] = {"x", "%0", "%1", "%2", "%%", "%", "y", "%a", ""};
    size_t n = 0;
    for (uint64_t i = random_below(r, 4); i > 0; i--) {
        const char *part = parts[random_below(r, sizeof(parts) / sizeof(parts[0]))];
        memcpy(out + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

struct asked {
    char pattern[128], subject[64], replacement[32];
    size_t pattern_len, subject_len, replacement_len;
    int n;
    struct buf answer;
};

static void call_ask(lua_State *L, struct asked *a)
{
    lua_settop(L, 0);
    lua_getfield(L, LUA_REGISTRYINDEX, "ask");
    lua_pushlstring(L, a->subject, a->subject_len);
    lua_pushlstring(L, a->pattern, a->pattern_len);
    lua_pushlstring(L, a->replacement, a->replacement_len);
    lua_pushinteger(L, a->n);
    lua_call(L, 4, 1);
    size_t n;
    const char *text = lua_tolstring(L, -1, &n);
    buf_reset(&a->answer);
    buf_add(&a->answer, text, n);
}

// A thousand cases in one state of ours: all is prepared first, since a job leaves nothing.
enum { BATCH = 1000 };

static void ask_ours(lua_State *L, void *ud)
{
    struct asked *batch = ud;
    if (luaL_loadbuffer(L, ask, strlen(ask), "=ask") != 0)
        lua_error(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "ask");
    for (int i = 0; i < BATCH; i++)
        call_ask(L, &batch[i]);
}

static void print_case(const struct asked *a)
{
    printf("subject:");
    for (size_t i = 0; i < a->subject_len; i++)
        printf(" %02x", (unsigned char)a->subject[i]);
    printf("\nsubject '%.*s' pattern '%.*s' replacement '%.*s' n %d\n", (int)a->subject_len, a->subject,
           (int)a->pattern_len, a->pattern, (int)a->replacement_len, a->replacement, a->n);
}

static uint64_t setting(const char *name, uint64_t absent)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : absent;
}

static void make_case(struct random *r, struct asked *a)
{
    a->pattern_len = make_pattern(r, a->pattern);
    a->subject_len = make_subject(r, a->subject);
    a->replacement_len = make_replacement(r, a->replacement);
    a->n = (int)random_below(r, 40) - 12;
}

static void test_equals_luajit(void **state)
{
    (void)state;
    const uint64_t cases = setting("TIDELOCK_PATTERN_CASES", CASES);
    const uint64_t seed = setting("TIDELOCK_SEED", 20240817);
    print_message("seed %llu, %llu cases\n", (unsigned long long)seed, (unsigned long long)cases);
    struct random r;
    random_init(&r, seed);
    lua_State *theirs = luaL_newstate();
    luaL_openlibs(theirs);
    assert_int_equal(luaL_loadbuffer(theirs, ask, strlen(ask), "=ask"), 0);
    lua_setfield(theirs, LUA_REGISTRYINDEX, "ask");
    struct sandbox *s = sandbox_new(NULL);
    struct asked *batch = calloc(BATCH, sizeof(*batch));
    for (int i = 0; i < BATCH; i++)
        buf_init(&batch[i].answer, 1 << 20);
    for (uint64_t done = 0; done < cases; done += BATCH) {
        for (int i = 0; i < BATCH; i++)
            make_case(&r, &batch[i]);
        struct sandbox_outcome outcome = {.end = PASS_OK};
        buf_init(&outcome.traceback, 4096);
        struct sandbox_job job = {.fn = ask_ours, .ud = batch, .cpu_us = 100000000, .memory = 64 << 20};
        sandbox_run(s, &job, &outcome);
        buf_fini(&outcome.traceback);
        if (outcome.end != PASS_OK)
            fail_msg("%s", outcome.err.text);
        for (int i = 0; i < BATCH; i++) {
            struct asked *a = &batch[i];
            struct buf ours = a->answer;
            buf_init(&a->answer, 1 << 20);
            call_ask(theirs, a);
            if (ours.len != a->answer.len || memcmp(ours.data, a->answer.data, ours.len) != 0) {
                print_case(a);
                fail_msg("ours:   %s\nLuaJIT: %s", ours.data, a->answer.data);
            }
            buf_fini(&a->answer);
            a->answer = ours;
        }
    }
    for (int i = 0; i < BATCH; i++)
        buf_fini(&batch[i].answer);
    free(batch);
    sandbox_free(s);
    lua_close(theirs);
}

static void test_work_is_bounded(void **state)
{
    (void)state;
    support_end("return ('a'):rep(200):find('a-a-a-a-a-b')", PASS_RAISED, "1,000,000 steps");
    support_end("return ('a'):rep(20000):find('.*.*b')", PASS_RAISED, "1,000,000 steps");
    support_end("return ('a'):rep(200000):match('.-b')", PASS_RAISED, "1,000,000 steps");
    support_end("return ('('):rep(100000):gsub('%b()', '')", PASS_RAISED, "1,000,000 steps");
    support_end("for x in ('a'):rep(100000):gmatch('a-b') do end", PASS_RAISED, "1,000,000 steps");
    support_end("return ('a'):rep(1e5):find('[' .. ('b'):rep(1e5) .. ']')", PASS_RAISED, "1,000,000 steps");
    support_end("return ('a'):rep(1e5):find('[^' .. ('b'):rep(1e5) .. ']+c')", PASS_RAISED,
                "1,000,000 steps");
    support_end("return ('a'):rep(1e5):find('[' .. ('b'):rep(1e5) .. 'a]-c')", PASS_RAISED,
                "1,000,000 steps");
    support_end("return ('a'):rep(1e5):find('%f[' .. ('b'):rep(1e5) .. ']')", PASS_RAISED, "1,000,000 steps");
    support_end("return ('a'):rep(300):match(('a?'):rep(300) .. ('a'):rep(300))", PASS_RAISED, "too complex");
    support_end("return ('a'):match(('('):rep(40))", PASS_RAISED, "too many captures");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_luajit),
        cmocka_unit_test(test_work_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
