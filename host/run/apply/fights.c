#include "run/apply/fights.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/alloc.h"

enum {
    TIMES = 4,
    WINDOW_MS = 60 * 1000,
    FIRST_MS = 30 * 1000,
    LAST_MS = 10 * 60 * 1000,
    QUIET_MS = 10 * 60 * 1000,
    SWEEP_MS = 60 * 1000,
};

struct field {
    char *name; // id and path
    uint64_t writes[TIMES];
    unsigned count; // of writes, at most TIMES; the oldest is at [next]
    unsigned next;
    uint64_t desired;     // of the last write
    bool same;            // and of the one before it
    uint64_t interval_ms; // 0: no fight is known
    uint64_t not_before;  // when our value is set again
    uint64_t asked;       // the last time
    char *text;           // who it is, for people; NULL: no fight is known
    UT_hash_handle hh;
};

struct fights {
    struct field *fields;
    uint64_t swept;
};

struct fights *fights_new(void)
{
    return xcalloc(1, sizeof(struct fights));
}

static void drop(struct fights *f, struct field *x)
{
    HASH_DEL(f->fields, x);
    free(x->name);
    free(x->text);
    free(x);
}

void fights_free(struct fights *f)
{
    if (f == NULL)
        return;
    struct field *x, *tmp;
    HASH_ITER (hh, f->fields, x, tmp) {
        drop(f, x);
    }
    free(f);
}

static bool is_over(const struct field *x, uint64_t now)
{
    return now - x->asked > (x->interval_ms > 0 ? QUIET_MS : WINDOW_MS);
}

static void sweep(struct fights *f, uint64_t now)
{
    struct field *x, *tmp;
    if (now - f->swept < SWEEP_MS)
        return;
    f->swept = now;
    HASH_ITER (hh, f->fields, x, tmp) {
        if (is_over(x, now))
            drop(f, x);
    }
}

static struct field *find(const struct fights *f, const char *id, const char *path)
{
    struct field *x;
    char *name = xasprintf("%s|%s", id, path);
    HASH_FIND_STR(f->fields, name, x);
    free(name);
    return x;
}

static struct field *find_or_add(struct fights *f, const char *id, const char *path)
{
    struct field *x = find(f, id, path);
    if (x != NULL)
        return x;
    x = xcalloc(1, sizeof *x);
    x->name = xasprintf("%s|%s", id, path);
    HASH_ADD_KEYPTR(hh, f->fields, x->name, strlen(x->name), x);
    return x;
}

static void note_desire(struct field *x, uint64_t desired_hash)
{
    x->same = x->count > 0 && x->desired == desired_hash;
    x->desired = desired_hash;
}

// Is it one of many within a short time?
static bool note_write(struct field *x, uint64_t now)
{
    bool often = x->count == TIMES && now - x->writes[x->next] <= WINDOW_MS;
    x->writes[x->next] = now;
    x->next = (x->next + 1) % TIMES;
    if (x->count < TIMES)
        x->count++;
    return often;
}

static void begin_anew(struct field *x)
{
    free(x->text);
    x->text = NULL;
    x->count = x->next = 0;
    x->interval_ms = 0;
}

// In a fight that is known.
static enum fights_move ask_in_fight(struct field *x, uint64_t now, uint64_t *ret_wait_ms)
{
    if (now < x->not_before) {
        *ret_wait_ms = x->not_before - now;
        return FIGHTS_WAIT;
    }
    x->interval_ms = x->interval_ms * 2 > LAST_MS ? LAST_MS : x->interval_ms * 2;
    x->not_before = now + x->interval_ms;
    return FIGHTS_WRITE;
}

// What is known of it, looked at anew.
static struct field *visit(struct fights *f, const char *id, const char *path, uint64_t desired_hash,
                           uint64_t now)
{
    sweep(f, now);
    struct field *x = find_or_add(f, id, path);
    if (is_over(x, now))
        begin_anew(x);
    x->asked = now;
    note_desire(x, desired_hash);
    return x;
}

enum fights_move fights_ask(struct fights *f, const char *id, const char *path, uint64_t desired_hash,
                            uint64_t now_ms, uint64_t *ret_wait_ms)
{
    struct field *x = visit(f, id, path, desired_hash, now_ms);
    if (x->interval_ms > 0)
        return ask_in_fight(x, now_ms, ret_wait_ms);
    return note_write(x, now_ms) ? FIGHTS_PROBE : FIGHTS_WRITE;
}

enum fights_move fights_ask_to_make(struct fights *f, const char *id, uint64_t now_ms, uint64_t *ret_wait_ms)
{
    struct field *x = find(f, id, "");
    if (x == NULL || x->interval_ms == 0 || is_over(x, now_ms))
        return FIGHTS_WRITE;
    x->asked = now_ms;
    return ask_in_fight(x, now_ms, ret_wait_ms);
}

bool fights_made(struct fights *f, const char *id, const char *text, uint64_t now_ms)
{
    struct field *x = visit(f, id, "", 0, now_ms);
    return x->interval_ms == 0 && note_write(x, now_ms) && fights_found(f, id, "", text, now_ms);
}

const char *fights_text(const struct fights *f, const char *id, const char *path)
{
    const struct field *x = find(f, id, path);
    return x != NULL && x->interval_ms > 0 && x->same ? x->text : NULL;
}

bool fights_same_desire(const struct fights *f, const char *id, const char *path)
{
    const struct field *x = find(f, id, path);
    return x != NULL && x->same;
}

bool fights_found(struct fights *f, const char *id, const char *path, const char *text, uint64_t now_ms)
{
    struct field *x = find_or_add(f, id, path);
    bool news = x->interval_ms == 0;
    x->asked = now_ms;
    x->interval_ms = FIRST_MS;
    x->not_before = now_ms + FIRST_MS;
    free(x->text);
    x->text = xstrdup(text);
    return news;
}

void fights_calm(struct fights *f, const char *id, const char *path)
{
    struct field *x = find(f, id, path);
    if (x != NULL)
        drop(f, x);
}
