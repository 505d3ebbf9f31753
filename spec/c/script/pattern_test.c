// The library functions that search, against LuaJIT's own on random cases: a million in a release build,
// fewer in the slow ones. All that they return must be equal, and the words of their errors.
// TIDELOCK_PATTERN_CASES=N runs that many, TIDELOCK_SEED=N from that seed (both are printed before).
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "script/script_support.h"

#include "script/sandbox.h"
#include "script/seed.h"

#if defined(TIDELOCK_SANITIZED)
enum { CASES = 20000 };
#elif defined(NDEBUG)
enum { CASES = 1000000 };
#else
enum { CASES = 100000 };
#endif

// Both states are asked by one script: ours in a sandbox, LuaJIT's in a state of its own. It gives all
// answers as one text, and how many calls there were, how many raised and how many found something.
static const char ask[] =
    "local s, p, r, n, most = ...\n"
    "local out, calls, raised, found = {}, 0, 0, 0\n"
    "local function add(...)\n"
    "  for i = 1, select('#', ...) do out[#out + 1] = tostring((select(i, ...))) end out[#out + 1] = '|'\n"
    "end\n"
    "local function try(f, ...)\n"
    "  calls = calls + 1\n"
    "  local function keep(ok, first, ...)\n"
    "    if not ok then raised = raised + 1 add('!' .. tostring(first):gsub('^[^:]*:%d+: ', '', 1)) return "
    "end\n"
    "    if first and first ~= s then found = found + 1 end add(first, ...)\n"
    "  end\n"
    "  keep(pcall(f, ...))\n"
    "end\n"
    "try(string.find, s, p) try(string.find, s, p, n) try(string.find, s, p, n, true)\n"
    "try(string.match, s, p) try(string.match, s, p, n)\n"
    "try(string.gsub, s, p, r, most)\n"
    "local turn, gives = 0, {'x', false, 7, nil, '', 1.5, n % 7 == 0 and {} or 'y', n % 11 == 0 or nil}\n"
    "try(string.gsub, s, p, function(a, b, ...)\n"
    "  turn = turn + 1 add(a, b, ...) if turn % 3 == 0 then return b and a end return gives[turn % 9]\n"
    "end)\n"
    "try(string.gsub, s, p, {a = 'A', b = false, ab = 7, [1] = 'one', [2] = '%1', [4] = false, ['1'] = 2})\n"
    "if n % 3 == 0 then\n"
    "  try(string.gsub, s, p, setmetatable({}, {__index = function(_, k) return n % 2 == 0 and k or nil "
    "end}), n)\n"
    "elseif n % 3 == 1 then try(string.gsub, s, p, n) else try(string.gsub, s, p, n % 5 == 0 and true or "
    "nil) end\n"
    "try(function() local k = 0 for a, b, c in string.gmatch(s, p) do add(a, b, c) k = k + 1 if k > 50 then "
    "break end end return k > 0 end)\n"
    "return table.concat(out, ','), calls, raised, found\n";

static const char *const pieces[] = {
    "a",      "b",    "ab",       ".",           "%a",      "%d",  "%s",      "%w",     "%p",     "%x",
    "%l",     "%u",   "%c",       "%z",          "%A",      "%S",  "%D",      "%g",     "%%",     "%.",
    "%-",     "[ab]", "[^a]",     "[a-c]",       "[%a_]",   "[]]", "[^]b]",   "[a-]",   "[%]]",   "(",
    ")",      "()",   "(a)",      "(.)",         "(.-)",    "%1",  "%2",      "%b()",   "%bab",   "%f[a]",
    "%f[%w]", "*",    "+",        "-",           "?",       "^",   "$",       "%",      "[",      "]",
    "[^",     "%b",   "%f",       ",",           " ",       "1",   "\n",      "%0",     "[%d-z]", "[a-%d]",
    "%Z",     "_",    "\xC3\xA9", "[\x80-\xFF]", "(a*)",    "%9",  "%f[^%w]", "%f[%z]", "%baa",   "%b(",
    "[%",     "[%a",  "[a-",      "(()",         "((.)%2)", "%g+", ".-"};
static const char subjects[] = "aaabbbab()()  1,2.-_%[]^$\nAB\xC3\xA9z\t0";

static size_t add_piece(char *out, size_t n, const char *piece)
{
    return (size_t)(stpcpy(out + n, piece) - out);
}

// More captures than there may be, or nearly so many.
static size_t make_captures(struct random *r, char *out)
{
    size_t n = 0;
    for (uint64_t i = 28 + random_below(r, 8); i > 0; i--)
        n = add_piece(out, n, "()");
    return n;
}

static size_t make_pattern(struct random *r, char *out)
{
    if (random_below(r, 300) == 0)
        return make_captures(r, out);
    size_t n = add_piece(out, 0, random_below(r, 8) == 0 ? "^" : "");
    for (uint64_t parts = 1 + random_below(r, 5); parts > 0; parts--) {
        n = add_piece(out, n, pieces[random_below(r, sizeof(pieces) / sizeof(pieces[0]))]);
        if (random_below(r, 100) == 0)
            out[n++] = 0;
    }
    return add_piece(out, n, random_below(r, 8) == 0 ? "$" : "");
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
    static const char *const parts[] = {"x",  "%0", "%1", "%2", "%3", "%4", "%5", "%6",
                                        "%7", "%8", "%9", "%%", "%",  "y",  "%a", "",
                                        "%1", "%0", "%1", "%2", "\0", "<",  ">",  "%%1"};
    size_t n = 0;
    for (uint64_t i = random_below(r, 4); i > 0; i--)
        n = add_piece(out, n, parts[random_below(r, sizeof(parts) / sizeof(parts[0]))]);
    if (random_below(r, 50) == 0)
        out[n++] = 0;
    return n;
}

struct asked {
    char pattern[128], subject[64], replacement[32];
    size_t pattern_len, subject_len, replacement_len;
    int n;       // where to begin, and as a value
    double most; // replacements
    struct buf answer;
    lua_Integer calls, raised, found;
};

static void call_ask(lua_State *L, struct asked *a)
{
    lua_settop(L, 0);
    lua_getfield(L, LUA_REGISTRYINDEX, "ask");
    lua_pushlstring(L, a->subject, a->subject_len);
    lua_pushlstring(L, a->pattern, a->pattern_len);
    lua_pushlstring(L, a->replacement, a->replacement_len);
    lua_pushinteger(L, a->n);
    lua_pushnumber(L, a->most);
    lua_call(L, 5, 4);
    size_t n;
    const char *text = lua_tolstring(L, 1, &n);
    buf_reset(&a->answer);
    buf_add(&a->answer, text, n);
    a->calls = lua_tointeger(L, 2);
    a->raised = lua_tointeger(L, 3);
    a->found = lua_tointeger(L, 4);
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
    printf("\nsubject '%.*s' pattern '%.*s' replacement '%.*s' n %d, at most %g\n", (int)a->subject_len,
           a->subject, (int)a->pattern_len, a->pattern, (int)a->replacement_len, a->replacement, a->n,
           a->most);
}

static void make_case(struct random *r, struct asked *a)
{
    static const int far[] = {INT32_MAX, -INT32_MAX, 1000, -1000, 0, 24, 25, -24, -25};
    static const double counts[] = {-1, 0, 1, 2, 0.5, 2.5, 1e9, 1e9, 1e9, 1e9, 1e9};
    a->pattern_len = make_pattern(r, a->pattern);
    a->subject_len = make_subject(r, a->subject);
    a->replacement_len = make_replacement(r, a->replacement);
    a->n = random_below(r, 8) == 0 ? far[random_below(r, sizeof(far) / sizeof(far[0]))]
                                   : (int)random_below(r, 40) - 12;
    a->most = counts[random_below(r, sizeof(counts) / sizeof(counts[0]))];
}

static void run_ours(struct sandbox *s, struct asked *batch)
{
    struct sandbox_outcome outcome = {.end = PASS_OK};
    struct sandbox_job job = {.fn = ask_ours, .ud = batch, .cpu_us = 100000000, .memory = 64 << 20};
    buf_init(&outcome.traceback, 4096);
    sandbox_run(s, &job, &outcome);
    buf_fini(&outcome.traceback);
    if (outcome.end != PASS_OK)
        fail_msg("%s", outcome.err.text);
}

static void assert_theirs_is_equal(lua_State *theirs, struct asked *a, struct buf *answer)
{
    struct asked other = *a;
    other.answer = *answer;
    call_ask(theirs, &other);
    *answer = other.answer;
    if (a->answer.len == answer->len && memcmp(a->answer.data, answer->data, answer->len) == 0)
        return;
    print_case(a);
    fail_msg("ours:   %s\nLuaJIT: %s", a->answer.data, answer->data);
}

static void test_equals_luajit(void **state)
{
    (void)state;
    const uint64_t cases = seed_setting("TIDELOCK_PATTERN_CASES", CASES);
    const uint64_t seed = seed_get();
    seed_announce(seed, "TIDELOCK_PATTERN_CASES", cases);
    struct random r;
    random_init(&r, seed);
    lua_State *theirs = luaL_newstate();
    luaL_openlibs(theirs);
    assert_int_equal(luaL_loadbuffer(theirs, ask, strlen(ask), "=ask"), 0);
    lua_setfield(theirs, LUA_REGISTRYINDEX, "ask");
    struct sandbox *s = sandbox_new(NULL);
    struct asked *batch = calloc(BATCH, sizeof(*batch));
    struct buf answer;
    buf_init(&answer, 1 << 20);
    for (int i = 0; i < BATCH; i++)
        buf_init(&batch[i].answer, 1 << 20);
    lua_Integer calls = 0;
    lua_Integer raised = 0;
    lua_Integer found = 0;
    uint64_t done = 0;
    while (done < cases) {
        for (int i = 0; i < BATCH; i++)
            make_case(&r, &batch[i]);
        run_ours(s, batch);
        for (int i = 0; i < BATCH; i++, done++) {
            assert_theirs_is_equal(theirs, &batch[i], &answer);
            calls += batch[i].calls;
            raised += batch[i].raised;
            found += batch[i].found;
        }
    }
    print_message("%llu cases, %lld calls: %lld found something, %lld raised; differences: none\n",
                  (unsigned long long)done, (long long)calls, (long long)found, (long long)raised);
    assert_true(done >= cases && found > calls / 20 && raised > calls / 20 && raised < calls / 2);
    for (int i = 0; i < BATCH; i++)
        buf_fini(&batch[i].answer);
    buf_fini(&answer);
    free(batch);
    sandbox_free(s);
    lua_close(theirs);
}

static void test_counts_are_whole(void **state)
{
    (void)state;
    support_value(
        "return {(('aaa'):gsub('a', 'b', 1.5)), (('aaa'):gsub('a', 'b', 0.5)), (('aaa'):gsub('a', 'b', -1))}",
        "[\"baa\",\"aaa\",\"aaa\"]");
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
        cmocka_unit_test(test_counts_are_whole),
        cmocka_unit_test(test_work_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
