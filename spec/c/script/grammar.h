// Random hostile scripts from a small grammar, the same ones for the same seed. Header only.
#ifndef SPEC_SCRIPT_GRAMMAR_H
#define SPEC_SCRIPT_GRAMMAR_H

#include <string.h>

#include "base/buf.h"
#include "base/random.h"

enum { GRAMMAR_DEPTH = 5, GRAMMAR_TEXT_MAX = 6000 };

struct grammar {
    struct random r;
    struct buf out;
};

static const char grammar_leaves[] =
    "nil|true|false|0|-1|1|2|1e3|1e5|1e10|-1e300|0/0|1/"
    "0|0.5|2^53|''|'a'|'%s'|'%99.99f'|'(.-)%1'|'[^a'|'a-a-a-b'|"
    "'%b()'|'%f[%w]'|'\\0\\255'|('x'):rep(1000)|{}|{1, 2, 3}|{a = 1, b = {c = "
    "2}}|a|b|c|f|g|object|object.list|"
    "object.metadata|world|world.env|_G|string|table|math.huge|...|k8s|k8s.null|k8s.array "
    "{}|'v1/Pod'|'---\\na: [b'|"
    "'{\"a\":[1,{}]}'|world.list('v1/Pod')[1]|world.list('v1/Pod')[2].spec.big|k8s.quantity('1500m')|"
    "setmetatable({}, m)";
// Reads, and what they are given: texts that select, own and name.
static const char grammar_reads[] = "world.list('v1/Pod', |world.list('made.up/v1/Kind', |world.list(b, "
                                    "|world.get('v1/Pod', |world.get('v1/Pod', b, |"
                                    "world.children(|k8s.labels_match(a, |k8s.get(object, ";
static const char grammar_asked[] =
    "{labels = 'app=x,!b'}|{labels = 'a in (x, y), b notin (z)'}|{labels = 'a in ('}|{labels = b}|"
    "{labels = {a = 'x', b = 1}}|{labels = {[a] = b}, owner = c}|{fields = 'metadata.name=a'}|"
    "{fields = 'spec.nodeName!=n1,='}|{fields = b, labels = b}|{owner = object}|{owner = 'u-a'}|{owner = a}|"
    "{owner = {metadata = {uid = b}}}|{namespace = '*'}|{namespace = b, metadata = true}|{index = {node = "
    "'n1'}}|"
    "'a'|'apps/v1/Deployment'|'made.up/v1/Kind'|'v1'|'*'|'a,!b'|'a.b.c'|('a,'):rep(2000)|('k'):rep(600)";
// What decodes, and texts that are much when they are decoded.
static const char grammar_decoders[] =
    "json.decode(|yaml.decode(|yaml.decode_all(|base64.decode(|k8s.quantity(|sha256.hex(";
static const char grammar_encoded[] =
    "('['):rep(900) .. (']'):rep(900)|('['):rep(1e4)|'[' .. ('{\"a\":[]},'):rep(5e3) .. '1]'|"
    "'{' .. ('\"k\":1,'):rep(5e3) .. '\"k\":2}'|'\"' .. ('\\\\u00e9'):rep(5e3) .. '\"'|('9'):rep(400)|"
    "('- x\\n'):rep(5e3)|('- '):rep(2000)|('{a: '):rep(2000)|'a: &a [1]\\nb: [' .. ('*a, '):rep(2e3) .. ']'|"
    "('---\\n- a\\n'):rep(1e3)|('QUJD'):rep(5e3)|json.encode(a)|yaml.encode(a)|b";
static const char grammar_functions[] =
    "pcall|xpcall|error|tostring|tonumber|next|pairs|ipairs|select|unpack|type|rawget|rawset|rawlen|rawequal|"
    "setmetatable|getmetatable|assert|require|string.find|string.match|string.gsub|string.gmatch|string."
    "format|"
    "string.rep|string.sub|string.byte|string.char|string.lower|string.reverse|table.insert|table.remove|"
    "table.concat|table.sort|table.maxn|math.floor|math.max|math.fmod|bit.band|bit.lshift|bit.tohex|world."
    "get|"
    "world.list|world.children|world.log|world.data|world.now|world.secret_value|f|g|k8s.retry|"
    "k8s.invalid|k8s.array|k8s.is_array|k8s.condition|k8s.event|k8s.compare|k8s.quantity|k8s.copy|k8s.merge|"
    "k8s.labels_match|json.encode|json.decode|yaml.encode|yaml.decode_all|base64.encode|base64.decode|sha256."
    "hex|"
    "compat.open|log|later|never|a|b";
static const char grammar_operators[] = " .. | + | - | * | / | % | ^ | == | ~= | < | <= | and | or ";
static const char grammar_names[] =
    "a|b|c|f|g|m.__index|m.__newindex|m.__call|m.__tostring|m.__lt|m.__eq|m.__concat|m.__metatable|m.__len|m."
    "__gc|"
    "m.__mode|object.spec|object.list[1]|_G.x|string.rep|r.status|r.apply|r.events|r.done";
static const char grammar_loops[] = "while true do |for i = 1, 100 do |for i = 1, 1e9 do |repeat ";
// What goes before and after the expression that is walked through.
static const char *const grammar_walks[][2] = {
    {"for k, v in pairs({a, b, c, x = m, y = ", "}) do "},
    {"for k, v in pairs(", ") do "},
    {"for k, v in ipairs(", ") do "},
    {"for k, v in next, ", " do "},
    {"for k, v in ", ", a, b do "},
    {"local k, v = next(", ") while k ~= nil do k, v = next(a, k); "},
};
static const char grammar_steps[] =
    "|a[k] = v; |a[k] = nil; |a[#a + 1] = k; |rawset(a, k, v); |a = {}; |a[k], k = v, nil; ";
enum { GRAMMAR_WALKS = sizeof(grammar_walks) / sizeof(grammar_walks[0]) };

static inline void grammar_add(struct grammar *g, const char *text)
{
    buf_add_str(&g->out, text);
}

// One of the pieces between bars; returns where it begins.
static inline const char *grammar_add_one_of(struct grammar *g, const char *list)
{
    uint64_t count = 1;
    for (const char *p = list; (p = strchr(p, '|')) != NULL; p++)
        count++;
    for (uint64_t i = random_below(&g->r, count); i > 0; i--)
        list = strchr(list, '|') + 1;
    buf_add(&g->out, list, strcspn(list, "|"));
    return list;
}

static inline void grammar_add_expression(struct grammar *g, int depth);
static inline void grammar_add_block(struct grammar *g, int depth);

// One of the calls, of one of the arguments.
static inline void grammar_add_call_of(struct grammar *g, const char *calls, const char *arguments)
{
    grammar_add_one_of(g, calls);
    grammar_add_one_of(g, arguments);
    grammar_add(g, ")");
}

static inline void grammar_add_call(struct grammar *g, int depth)
{
    grammar_add_one_of(g, grammar_functions);
    grammar_add(g, "(");
    uint64_t n = random_below(&g->r, 4);
    for (uint64_t i = 0; i < n; i++) {
        grammar_add(g, i > 0 ? ", " : "");
        grammar_add_expression(g, depth - 1);
    }
    grammar_add(g, ")");
}

// a, b: expressions, between these texts.
static inline void grammar_add_pair(struct grammar *g, int depth, const char *before, const char *between,
                                    const char *after)
{
    grammar_add(g, before);
    grammar_add_expression(g, depth - 1);
    if (between != NULL)
        grammar_add(g, between);
    else
        grammar_add_one_of(g, grammar_operators);
    grammar_add_expression(g, depth - 1);
    grammar_add(g, after);
}

static inline void grammar_add_expression(struct grammar *g, int depth)
{
    uint64_t kind = depth <= 0 || g->out.len > GRAMMAR_TEXT_MAX ? 0 : random_below(&g->r, 11);
    switch (kind) {
    case 1:
    case 2:
    case 3:
        grammar_add_call(g, depth);
        break;
    case 4:
        grammar_add_pair(g, depth, "(", NULL, ")");
        break;
    case 5:
        grammar_add(g, "(function(...) ");
        grammar_add_block(g, depth - 1);
        grammar_add(g, " end)");
        break;
    case 6:
        grammar_add_pair(g, depth, "(", ")[", "]");
        break;
    case 7:
        grammar_add_pair(g, depth, "{", ", x = ", "}");
        break;
    case 8:
        grammar_add(g, "#(");
        grammar_add_expression(g, depth - 1);
        grammar_add(g, ")");
        break;
    case 9:
        grammar_add_call_of(g, grammar_reads, grammar_asked);
        break;
    case 10:
        grammar_add_call_of(g, grammar_decoders, grammar_encoded);
        break;
    default:
        grammar_add_one_of(g, grammar_leaves);
    }
}

static inline void grammar_add_statement(struct grammar *g, int depth)
{
    switch (random_below(&g->r, 7)) {
    case 0:
    case 1:
        grammar_add_one_of(g, grammar_names);
        grammar_add(g, " = ");
        grammar_add_expression(g, depth);
        break;
    case 2:
        grammar_add(g, "pcall(function(...) ");
        grammar_add_block(g, depth - 1);
        grammar_add(g, " end)");
        break;
    case 3: {
        bool repeats = *grammar_add_one_of(g, grammar_loops) == 'r';
        grammar_add_block(g, depth - 1);
        grammar_add(g, repeats ? " until false" : " end");
        break;
    }
    case 4: {
        const char *const *walk = grammar_walks[random_below(&g->r, GRAMMAR_WALKS)];
        grammar_add(g, "do ");
        grammar_add(g, walk[0]);
        grammar_add_expression(g, depth - 1);
        grammar_add(g, walk[1]);
        grammar_add_one_of(g, grammar_steps);
        grammar_add_block(g, depth - 1);
        grammar_add(g, " end end");
        break;
    }
    default:
        grammar_add(g, "a = ");
        grammar_add_call(g, depth);
    }
    grammar_add(g, "; ");
}

static inline void grammar_add_block(struct grammar *g, int depth)
{
    uint64_t n = depth > 0 && g->out.len < GRAMMAR_TEXT_MAX ? 1 + random_below(&g->r, 3) : 0;
    for (uint64_t i = 0; i < n; i++)
        grammar_add_statement(g, depth);
    if (random_below(&g->r, 3) == 0) {
        grammar_add(g, "do return ");
        grammar_add_expression(g, depth > 0 ? 1 : 0);
        grammar_add(g, " end");
    }
}

// The script of this seed, in g->out.
static inline void grammar_make(struct grammar *g, uint64_t seed)
{
    random_init(&g->r, seed);
    buf_reset(&g->out);
    grammar_add(
        g, "local k8s, json, yaml = require 'tidelock', require 'tidelock.json', require 'tidelock.yaml'\n"
           "local base64, sha256 = require 'tidelock.base64', require 'tidelock.sha256'\n"
           "local compat = require 'tidelock.compat'\n"
           "return {subject = 'v1/Pod', reconcile = function(object, world, ...)\n"
           "local a, b, c, m, r = {}, 'text', 3, {}, {} local function f(...) return a end\n"
           "local g = function(...) return f(...) end\n"
           "local function log() world.log('info', 'text') end\n"
           "local function later() k8s.retry('Later', 'not yet') end\n"
           "local function never() k8s.invalid('Never', 'no') end\n"
           "f = function(...) ");
    grammar_add_block(g, GRAMMAR_DEPTH - 2);
    grammar_add(g, " end\n");
    for (uint64_t i = 1 + random_below(&g->r, 5); i > 0; i--) {
        bool guarded = random_below(&g->r, 8) > 0;
        grammar_add(g, guarded ? "pcall(function(...) " : "");
        grammar_add_statement(g, GRAMMAR_DEPTH);
        grammar_add(g, guarded ? "end)\n" : "\n");
    }
    if (random_below(&g->r, 2) == 0) {
        grammar_add(g, "pcall(function(...) r.status = {v = ");
        grammar_add_expression(g, 2);
        grammar_add(g, "} end) do return r end end}");
    } else {
        grammar_add(g, "do return ");
        grammar_add_expression(g, 2);
        grammar_add(g, " end end}");
    }
}

#endif
