// The walk runs in one protected call (convert_protected): nothing is owned in it but what the caller's
// buffer owns.
#include "script/result.h"

#include <math.h>
#include <string.h>

#include <lauxlib.h>

#include "base/clock.h"
#include "base/strset.h"
#include "script/convert.h"
#include "script/convert_internal.h"
#include "script/plain_text.h"
#include "script/result_value.h"

enum { EVENTS_DEFAULT = 100, REASON_MAX = 128, MESSAGE_MAX = 1024 };

// --- objects ---

// A required text member of the table at the top.
static int check_text(struct result_checker *c, const struct value_path *path, const char *name,
                      const char *why)
{
    struct value_path at = result_member(path, name);
    result_get(c, name);
    size_t n = 0;
    int r = 0;
    if (lua_isnil(c->L, -1))
        r = result_bad(c, &at, "is missing: %s", why);
    else if (lua_type(c->L, -1) != LUA_TSTRING)
        r = result_wrong_type(c, &at, "text");
    else if (lua_tolstring(c->L, -1, &n), n == 0)
        r = result_bad(c, &at, "is empty: %s", why);
    lua_pop(c->L, 1);
    return r;
}

static int check_metadata(struct result_checker *c, const struct value_path *path)
{
    static const char why[] = "every object needs apiVersion, kind and metadata.name";
    lua_State *L = c->L;
    struct value_path at = result_member(path, "metadata");
    if (lua_isnil(L, -1))
        return result_bad(c, &at, "is missing: %s", why);
    if (!lua_istable(L, -1))
        return result_wrong_type(c, &at, "an object");
    convert_force(L, -1);
    struct value_path generate = result_member(&at, "generateName");
    if (result_has(c, "generateName") && !result_has(c, "name"))
        return result_bad(
            c, &generate,
            "is not allowed: a pass must name the same object every time; build metadata.name from the "
            "subject's name, e.g. object.metadata.name .. \"-x\"");
    int r = check_text(c, &at, "name", why);
    result_get(c, "namespace");
    struct value_path ns = result_member(&at, "namespace");
    if (r == 0 && !lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING)
        r = result_wrong_type(c, &ns, "text (leave it out for the subject's namespace)");
    lua_pop(L, 1);
    return r;
}

// The table at the top has what every object needs.
static int check_object(struct result_checker *c, const struct value_path *path)
{
    int r = check_text(c, path, "apiVersion", "e.g. \"v1\" or \"apps/v1\"");
    if (r == 0)
        r = check_text(c, path, "kind", "e.g. \"ConfigMap\"");
    if (r < 0)
        return r;
    result_get(c, "metadata");
    r = check_metadata(c, path);
    lua_pop(c->L, 1);
    return r;
}

static int write_object(struct result_checker *c, const struct value_path *path)
{
    if (!lua_istable(c->L, -1))
        return result_wrong_type(c, path, "an object with apiVersion, kind and metadata.name");
    convert_force(c->L, -1);
    int r = check_object(c, path);
    return r < 0 ? r : convert_write_at(c->L, -1, &c->w, path, c->e);
}

// The members of the table at the top that are texts.
static int write_texts(struct result_checker *c, const struct value_path *path, const char *const *names)
{
    int r = 0;
    for (; *names != NULL && r == 0; names++) {
        struct value_path at = result_member(path, *names);
        result_get(c, *names);
        if (lua_type(c->L, -1) == LUA_TSTRING) {
            jw_key(&c->w, *names);
            r = convert_write_at(c->L, -1, &c->w, &at, c->e);
        }
        lua_pop(c->L, 1);
    }
    return r;
}

// apiVersion, kind, metadata.name, namespace and uid of the object at the top: a reference.
static int write_reference(struct result_checker *c, const struct value_path *path)
{
    static const char *const members[] = {"apiVersion", "kind", NULL};
    static const char *const metadata[] = {"name", "namespace", "uid", NULL};
    if (!lua_istable(c->L, -1))
        return result_wrong_type(c, path, "an object with apiVersion, kind and metadata.name");
    convert_force(c->L, -1);
    int r = check_object(c, path);
    if (r < 0)
        return r;
    struct value_path at = result_member(path, "metadata");
    jw_object(&c->w);
    r = write_texts(c, path, members);
    if (r < 0)
        return r;
    jw_key(&c->w, "metadata");
    jw_object(&c->w);
    result_get(c, "metadata");
    r = write_texts(c, &at, metadata);
    lua_pop(c->L, 1);
    jw_object_end(&c->w);
    jw_object_end(&c->w);
    return r;
}

// --- entries of apply, patch, delete ---

static int write_flag(struct result_checker *c, const struct value_path *path)
{
    if (!lua_isboolean(c->L, -1))
        return result_wrong_type(c, path, "true or false");
    jw_bool(&c->w, lua_toboolean(c->L, -1));
    return 0;
}

static int write_manager(struct result_checker *c, const struct value_path *path)
{
    if (lua_type(c->L, -1) != LUA_TSTRING)
        return result_wrong_type(c, path, "the name of a field manager, e.g. \"kubectl\"");
    return convert_write_at(c->L, -1, &c->w, path, c->e);
}

static int write_adopt(struct result_checker *c, const struct value_path *path)
{
    return result_write_list(c, path, write_manager);
}

static int write_after(struct result_checker *c, const struct value_path *path)
{
    return result_write_list(c, path, write_reference);
}

// The function's verdict (script/ready.h).
static int write_ready(struct result_checker *c, const struct value_path *path)
{
    if (!lua_isboolean(c->L, -1))
        return result_wrong_type(c, path, "a function of the live object that returns true or false");
    return write_flag(c, path);
}

// Sorted by name, as they are written.
static const struct result_field apply_fields[] = {
    {"adopt", write_adopt}, {"after", write_after}, {"keep", write_flag},    {"object", write_object},
    {"once", write_flag},   {"ready", write_ready}, {"replace", write_flag}, {NULL, NULL},
};
static const struct result_field patch_fields[] = {
    {"force", write_flag},
    {"object", write_object},
    {NULL, NULL},
};

// An entry is an object or { object = ..., options }; both are written in the second form.
static int write_entry(struct result_checker *c, const struct value_path *path,
                       const struct result_field *fields)
{
    static const struct result_alias aliases[] = {{"recreate", "replace"}, {NULL, NULL}};
    if (!lua_istable(c->L, -1))
        return result_wrong_type(c, path, "an object with apiVersion, kind and metadata.name");
    convert_force(c->L, -1);
    if (result_has(c, "object") && !result_has(c, "apiVersion") && !result_has(c, "kind"))
        return result_write_fields(c, path, fields, aliases);
    jw_object(&c->w);
    jw_key(&c->w, "object");
    int r = write_object(c, path);
    jw_object_end(&c->w);
    return r;
}

static int write_apply_entry(struct result_checker *c, const struct value_path *path)
{
    return write_entry(c, path, apply_fields);
}

static int write_patch_entry(struct result_checker *c, const struct value_path *path)
{
    return write_entry(c, path, patch_fields);
}

// --- the members of a result ---

static int write_apply(struct result_checker *c, const struct value_path *path)
{
    return result_write_list(c, path, write_apply_entry);
}

static int write_patch(struct result_checker *c, const struct value_path *path)
{
    return result_write_list(c, path, write_patch_entry);
}

static int write_delete(struct result_checker *c, const struct value_path *path)
{
    return result_write_list(c, path, write_reference);
}

static int write_status(struct result_checker *c, const struct value_path *path)
{
    if (!lua_istable(c->L, -1))
        return result_wrong_type(c, path, "an object ({} clears it; leave it out to touch nothing)");
    convert_force(c->L, -1);
    if (convert_is_array(c->L, -1))
        return result_bad(c, path, "is a list, but must be an object, e.g. { phase = \"Ready\" }");
    return convert_write_at(c->L, -1, &c->w, path, c->e);
}

static int write_event_type(struct result_checker *c, const struct value_path *path)
{
    const char *s = lua_type(c->L, -1) == LUA_TSTRING ? lua_tostring(c->L, -1) : "";
    if (strcmp(s, "Normal") != 0 && strcmp(s, "Warning") != 0)
        return result_wrong_type(c, path, "\"Normal\" or \"Warning\"");
    jw_str(&c->w, s);
    return 0;
}

// A pass must not fail for what one of its events says: what the API does not take is cut, here and where
// it is sent.
static int write_event_text(struct result_checker *c, const struct value_path *path, size_t max)
{
    size_t n = 0;
    if (lua_type(c->L, -1) != LUA_TSTRING)
        return result_wrong_type(c, path, "text");
    const char *s = lua_tolstring(c->L, -1, &n);
    n = str_utf8_cut(s, n, max);
    if (!str_is_utf8(s, n))
        return result_bad(c, path, "the text is not valid UTF-8");
    jw_strn(&c->w, s, n);
    return 0;
}

static int write_event_reason(struct result_checker *c, const struct value_path *path)
{
    return write_event_text(c, path, REASON_MAX);
}

static int write_event_message(struct result_checker *c, const struct value_path *path)
{
    return write_event_text(c, path, MESSAGE_MAX);
}

static int write_event(struct result_checker *c, const struct value_path *path)
{
    static const struct result_field fields[] = {
        {"message", write_event_message, .required = true},
        {"reason", write_event_reason, .required = true},
        {"type", write_event_type, .required = true},
        {NULL, NULL},
    };
    static const struct result_alias aliases[] = {{"note", "message"}, {NULL, NULL}};
    if (!lua_istable(c->L, -1))
        return result_wrong_type(c, path, "what k8s.event(type, reason, message) gives");
    return result_write_fields(c, path, fields, aliases);
}

static int write_events(struct result_checker *c, const struct value_path *path)
{
    unsigned max = c->limits != NULL && c->limits->events > 0 ? c->limits->events : EVENTS_DEFAULT;
    size_t count = 0;
    if (lua_istable(c->L, -1)) {
        convert_force(c->L, -1);
        int r = convert_list_count(c->L, path, &count, c->e);
        if (r < 0)
            return r;
    }
    if (count > max)
        return result_over(c, path, "has %zu events, more than the limit of %u a pass", count, max);
    return result_write_list(c, path, write_event);
}

static int write_requeue(struct result_checker *c, const struct value_path *path)
{
    static const char wanted[] = "a Go duration such as \"30s\" or \"1h30m\", or seconds, greater than 0";
    enum { YEARS_MAX = 100 };
    int64_t max = (int64_t)YEARS_MAX * 365 * 24 * 3600 * 1000000;
    int64_t us = 0;
    const char *text = plain_text(c->L, -1);
    if (lua_type(c->L, -1) == LUA_TNUMBER) {
        lua_Number seconds = lua_tonumber(c->L, -1);
        if (!(seconds > 0))
            return result_wrong_type(c, path, wanted);
        us = seconds * 1e6 > (double)max ? max + 1 : (int64_t)ceil(seconds * 1e6);
    } else if (text == NULL || duration_parse(text, &us) < 0 || us <= 0) {
        return result_wrong_type(c, path, wanted);
    }
    if (us > max)
        return result_bad(c, path, "is longer than %d years: leave it out to wait for changes only",
                          YEARS_MAX);
    jw_int(&c->w, us);
    return 0;
}

static int write_done(struct result_checker *c, const struct value_path *path)
{
    if (!c->finalize)
        return result_bad(c, path, "belongs to what finalize returns, not reconcile");
    return write_flag(c, path);
}

static void write_result(lua_State *L, void *ud)
{
    static const struct result_field fields[] = {
        {"apply", write_apply},   {"delete", write_delete},
        {"done", write_done},     {"events", write_events},
        {"patch", write_patch},   {"requeue_after", write_requeue, .as = "requeue_after_us"},
        {"status", write_status}, {NULL, NULL},
    };
    static const struct result_alias aliases[] = {
        {"children", "apply"},
        {"objects", "apply"},
        {"resources", "apply"},
        {"desired", "apply"},
        {"attachments", "apply"},
        {"requeue", "requeue_after"},
        {"resync", "requeue_after"},
        {"resyncAfterSeconds", "requeue_after"},
        {"conditions", "status"},
        {"finalized", "done"},
        {NULL, NULL},
    };
    struct result_checker *c = ud;
    convert_force(L, 1);
    lua_rawgeti(L, 1, 1);
    bool list = !lua_isnil(L, -1);
    lua_pop(L, 1);
    c->result =
        list ? result_bad(c, NULL, "%s returned a list: children belong into a field, { apply = { ... } }",
                          c->entry)
             : result_write_fields(c, NULL, fields, aliases);
    lua_settop(L, 1);
}

int result_write(lua_State *L, int idx, const struct pass_limits *limits, const char *entry, struct buf *out,
                 struct err *e)
{
    struct result_checker c = {.L = L, .e = e, .limits = limits, .entry = entry};
    c.finalize = strcmp(entry, "finalize") == 0;
    jw_init(&c.w, out);
    if (!lua_istable(L, idx)) {
        char got[RESULT_TEXT_MAX];
        result_describe(L, idx, got);
        return err_set(e, ERR_INVALID,
                       "%s returned %s: return a table such as { apply = {...} }, or nil for no opinion",
                       entry, got);
    }
    if (convert_protected(L, idx, write_result, &c) != 0)
        c.result = err_set(e, ERR_LIMIT, "the result of %s: %s", entry,
                           lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "failed");
    else if (c.result == 0 && c.w.failed)
        c.result = err_set(e, ERR_LIMIT, "the result of %s is longer than %zu bytes", entry, out->max);
    lua_pop(L, 1);
    return c.result;
}
