// Subjects that are being deleted and carry the script's finalizer: how long they wait is decided by
// deletion.h, from what the passes and the namespaces tell. What it decides is carried out, and said, here.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/apply/unfinalize.h"
#include "run/controller/controller_internal.h"
#include "run/controller/deletion.h"
#include "run/workqueue/predicate.h"

enum {
    ASK_FIRST_MS = 2000, // most are gone by then: nobody is asked about their namespace
    ASK_MAX_MS = 30 * 1000,
    FRESH_MS = 5000, // what is decided on the namespace's end rests on an answer that is no older
    SOON_MS = 250,   // what comes close together is looked at together
};

struct deletion {
    struct controller *c;
    char *key;
    struct object *subject; // +1, the latest
    int64_t deleted_us;     // wall time; 0: it is not deleted, but leaves the selector
    uint64_t seen_ms, terminating_ms, moved_ms, given_up_ms, looked_ms;
    enum given_up given_up;
    bool ran, waits, worked; // waits: the last pass is not the last word; worked: see works()
    bool refused, told_overdue, told_last;
    unsigned failures;
    struct call *call; // the last resort's
    char *why;         // it is still there; NULL: no pass has told
    UT_hash_handle hh;
};

struct deletions {
    struct deletion *all; // in order of coming
    struct loop_timer *timer;
    uint64_t due_ms; // of the timer
    struct series *given_up;
    bool known;    // which subjects there are
    bool hindered; // no pass can be hoped for, see hindrance()
};

static void look(void *ud);

static uint64_t now_of(const struct controller *c)
{
    return loop_now_ms(c->env->loop);
}

static struct deletion *find(const struct controller *c, const char *key)
{
    struct deletion *d;
    HASH_FIND_STR(c->deletions->all, key, d);
    return d;
}

static void drop(struct deletion *d)
{
    HASH_DEL(d->c->deletions->all, d);
    if (d->call != NULL)
        call_cancel(d->call);
    object_unref(d->subject);
    free(d->key);
    free(d->why);
    free(d);
}

static void drop_all(struct controller *c)
{
    struct deletion *d, *tmp;
    HASH_ITER (hh, c->deletions->all, d, tmp) {
        drop(d);
    }
}

static void look_in(struct controller *c, uint64_t ms)
{
    struct deletions *s = c->deletions;
    uint64_t due = now_of(c) + ms;
    if (c->stopping || (loop_timer_active(s->timer) && s->due_ms <= due))
        return;
    s->due_ms = due;
    loop_timer_start(s->timer, ms);
}

// What was given up of those that are gone is remembered no longer than there are others.
static void retract(struct controller *c)
{
    if (c->deletions->all != NULL || c->given_up == NULL)
        return;
    given_up_set_unref(c->given_up);
    c->given_up = NULL;
    controller_refresh_view(c);
}

// ---- which there are

static int64_t deletion_time(const struct object *subject)
{
    int64_t us = 0;
    struct json_doc *doc = object_parse(subject);
    const char *text = json_str(json_path(json_root(doc), "metadata", "deletionTimestamp", NULL));
    if (text != NULL)
        clock_parse_time(text, &us);
    json_doc_free(doc);
    return us;
}

void controller_deletion_note(struct controller *c, struct object *subject, bool leaving)
{
    bool waits = (leaving || object_is_deleting(subject)) && plan_has_finalizer(c->script, subject);
    if (!waits && c->deletions->all == NULL)
        return;
    char *key = controller_key(object_namespace(subject), object_name(subject));
    struct deletion *d = find(c, key);
    if (d != NULL && (!waits || !str_eq(object_uid(d->subject), object_uid(subject)))) {
        drop(d);
        d = NULL;
    }
    if (waits && d == NULL) {
        d = xcalloc(1, sizeof *d);
        d->c = c;
        d->key = xstrdup(key);
        d->seen_ms = d->moved_ms = now_of(c);
        HASH_ADD_KEYPTR(hh, c->deletions->all, d->key, strlen(d->key), d);
        look_in(c, SOON_MS);
    }
    if (waits) {
        object_unref(d->subject);
        d->subject = object_ref(subject);
        d->deleted_us = deletion_time(subject);
    }
    retract(c);
    free(key);
}

void controller_deletion_forget(struct controller *c, const char *key)
{
    struct deletion *d = find(c, key);
    if (d == NULL)
        return;
    drop(d);
    retract(c);
}

static void note_selected(struct controller *c, struct object *o)
{
    if (predicate_selects(c->script, o))
        controller_deletion_note(c, o, false);
}

void controller_deletions_begin(struct controller *c, bool anew)
{
    bool known = true;
    for (size_t i = 0; i < c->subject_count; i++)
        known &= informer_use_state(c->subjects[i], NULL) == INFORMER_SYNCED;
    bool look_at_all = known && (anew || !c->deletions->known);
    c->deletions->known = known;
    if (!look_at_all)
        return;
    drop_all(c); // a new version has a new chance
    retract(c);
    controller_each_subject(c, note_selected);
}

// ---- what happens to them

void controller_deletion_moved(struct controller *c, const char *key)
{
    struct deletion *d = find(c, key);
    if (d != NULL && d->worked)
        d->moved_ms = now_of(c);
}

static const char *what_a_pass_says(const struct outcome *o)
{
    switch (o->kind) {
    case OUTCOME_PAUSED:
        return "it is paused by the annotation " MARKS_ANNOTATION_PAUSED;
    case OUTCOME_PARKED:
        return o->err.text[0] != '\0' ? o->err.text : "kinds of its children can not be listed yet";
    case OUTCOME_NIL:
        return "finalize returned nil";
    case OUTCOME_PLANNED:
        return o->hook_done ? "children of it are not gone yet" : "finalize does not return done = true";
    case OUTCOME_GONE:
    case OUTCOME_DELETING:
    case OUTCOME_FAILED:
        break;
    }
    return NULL; // controller_deletion_failed comes, if anything
}

static void explain(struct deletion *d, const char *why)
{
    if (why == NULL || str_eq(d->why, why))
        return;
    free(d->why);
    d->why = xstrdup(why);
}

void controller_deletion_pass(struct controller *c, const struct outcome *o)
{
    struct deletion *d = find(c, o->key);
    if (d == NULL || o->subject == NULL || !str_eq(object_uid(o->subject), object_uid(d->subject)))
        return;
    d->ran |= o->finalizing || o->kind == OUTCOME_PARKED || o->kind == OUTCOME_PAUSED;
    d->waits = o->kind == OUTCOME_PLANNED || o->kind == OUTCOME_NIL ||
               (o->kind == OUTCOME_PARKED && !o->ran); // its children's kinds are on their way
    d->failures = 0;
    explain(d, what_a_pass_says(o));
    look_in(c, SOON_MS);
}

void controller_deletion_failed(struct controller *c, const struct outcome *o, const char *why, bool refused,
                                bool terminal)
{
    struct deletion *d = find(c, o->key);
    if (d == NULL)
        return;
    d->waits = !terminal;
    d->refused = refused;
    d->failures =
        o->end == PASS_RETRY ? 0 : queue_failures(c->queue, o->key); // to ask for that is no failure
    explain(d, why);
    look_in(c, SOON_MS);
}

void controller_on_namespace(struct controller *c, const char *ns)
{
    for (struct deletion *d = c->deletions->all; d != NULL; d = d->hh.next)
        if (str_eq(object_namespace(d->subject), ns)) {
            look_in(c, SOON_MS);
            return;
        }
}

// ---- what is said

// What keeps the script from working; NULL: nothing does.
static const char *hindrance(const struct controller *c, struct err *why)
{
    enum controller_state state = controller_state(c, why);
    if (c->paused)
        return "the script is paused";
    if (state != CONTROLLER_RUNNING && state != CONTROLLER_SYNCING) { // that is over soon
        err_prefix(why, "the script is %s", controller_state_name(state));
        return why->text;
    }
    if (!controller_quarantined(c, why))
        return NULL;
    err_prefix(why, "the script is in quarantine");
    return why->text;
}

static void tell_namespace(const struct deletion *d, const char *reason, const char *text)
{
    struct controller *c = d->c;
    const struct object *ns = terminating_object(c->env->terminating, object_namespace(d->subject));
    log_warn("subject is let go: its namespace is being deleted", F_STR("script", c->script->name),
             F_STR("key", d->key), F_STR("reason", reason), F_STR("error", text));
    if (ns != NULL)
        recorder_event(c->env->recorder, ns, "Warning", reason, "Finalize", text);
}

static void say_given_up(const struct deletion *d)
{
    struct err why = {0};
    const char *hinders = hindrance(d->c, &why);
    const char *text = hinders != NULL ? hinders : d->why != NULL ? d->why : "no pass has ended";
    char *note = xasprintf("%s %s: the namespace is being deleted, so script %s/%s is waited for no longer, "
                           "and its finalizer is taken "
                           "off: %.700s",
                           object_gvk(d->subject)->kind, d->key, d->c->script->ns, d->c->script->name, text);
    tell_namespace(d, "FinalizeAbandoned", note);
    free(note);
}

static void say_last_resort(const struct deletion *d)
{
    char *note = xasprintf("%s %s: the finalizer of script %s/%s is taken off although its children in other "
                           "namespaces or without one could not be deleted; if there are any, they carry the "
                           "label " MARKS_LABEL_OWNER "=%s: %.500s",
                           object_gvk(d->subject)->kind, d->key, d->c->script->ns, d->c->script->name,
                           object_uid(d->subject), d->why == NULL ? "no pass has ended" : d->why);
    tell_namespace(d, "ChildrenLeft", note);
    free(note);
}

static void say(const struct deletion *d, const char *reason, const char *text)
{
    struct controller *c = d->c;
    log_warn("subject is being deleted", F_STR("script", c->script->name), F_STR("key", d->key),
             F_STR("reason", reason), F_STR("error", text));
    recorder_event(c->env->recorder, d->subject, "Warning", reason, "Finalize", text);
}

static void say_overdue(struct deletion *d)
{
    if (!d->told_overdue && !program_spec(d->c->script->program)->finalize_abandon)
        say(d, "FinalizeOverdue",
            "finalize has not finished within finalize_timeout: the subject is held; see the script's "
            "errors, "
            "or let the script abandon it (finalize_timeout with finalize_abandon)");
    d->told_overdue = true;
}

// ---- what is decided

static bool works(struct deletion *d, uint64_t now)
{
    bool works = d->waits && !d->c->deletions->hindered;
    if (works != d->worked && d->failures < DELETION_TRIES)
        d->moved_ms = now; // a new situation has its own time
    d->worked = works;
    return works;
}

static int64_t time_left_us(const struct deletion *d)
{
    int64_t limit = program_spec(d->c->script->program)->finalize_timeout_us;
    if (limit == 0 || d->deleted_us == 0)
        return INT64_MAX;
    return d->deleted_us + limit - clock_wall_us(loop_clock(d->c->env->loop));
}

static uint64_t ask_every_ms(const struct deletion *d, uint64_t now)
{
    uint64_t half = (now - d->seen_ms) / 2;
    if (d->terminating_ms != 0 || d->failures >= DELETION_TRIES)
        return FRESH_MS;
    return half < ASK_FIRST_MS ? ASK_FIRST_MS : half > ASK_MAX_MS ? ASK_MAX_MS : half;
}

// Is its namespace being deleted? False: that is being asked, and nothing is to be decided before. *again:
// when to ask next.
static bool ask(struct deletion *d, uint64_t now, uint64_t *again)
{
    const char *ns = object_namespace(d->subject);
    bool soon = now - d->seen_ms < ASK_FIRST_MS && d->failures < DELETION_TRIES;
    uint64_t every = ask_every_ms(d, now);
    *again = ns[0] == '\0' ? UINT64_MAX : soon ? d->seen_ms + ASK_FIRST_MS : now + every;
    if (ns[0] == '\0' || soon)
        return true;
    switch (terminating_is(d->c->env->terminating, ns, every)) {
    case TERMINATING_ASKED:
        return false;
    case TERMINATING_NO:
        d->terminating_ms = 0;
        break;
    case TERMINATING_YES:
        d->terminating_ms = d->terminating_ms == 0 ? now : d->terminating_ms;
        break;
    }
    return true;
}

static void on_taken_off(void *ud, struct client_result *res)
{
    struct deletion *d = ud;
    const struct api_status *why = res->failure;
    d->call = NULL;
    d->given_up_ms = now_of(d->c); // again after a while, if it is still there
    if (why == NULL) {
        log_info("finalizer is taken off", F_STR("script", d->c->script->name), F_STR("key", d->key));
    } else if (why->http != 404) {
        log_warn("finalizer can not be taken off", F_STR("script", d->c->script->name), F_STR("key", d->key),
                 F_STR("error", why->err.text));
        controller_leaving_failed(d->c, d->key);
    }
}

static void take_off(struct deletion *d, uint64_t now)
{
    struct resource resource;
    char finalizer[MARKS_FINALIZER_MAX];
    struct json_doc *doc = object_parse(d->subject);
    if (!d->told_last)
        say_last_resort(d);
    d->told_last = true;
    d->given_up_ms = now; // if nothing comes of it: again after a while
    marks_finalizer(finalizer, d->c->script->hash);
    if (discovery_find(d->c->env->discovery, object_gvk(d->subject), &resource) == DISCOVERY_FOUND)
        d->call = unfinalize_send(d->c->env->client, &resource, json_get(json_root(doc), "metadata"),
                                  finalizer, on_taken_off, d);
    json_doc_free(doc);
}

static void give_up(struct deletion *d, enum given_up what, uint64_t now)
{
    if (d->given_up == GIVEN_UP_NOTHING)
        series_inc(d->c->deletions->given_up);
    d->given_up = what;
    d->given_up_ms = now;
    if (what == GIVEN_UP_ALL)
        say_given_up(d);
    else
        say(d, "FinalizeAbandoned",
            "finalize did not finish in time: it is given up, and the subject goes all the same");
}

// True: something more was given up. *again: when to look again.
static bool look_at(struct deletion *d, uint64_t now, uint64_t *again)
{
    *again = UINT64_MAX;
    if (d->call != NULL || !ask(d, now, again))
        return false;
    bool gets_on = works(d, now); // may count as a move
    struct deletion_verdict v = deletion_judge(
        &(struct deletion_facts){.now_ms = now,
                                 .seen_ms = d->seen_ms,
                                 .terminating_ms = d->terminating_ms,
                                 .works = gets_on,
                                 .moved_ms = d->moved_ms,
                                 .given_up = d->given_up,
                                 .given_up_ms = d->given_up_ms,
                                 .ran = d->ran,
                                 .failures = d->failures,
                                 .refused = d->refused,
                                 .left_us = time_left_us(d),
                                 .abandon = program_spec(d->c->script->program)->finalize_abandon});
    if (v.again_ms < *again)
        *again = v.again_ms;
    if (v.overdue)
        say_overdue(d);
    if (v.last_resort)
        take_off(d, now);
    if (v.given_up == d->given_up)
        return false;
    give_up(d, v.given_up, now);
    return true;
}

// Passes see it from now on.
static void publish(struct controller *c)
{
    size_t n = 0;
    struct deletion *d;
    for (d = c->deletions->all; d != NULL; d = d->hh.next)
        n += d->given_up != GIVEN_UP_NOTHING;
    struct given_up_set *s = given_up_set_new(n);
    for (d = c->deletions->all; d != NULL; d = d->hh.next)
        if (d->given_up != GIVEN_UP_NOTHING)
            given_up_set_add(s, object_uid(d->subject), d->given_up);
    given_up_set_seal(s);
    given_up_set_unref(c->given_up);
    c->given_up = s;
    controller_refresh_view(c);
}

static void run_given_up(struct controller *c, uint64_t now)
{
    for (struct deletion *d = c->deletions->all; d != NULL; d = d->hh.next)
        if (d->given_up != GIVEN_UP_NOTHING && d->given_up_ms == now) {
            queue_forget(c->queue, d->key);
            queue_add(c->queue, d->key);
        }
    controller_guard_look(c);
}

static void look(void *ud)
{
    struct controller *c = ud;
    uint64_t now = now_of(c), first = UINT64_MAX, again;
    bool changed = false;
    struct err unused;
    c->deletions->hindered = hindrance(c, &unused) != NULL;
    for (struct deletion *d = c->deletions->all; d != NULL; d = d->hh.next) {
        changed |= look_at(d, now, &again);
        if (again < first)
            first = again;
    }
    if (changed) {
        publish(c);
        run_given_up(c, now);
    }
    if (first != UINT64_MAX)
        look_in(c, first > now + SOON_MS ? first - now : SOON_MS);
}

const char *controller_deletion_waiting(const struct controller *c)
{
    for (const struct deletion *d = c->deletions->all; d != NULL; d = d->hh.next)
        if (d->given_up != GIVEN_UP_NOTHING && queue_place(c->queue, d->key) == QUEUE_WAITING)
            return d->key;
    return NULL;
}

// ---- life

void controller_deletions_open(struct controller *c)
{
    struct deletions *s = c->deletions = xcalloc(1, sizeof *s);
    s->timer = loop_timer_new(c->env->loop, look, c);
    s->given_up = metric_series(metrics_add(c->env->metrics, &deletion_given_up), c->script->name);
}

void controller_deletions_stop(struct controller *c)
{
    loop_timer_stop(c->deletions->timer);
}

void controller_deletions_close(struct controller *c)
{
    drop_all(c);
    loop_timer_free(c->deletions->timer);
    given_up_set_unref(c->given_up);
    free(c->deletions);
    c->deletions = NULL;
}
