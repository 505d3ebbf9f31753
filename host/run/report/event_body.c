#include "run/report/event_body.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "data/json_write.h"

enum { BODY_MAX = 64 << 10 };

void event_about(struct event *ev, const struct object *o)
{
    ev->kind = object_gvk(o);
    ev->about_ns = xstrdup(object_namespace(o));
    ev->about_name = xstrdup(object_name(o));
    ev->about_uid = xstrdup(object_uid(o));
}

void event_fini(struct event *ev)
{
    free(ev->about_ns);
    free(ev->about_name);
    free(ev->about_uid);
    free(ev->name);
    free(ev->type);
    free(ev->reason);
    free(ev->action);
    free(ev->note);
    *ev = (struct event){0};
}

const char *event_namespace(const struct event *ev)
{
    return ev->about_ns[0] == '\0' ? "default" : ev->about_ns;
}

static void write_reference(struct json_writer *w, const char *key, const struct event *ev)
{
    jw_key(w, key);
    jw_object(w);
    jw_member_str(w, "apiVersion", ev->kind->api_version);
    jw_member_str(w, "kind", ev->kind->kind);
    jw_member_str(w, "name", ev->about_name);
    if (ev->about_ns[0] != '\0')
        jw_member_str(w, "namespace", ev->about_ns);
    jw_member_str(w, "uid", ev->about_uid);
    jw_object_end(w);
}

static void write_series(struct json_writer *w, const struct event *ev)
{
    char last[CLOCK_TEXT_MAX];
    clock_format_micro_time(last, ev->last_us);
    jw_key(w, "series");
    jw_object(w);
    jw_member_int(w, "count", ev->count);
    jw_member_str(w, "lastObservedTime", last);
    jw_object_end(w);
}

static void write_core(struct json_writer *w, const char *instance, const struct event *ev)
{
    char first[CLOCK_TEXT_MAX], last[CLOCK_TEXT_MAX];
    clock_format_time(first, ev->first_us);
    clock_format_time(last, ev->last_us);
    write_reference(w, "involvedObject", ev);
    jw_member_str(w, "message", ev->note);
    jw_member_str(w, "firstTimestamp", first);
    jw_member_str(w, "lastTimestamp", last);
    jw_member_int(w, "count", ev->count);
    jw_key(w, "source");
    jw_object(w);
    jw_member_str(w, "component", instance);
    jw_object_end(w);
}

static void write_new(struct json_writer *w, const char *instance, const struct event *ev)
{
    char time[CLOCK_TEXT_MAX];
    clock_format_micro_time(time, ev->first_us);
    write_reference(w, "regarding", ev);
    jw_member_str(w, "note", ev->note);
    jw_member_str(w, "action", ev->action);
    jw_member_str(w, "eventTime", time);
    jw_member_str(w, "reportingController", "tidelock.dev/host");
    jw_member_str(w, "reportingInstance", instance);
    if (ev->count > 1)
        write_series(w, ev);
}

char *event_body(const struct event *ev, const char *instance, bool core, size_t *ret_len)
{
    struct buf body;
    struct json_writer w;
    buf_init(&body, BODY_MAX);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", core ? "v1" : "events.k8s.io/v1");
    jw_member_str(&w, "kind", "Event");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", ev->name);
    jw_member_str(&w, "namespace", event_namespace(ev));
    jw_object_end(&w);
    jw_member_str(&w, "type", ev->type);
    jw_member_str(&w, "reason", ev->reason);
    if (core)
        write_core(&w, instance, ev);
    else
        write_new(&w, instance, ev);
    jw_object_end(&w);
    return buf_take(&body, ret_len);
}

char *event_series_body(const struct event *ev, bool core, size_t *ret_len)
{
    struct buf body;
    struct json_writer w;
    char last[CLOCK_TEXT_MAX];
    buf_init(&body, BODY_MAX);
    jw_init(&w, &body);
    clock_format_time(last, ev->last_us);
    jw_object(&w);
    if (core) {
        jw_member_int(&w, "count", ev->count);
        jw_member_str(&w, "lastTimestamp", last);
    } else {
        write_series(&w, ev);
    }
    jw_object_end(&w);
    return buf_take(&body, ret_len);
}
