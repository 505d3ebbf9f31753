#include "kube/fields.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/strset.h"

// Texts are written with ' for ", which none of them needs.
static struct json_doc *parse(const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = strdup(text);
    for (char *s = copy; *s != '\0'; s++)
        *s = *s == '\'' ? '"' : *s == '`' ? '\'' : *s;
    // A key such as 'k:{'name':'a'}' needs its inner quotes escaped: they are written as ^.
    struct buf b;
    buf_init(&b, 1 << 20);
    for (char *s = copy; *s != '\0'; s++)
        *s == '^' ? buf_add_str(&b, "\\\"") : buf_add_char(&b, *s);
    struct json_doc *d = NULL;
    struct err e;
    if (json_parse(b.data, b.len, &d, &e) != 0)
        print_error("%s: %s\n", e.text, b.data);
    assert_non_null(d);
    buf_fini(&b);
    free(copy);
    return d;
}

static const json *root(const struct json_doc *d)
{
    return d == NULL ? NULL : json_root(d);
}

static void expect(const char *owned, const char *desired, const char *live, enum fields_verdict want,
                   const char *want_path)
{
    struct json_doc *o = parse(owned), *d = parse(desired), *l = parse(live);
    struct buf path;
    buf_init(&path, 10000);
    enum fields_verdict got = fields_compare(root(o), root(d), root(l), NULL, &path);
    const char *got_path = path.data == NULL ? "" : path.data;
    if (got != want || strcmp(got_path, want_path) != 0)
        print_error("owned %s desired %s live %s: %d at \"%s\", not %d at \"%s\"\n", owned, desired, live,
                    got, got_path, want, want_path);
    assert_int_equal(got, want);
    assert_string_equal(got_path, want_path);
    assert_int_equal(fields_compare(root(o), root(d), root(l), NULL, NULL), want);
    buf_fini(&path);
    if (o != NULL)
        json_doc_free(o);
    json_doc_free(d);
    if (l != NULL)
        json_doc_free(l);
}

#define SAME FIELDS_SAME, ""

static void test_maps(void **state)
{
    (void)state;
    const char *o = "{'f:spec':{'f:a':{},'f:m':{'f:x.y/z':{},'f:f:odd':{}}}}";
    const char *l = "{'spec':{'a':1,'m':{'x.y/z':'v','f:odd':2,'other':3},'b':9},'status':{}}";
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'},'a':1}}", l, SAME);
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'},'a':2}}", l, FIELDS_DIFFER, "spec.a");
    expect(o, "{'spec':{'m':{'f:odd':3,'x.y/z':'v'},'a':1}}", l, FIELDS_DIFFER, "spec.m.f:odd");
    expect(o, "{'spec':{'m':{'f:odd':2},'a':1}}", l, FIELDS_EXTRA, "spec.m[\"x.y/z\"]");
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'}}}", l, FIELDS_EXTRA, "spec.a");
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'},'a':1,'b':9}}", l, FIELDS_MISSING, "spec.b");
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'},'a':1},'data':{'k':{'n':1}}}", l, FIELDS_MISSING,
           "data.k.n");
    expect(o, "{'spec':null}", l, FIELDS_EXTRA, "spec");
    expect(o, "{'spec':{'m':[],'a':1}}", l, FIELDS_DIFFER, "spec.m");
    expect(o, "{}", l, FIELDS_EXTRA, "spec");
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'},'a':1}}", "{'spec':7}", FIELDS_DIFFER, "spec.a");
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'},'a':1}}", NULL, FIELDS_DIFFER, "spec.a");
    expect(o, "{'spec':{'m':{'f:odd':2,'x.y/z':'v'},'a':1.0}}", l, SAME);
    expect("{}", "[]", l, FIELDS_DIFFER, "");
}

static void test_what_is_passed_over(void **state)
{
    (void)state;
    const char *head = "{'apiVersion':'v1','kind':'X','metadata':{'name':'n','namespace':'d','uid':'u','"
                       "resourceVersion':'7',"
                       "'creationTimestamp':null}}";
    expect(NULL, head, "{}", SAME);
    expect("{}", head, NULL, SAME);
    expect("{'f:metadata':{'f:name':{},'f:labels':{'f:a':{}}}}",
           "{'metadata':{'name':'n','labels':{'a':'b'}}}", "{'metadata':{'labels':{'a':'b'}}}", SAME);
    expect(NULL, "{'metadata':{'name':'n','labels':{'a':'b'}}}", NULL, FIELDS_MISSING, "metadata.labels.a");
    // Deeper ones of these names are fields like others.
    expect(NULL, "{'spec':{'metadata':{'name':'n'}}}", NULL, FIELDS_MISSING, "spec.metadata.name");
    expect("{'f:spec':{'f:kind':{}}}", "{'spec':{'kind':'a'}}", "{'spec':{'kind':'b'}}", FIELDS_DIFFER,
           "spec.kind");
}

static void test_empty_and_null(void **state)
{
    (void)state;
    static const char *const owned[] = {"{'f:metadata':{'f:labels':{}}}",
                                        "{'f:metadata':{'f:labels':{'.':{}}}}"};
    for (int i = 0; i < 2; i++) {
        expect(owned[i], "{'metadata':{'labels':{}}}", "{'metadata':{'name':'x'}}", SAME);
        expect(owned[i], "{'metadata':{'labels':{}}}", "{'metadata':{'labels':{}}}", SAME);
        expect(owned[i], "{'metadata':{'labels':{}}}", "{'metadata':{'labels':{'other':'x'}}}", SAME);
        expect(owned[i], "{'metadata':{'labels':null}}", "{'metadata':{}}", SAME);
        expect(owned[i], "{'metadata':{}}", "{}", FIELDS_EXTRA, "metadata.labels");
    }
    expect(NULL, "{'metadata':{'labels':{}}}", "{}", FIELDS_MISSING, "metadata.labels");
    // An atomic map that shall be emptied.
    expect("{'f:spec':{'f:nodeSelector':{}}}", "{'spec':{'nodeSelector':{}}}",
           "{'spec':{'nodeSelector':{'a':'b'}}}", FIELDS_DIFFER, "spec.nodeSelector.a");
    const char *o = "{'f:spec':{'f:x':{}}}";
    expect(o, "{'spec':{'x':null}}", "{'spec':{}}", SAME);
    expect(o, "{'spec':{'x':null}}", "{'spec':{'x':null}}", SAME);
    expect(o, "{'spec':{'x':null}}", "{'spec':{'x':5}}", FIELDS_DIFFER, "spec.x");
    expect(o, "{'spec':{'x':''}}", "{'spec':{}}", SAME);
    expect(o, "{'spec':{'x':''}}", "{'spec':{'x':'a'}}", FIELDS_DIFFER, "spec.x");
    expect(o, "{'spec':{'x':0}}", "{}", SAME);
    expect(o, "{'spec':{'x':false}}", "{}", SAME);
    expect(o, "{'spec':{'x':[]}}", "{}", SAME);
    expect(o, "{'spec':{'x':true}}", "{}", FIELDS_DIFFER, "spec.x");
    expect(o, "{'spec':{'x':[{}]}}", "{}", FIELDS_DIFFER, "spec.x");
    // An empty granular list and a null own nothing.
    expect(NULL, "{'spec':{'l':[],'n':null,'m':{'l':[]}}}", "{'spec':{'l':null}}", SAME);
    expect(NULL, "{'spec':{'l':[]}}", "{'spec':{'l':[1]}}", FIELDS_MISSING, "spec.l");
    expect(NULL, "{'spec':{'n':null}}", "{'spec':{'n':1}}", FIELDS_MISSING, "spec.n");
}

static void test_map_lists(void **state)
{
    (void)state;
    const char *o = "{'f:spec':{'f:c':{'k:{^name^:^a^}':{'.':{},'f:name':{},'f:image':{}},'k:{^name^:^b^}':{'"
                    ".':{},'f:name':{}}}}}";
    const char *l =
        "{'spec':{'c':[{'name':'b','image':'d'},{'name':'z'},{'name':'a','image':'i','pull':'Always'}]}}";
    expect(o, "{'spec':{'c':[{'name':'a','image':'i'},{'name':'b'}]}}", l, SAME);
    expect(o, "{'spec':{'c':[{'name':'b'},{'name':'a','image':'i'}]}}", l, SAME);
    expect(o, "{'spec':{'c':[{'name':'b'},{'name':'a','image':'j'}]}}", l, FIELDS_DIFFER,
           "spec.c[name=\"a\"].image");
    expect(o, "{'spec':{'c':[{'name':'a','image':'i'}]}}", l, FIELDS_EXTRA, "spec.c[name=\"b\"]");
    expect(o, "{'spec':{'c':[{'name':'a','image':'i'},{'name':'b'},{'name':'z'}]}}", l, FIELDS_MISSING,
           "spec.c[2]");
    expect(o, "{'spec':{'c':[{'name':'a','image':'i'},{'name':'b','image':'d'}]}}", l, FIELDS_MISSING,
           "spec.c[name=\"b\"].image");
    expect(o, "{'spec':{'c':[{'name':'a','image':'i'},{'name':'b'}]}}", "{'spec':{'c':[{'name':'b'}]}}",
           FIELDS_DIFFER, "spec.c[name=\"a\"].name");
    expect(o, "{'spec':{'c':[{'name':'a','image':'i'},{'name':'b'}]}}", "{'spec':{'c':'x'}}", FIELDS_DIFFER,
           "spec.c[name=\"a\"].name");
    expect(o, "{'spec':{'c':{}}}", l, FIELDS_DIFFER, "spec.c");
    expect(o, "{'spec':{'c':[]}}", l, FIELDS_EXTRA, "spec.c[name=\"a\"]");
    expect(o, "{'spec':{'c':[7,null,{'name':'a','image':'i'},{'name':'b'}]}}", l, FIELDS_MISSING,
           "spec.c[0]");
}

static void test_defaulted_keys(void **state)
{
    (void)state;
    const char *o = "{'f:spec':{'f:ports':{"
                    "'k:{^port^:53,^protocol^:^TCP^}':{'.':{},'f:port':{}},"
                    "'k:{^port^:53,^protocol^:^UDP^}':{'.':{},'f:port':{},'f:protocol':{}}}}}";
    const char *l =
        "{'spec':{'ports':[{'port':53,'protocol':'UDP'},{'port':53,'protocol':'TCP','name':''}]}}";
    expect(o, "{'spec':{'ports':[{'port':53},{'port':53,'protocol':'UDP'}]}}", l, SAME);
    expect(o, "{'spec':{'ports':[{'protocol':'UDP','port':53},{'port':53}]}}", l, SAME);
    expect(o, "{'spec':{'ports':[{'port':53,'protocol':'UDP'},{'port':54}]}}", l, FIELDS_EXTRA,
           "spec.ports[port=53,protocol=\"TCP\"]");
    expect(o, "{'spec':{'ports':[{'port':53,'protocol':'UDP'},{'port':53,'protocol':'TCP'}]}}", l,
           FIELDS_MISSING, "spec.ports[port=53,protocol=\"TCP\"].protocol");
    expect(
        "{'f:metadata':{'f:ownerReferences':{'k:{^uid^:^u-1^}':{}}}}",
        "{'metadata':{'ownerReferences':[{'apiVersion':'v1','kind':'A','name':'n','uid':'u-1','controller':"
        "true}]}}",
        "{'metadata':{'ownerReferences':[{'uid':'u-2'},{'name':'n','apiVersion':'v1','kind':'A','uid':'u-1',"
        "'controller':true}]}}",
        SAME);
    expect("{'f:metadata':{'f:ownerReferences':{'k:{^uid^:^u-1^}':{}}}}",
           "{'metadata':{'ownerReferences':[{'apiVersion':'v1','kind':'A','name':'n','uid':'u-1','controller'"
           ":true}]}}",
           "{'metadata':{'ownerReferences':[{'name':'n','apiVersion':'v1','kind':'A','uid':'u-1'}]}}",
           FIELDS_DIFFER, "metadata.ownerReferences[uid=\"u-1\"].controller");
}

static void test_sets(void **state)
{
    (void)state;
    const char *o = "{'f:metadata':{'f:finalizers':{'.':{},'v:^a/b^':{},'v:7':{}}}}";
    const char *l = "{'metadata':{'finalizers':['x',7,'a/b']}}";
    expect(o, "{'metadata':{'finalizers':['a/b',7]}}", l, SAME);
    expect(o, "{'metadata':{'finalizers':['a/b']}}", l, FIELDS_EXTRA, "metadata.finalizers[7]");
    expect(o, "{'metadata':{'finalizers':['a/b',7,'x']}}", l, FIELDS_MISSING, "metadata.finalizers[2]");
    expect(o, "{'metadata':{'finalizers':[7,'a/b']}}", "{'metadata':{'finalizers':[7]}}", FIELDS_DIFFER,
           "metadata.finalizers[\"a/b\"]");
    expect("{'f:s':{'v:0':{}}}", "{'s':[0]}", "{}", FIELDS_DIFFER, "s[0]");
    expect("{'f:s':{'i:0':{},'i:1':{'f:a':{}}}}", "{'s':[1,{'a':2}]}", "{'s':[1,{'a':2,'b':3},4]}", SAME);
    expect("{'f:s':{'i:0':{},'i:1':{'f:a':{}}}}", "{'s':[1,{'a':3}]}", "{'s':[1,{'a':2}]}", FIELDS_DIFFER,
           "s[1].a");
}

static void test_atomic(void **state)
{
    (void)state;
    const char *o = "{'f:spec':{'f:args':{},'f:sel':{}}}";
    const char *d = "{'spec':{'args':['a','b'],'sel':{'x':{'y':1},'n':null}}}";
    expect(o, d, "{'spec':{'args':['a','b'],'sel':{'x':{'y':1}}}}", SAME);
    expect(o, d, "{'spec':{'args':['b','a'],'sel':{'x':{'y':1}}}}", FIELDS_DIFFER, "spec.args[0]");
    expect(o, d, "{'spec':{'args':['a','b','c'],'sel':{'x':{'y':1}}}}", FIELDS_DIFFER, "spec.args");
    expect(o, d, "{'spec':{'args':['a','b'],'sel':{'x':{'y':1},'z':0}}}", FIELDS_DIFFER, "spec.sel.z");
    expect(o, "{'spec':{'args':['a',''],'sel':{}}}", "{'spec':{'args':['a']}}", FIELDS_DIFFER, "spec.args");
}

static void test_odd_sets(void **state)
{
    (void)state;
    expect("{'f:a':{'k:not json':{}}}", "{'a':[]}", "{}", FIELDS_EXTRA, "a[k:not json]");
    expect("{'f:a':{'k:[]':{},'k:7':{}}}", "{'a':[{}]}", "{}", FIELDS_EXTRA, "a[]");
    expect("{'f:a':{'q:x':{}}}", "{'a':1}", "{'a':1}", SAME);
    expect("{'f:a':null}", "{'a':1}", "{'a':1}", SAME);
    expect("{'f:a':7}", "{'a':1}", "{'a':2}", FIELDS_DIFFER, "a");
    expect("{'x':{},'f':{},'':{}}", "{}", "{}", SAME);
    expect("[]", "{'a':1}", "{}", FIELDS_MISSING, "a");
    expect("{'f:a':{'k:':{}}}", "{'a':[1]}", "{'a':[1]}", FIELDS_MISSING, "a[0]");
    expect("{'f:a':{'i:-1':{}}}", "{'a':[1]}", "{'a':[1]}", FIELDS_EXTRA, "a[-1]");
}

static void test_of_manager(void **state)
{
    (void)state;
    struct json_doc *d = parse(
        "[null,{},{'manager':'m','operation':'Update','fieldsV1':{'f:a':{}}},{'manager':'m','operation':'"
        "Apply',"
        "'subresource':'status','fieldsV1':{'f:b':{}}},{'manager':'m','operation':'Apply','fieldsV1':null},"
        "{'manager':'m','operation':'Apply','fieldsV1':{'f:c':{}}},{'manager':7,'operation':'Apply'}]");
    assert_non_null(json_get(fields_of_manager(json_root(d), "m", NULL), "f:c"));
    assert_non_null(json_get(fields_of_manager(json_root(d), "m", ""), "f:c"));
    assert_non_null(json_get(fields_of_manager(json_root(d), "m", "status"), "f:b"));
    assert_null(fields_of_manager(json_root(d), "m", "scale"));
    assert_null(fields_of_manager(json_root(d), "x", NULL));
    assert_null(fields_of_manager(NULL, "m", NULL));
    json_doc_free(d);
}

static uint64_t hash_of(const char *owned, const char *live)
{
    struct json_doc *o = parse(owned), *l = parse(live);
    uint64_t h = fields_hash_owned(root(o), root(l));
    if (o != NULL)
        json_doc_free(o);
    json_doc_free(l);
    return h;
}

static void test_hash(void **state)
{
    (void)state;
    const char *o = "{'f:metadata':{'f:labels':{}},'f:spec':{'f:a':{},'f:c':{'k:{^n^:1}':{'f:v':{}},'k:{^n^:"
                    "2}':{'f:v':{}}}}}";
    const char *swapped = "{'f:spec':{'f:c':{'k:{^n^:2}':{'f:v':{}},'k:{^n^:1}':{'f:v':{}}},'f:a':{}},'f:"
                          "metadata':{'f:labels':{}}}";
    const char *l =
        "{'metadata':{'labels':{'x':'y'}},'spec':{'a':1,'b':2,'c':[{'n':1,'v':7},{'n':2,'v':8}]}}";
    uint64_t h = hash_of(o, l);
    assert_int_equal(h, hash_of(swapped, l));
    assert_int_equal(h, hash_of(o, "{'metadata':{'labels':{'q':'r'}},'spec':{'b':3,'c':[{'n':3},{'n':2,'v':8}"
                                   ",{'n':1,'v':7,'w':0}],'a':1}}"));
    assert_int_not_equal(
        h, hash_of(o, "{'metadata':{'labels':{}},'spec':{'a':1,'c':[{'n':1,'v':8},{'n':2,'v':7}]}}"));
    assert_int_not_equal(
        h, hash_of(o, "{'metadata':{'labels':{}},'spec':{'a':2,'c':[{'n':1,'v':7},{'n':2,'v':8}]}}"));
    assert_int_not_equal(h, hash_of(o, "{'spec':{'a':1,'c':[{'n':1,'v':7}]}}"));
    assert_int_equal(hash_of(NULL, l), 0);
}

// ---- objects made up: what is owned, desired and live belong together by construction, with at most one
// fault put in

enum fault { NO_FAULT, LIVE_DIFFERS, DESIRED_DIFFERS, NOT_OWNED, NOT_DESIRED, FAULTS };
static const enum fields_verdict verdict_of[FAULTS] = {FIELDS_SAME, FIELDS_DIFFER, FIELDS_DIFFER,
                                                       FIELDS_MISSING, FIELDS_EXTRA};

struct maker {
    struct random r;
    struct buf owned, desired, live;
    enum fault fault;
    int at;   // place of the fault
    int seen; // places so far
};

static bool is_here(struct maker *m)
{
    return m->seen++ == m->at;
}

static void add_all(struct maker *m, const char *owned, const char *desired, const char *live)
{
    buf_add_str(&m->owned, owned);
    buf_add_str(&m->desired, desired);
    buf_add_str(&m->live, live);
}

// A value and one unlike it.
static void make_texts(struct maker *m, char *value, char *other, size_t max)
{
    static const char *const forms[] = {"%d", "\"s%d\"", "[%d,2,{\"a\":[]}]", "{\"x\":{\"y\":%d},\"z\":[1]}",
                                        "%d.5"};
    const char *form = forms[random_below(&m->r, 5)];
    int n = 1 + (int)random_below(&m->r, 1000000);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(value, max, form, n);
    snprintf(other, max, form, n + 1);
#pragma GCC diagnostic pop
}

static void make_leaf(struct maker *m)
{
    char value[64], other[64];
    make_texts(m, value, other, sizeof(value));
    bool here = is_here(m);
    add_all(m, "{}", here && m->fault == DESIRED_DIFFERS ? other : value,
            here && m->fault == LIVE_DIFFERS ? other : value);
}

static void make_value(struct maker *m, int depth);

static void comma(struct buf *b, char open)
{
    if (b->data[b->len - 1] != open)
        buf_add_char(b, ',');
}

// One member of a map or list; the parts that a fault leaves out are taken back.
static void make_member(struct maker *m, const char *owned, const char *both, int depth)
{
    size_t o = m->owned.len, d = m->desired.len;
    bool here = is_here(m);
    comma(&m->owned, '{');
    comma(&m->desired, '{');
    comma(&m->live, '{');
    add_all(m, owned, both, both);
    make_value(m, depth);
    if (here && m->fault == NOT_OWNED)
        m->owned.len = o;
    if (here && m->fault == NOT_DESIRED)
        m->desired.len = d;
}

static void make_map(struct maker *m, int depth)
{
    size_t n = 2 + random_below(&m->r, 3);
    add_all(m, "{", "{", "{");
    if (random_below(&m->r, 2))
        buf_add_str(&m->owned, "\".\":{}");
    for (size_t i = 0; i < n; i++) {
        char owned[40], both[40];
        const char *dots = random_below(&m->r, 3) == 0 ? "a.b/" : "";
        snprintf(owned, sizeof(owned), "\"f:%sn%zu\":", dots, i);
        snprintf(both, sizeof(both), "\"%sn%zu\":", dots, i);
        make_member(m, owned, both, depth);
        if (random_below(&m->r, 3) == 0)
            buf_addf(&m->live, ",\"theirs%zu\":[%zu]", i, i);
    }
    add_all(m, "}", "}", "}");
}

// Items with a key of two fields, of which the server gave one to live; its own order and a stranger's item
// in live.
static void make_list(struct maker *m, int depth)
{
    size_t n = 2 + random_below(&m->r, 3);
    bool defaulted = random_below(&m->r, 2);
    add_all(m, "{", "[", "[{\"name\":\"theirs\",\"kind\":\"K\"}");
    for (size_t i = 0; i < n; i++) {
        size_t o = m->owned.len, d = m->desired.len;
        bool here = is_here(m);
        comma(&m->owned, '{');
        comma(&m->desired, '[');
        buf_addf(
            &m->owned,
            "\"k:{\\\"kind\\\":\\\"K\\\",\\\"name\\\":\\\"i%zu\\\"}\":{\".\":{},\"f:name\":{},%s\"f:v\":", i,
            defaulted ? "" : "\"f:kind\":{},");
        buf_addf(&m->desired, "{\"name\":\"i%zu\",%s\"v\":", i, defaulted ? "" : "\"kind\":\"K\",");
        buf_addf(&m->live, ",{\"kind\":\"K\",\"extra\":1,\"name\":\"i%zu\",\"v\":", i);
        make_value(m, depth);
        add_all(m, "}", "}", "}");
        if (here && m->fault == NOT_OWNED)
            m->owned.len = o;
        if (here && m->fault == NOT_DESIRED)
            m->desired.len = d;
    }
    add_all(m, "}", "]", "]");
}

static void make_set(struct maker *m)
{
    size_t n = 2 + random_below(&m->r, 4);
    add_all(m, "{", "[", "[\"theirs\"");
    for (size_t i = 0; i < n; i++) {
        size_t o = m->owned.len, d = m->desired.len;
        bool here = is_here(m);
        comma(&m->owned, '{');
        comma(&m->desired, '[');
        buf_addf(&m->owned, "\"v:\\\"e%zu\\\"\":{}", i);
        buf_addf(&m->desired, "\"e%zu\"", i);
        buf_addf(&m->live, ",\"e%zu\"", n - 1 - i);
        if (here && m->fault == NOT_OWNED)
            m->owned.len = o;
        if (here && m->fault == NOT_DESIRED)
            m->desired.len = d;
    }
    add_all(m, "}", "]", "]");
}

static void make_value(struct maker *m, int depth)
{
    switch (depth == 0 ? 0 : random_below(&m->r, 6)) {
    case 0:
    case 1:
        make_leaf(m);
        break;
    case 2:
    case 3:
        make_map(m, depth - 1);
        break;
    case 4:
        make_list(m, depth - 1);
        break;
    default:
        make_set(m);
        break;
    }
}

// Leaves and members are places; a fault that the place can not have is none (`hit` stays false).
static bool make(struct maker *m, uint64_t seed, enum fault fault, int at)
{
    random_init(&m->r, seed);
    m->fault = fault;
    m->at = at;
    m->seen = 0;
    buf_reset(&m->owned);
    buf_reset(&m->desired);
    buf_reset(&m->live);
    make_map(m, 4);
    return m->seen > at;
}

static enum fields_verdict judge(struct maker *m, uint64_t *ret_hash)
{
    struct json_doc *o, *d, *l;
    assert_int_equal(json_parse(m->owned.data, m->owned.len, &o, NULL), 0);
    assert_int_equal(json_parse(m->desired.data, m->desired.len, &d, NULL), 0);
    assert_int_equal(json_parse(m->live.data, m->live.len, &l, NULL), 0);
    enum fields_verdict v = fields_compare(json_root(o), json_root(d), json_root(l), NULL, NULL);
    *ret_hash = fields_hash_owned(json_root(o), json_root(l));
    json_doc_free(o);
    json_doc_free(d);
    json_doc_free(l);
    return v;
}

static void test_made_up_objects(void **state)
{
    (void)state;
    struct maker m = {0};
    char *good[3] = {0};
    int faults[FAULTS] = {0};
    buf_init(&m.owned, 1 << 20);
    buf_init(&m.desired, 1 << 20);
    buf_init(&m.live, 1 << 20);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t hash, other;
        make(&m, seed, NO_FAULT, -1);
        int places = m.seen;
        assert_int_equal(judge(&m, &hash), FIELDS_SAME);
        good[0] = strdup(m.owned.data);
        good[1] = strdup(m.desired.data);
        good[2] = strdup(m.live.data);
        for (enum fault f = LIVE_DIFFERS; f < FAULTS; f++) {
            int at = (int)random_below(&m.r, (uint64_t)places);
            make(&m, seed, f, at);
            // A place that can not have this fault leaves all three as they were.
            bool same = strcmp(good[0], m.owned.data) == 0 && strcmp(good[1], m.desired.data) == 0 &&
                        strcmp(good[2], m.live.data) == 0;
            enum fields_verdict v = judge(&m, &other);
            if (v != (same ? FIELDS_SAME : verdict_of[f]))
                print_error("seed %d fault %d at %d:\n%s\n%s\n%s\n", (int)seed, f, at, m.owned.data,
                            m.desired.data, m.live.data);
            assert_int_equal(v, same ? FIELDS_SAME : verdict_of[f]);
            if (f == LIVE_DIFFERS)
                assert_int_equal(hash == other, same);
            faults[f] += !same;
        }
        for (int i = 0; i < 3; i++)
            free(good[i]);
    }
    for (enum fault f = LIVE_DIFFERS; f < FAULTS; f++)
        assert_true(faults[f] > 50);
    buf_fini(&m.owned);
    buf_fini(&m.desired);
    buf_fini(&m.live);
}

// Any three documents: an answer, no crash, and SAME only agrees with itself.
static void test_any_documents(void **state)
{
    (void)state;
    static const char *const parts[] = {"{",         "}",        "[",      "]",      "\"f:a\":",
                                        "\"k:{}\":", "\"v:1\":", "\".\":", "\"a\":", "1",
                                        "null",      ",",        "\"x\"",  "{}",     "[]"};
    struct random r;
    random_init(&r, 3);
    int good = 0;
    struct json_doc *kept[3] = {0};
    for (int round = 0; round < 300000; round++) {
        char text[128] = "{";
        for (size_t n = random_below(&r, 9); n > 0; n--)
            strcat(text, parts[random_below(&r, sizeof(parts) / sizeof(parts[0]))]);
        strcat(text, "}");
        struct json_doc *d;
        if (json_parse(text, strlen(text), &d, NULL) != 0)
            continue;
        good++;
        if (kept[good % 3] != NULL)
            json_doc_free(kept[good % 3]);
        kept[good % 3] = d;
        enum fields_verdict v = fields_compare(root(kept[0]), root(d), root(kept[2]), NULL, NULL);
        assert_true(v >= FIELDS_SAME && v <= FIELDS_DIFFER);
        (void)fields_hash_owned(root(d), root(kept[1]));
    }
    assert_true(good > 1000);
    for (int i = 0; i < 3; i++)
        json_doc_free(kept[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_what_is_passed_over),
        cmocka_unit_test(test_empty_and_null),
        cmocka_unit_test(test_map_lists),
        cmocka_unit_test(test_defaulted_keys),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_atomic),
        cmocka_unit_test(test_odd_sets),
        cmocka_unit_test(test_of_manager),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_made_up_objects),
        cmocka_unit_test(test_any_documents),
    };
    return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
