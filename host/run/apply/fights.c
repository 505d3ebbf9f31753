#include "run/apply/fights.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"

enum {
    TIMES = 4,
    WINDOW_MS = 60 * 1000,
    FIRST_MS = 30 * 1000,
    LAST_MS = 10 * 60 * 1000,
    QUIET_MS = 10 * 60 * 1000,
    SWEEP_MS = 60 * 1000,
};

struct field {
    char *name;
    uint64_t writes[TIMES];
    unsigned count; // of writes, at most TIMES; the oldest is at [next]
    unsigned next;
    uint64_t desired;     // of the last write
    bool same;            // and of the one before it
    uint64_t interval_ms; // 0: no fight is known
    uint64_t not_before;  // when our value is set again
    bool undone;          // what was last written in it was not left alone
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
    return now - x->asked > (x->undone ? QUIET_MS : WINDOW_MS);
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

static struct field *find(const struct fights *f, const char *name)
{
    struct field *x;
    HASH_FIND_STR(f->fields, name, x);
    return x;
}

static struct field *find_or_add(struct fights *f, const char *name)
{
    struct field *x = find(f, name);
    if (x != NULL)
        return x;
    x = xcalloc(1, sizeof *x);
    x->name = xstrdup(name);
    HASH_ADD_KEYPTR(hh, f->fields, x->name, strlen(x->name), x);
    return x;
}

static bool is_written_often(const struct field *x, uint64_t now)
{
    return x->count == TIMES && now - x->writes[x->next] <= WINDOW_MS;
}

static void note_write(struct field *x, uint64_t now)
{
    x->writes[x->next] = now;
    x->next = (x->next + 1) % TIMES;
    if (x->count < TIMES)
        x->count++;
}

enum fights_move fights_ask(struct fights *f, const char *name, uint64_t now_ms, uint64_t *ret_wait_ms)
{
    sweep(f, now_ms);
    struct field *x = find(f, name);
    if (x == NULL)
        return FIGHTS_WRITE;
    if (is_over(x, now_ms)) {
        drop(f, x);
        return FIGHTS_WRITE;
    }
    x->asked = now_ms;
    if (x->interval_ms == 0)
        return is_written_often(x, now_ms) ? FIGHTS_PROBE : FIGHTS_WRITE;
    x->undone = true;
    if (now_ms >= x->not_before)
        return FIGHTS_WRITE;
    *ret_wait_ms = x->not_before - now_ms;
    return FIGHTS_WAIT;
}

void fights_written(struct fights *f, const char *name, uint64_t desired_hash, uint64_t now_ms)
{
    struct field *x = find_or_add(f, name);
    x->same = x->count > 0 && x->desired == desired_hash;
    x->desired = desired_hash;
    x->asked = now_ms;
    x->undone = false;
    if (x->interval_ms == 0) {
        note_write(x, now_ms);
    } else if (now_ms >= x->not_before) { // otherwise it is the write by which the fight was found
        x->interval_ms = x->interval_ms * 2 > LAST_MS ? LAST_MS : x->interval_ms * 2;
        x->not_before = now_ms + x->interval_ms;
    }
}

const char *fights_text(const struct fights *f, const char *name)
{
    const struct field *x = find(f, name);
    return x != NULL && x->interval_ms > 0 ? x->text : NULL;
}

bool fights_same_desire(const struct fights *f, const char *name)
{
    const struct field *x = find(f, name);
    return x != NULL && x->same;
}

bool fights_found(struct fights *f, const char *name, const char *text, uint64_t now_ms)
{
    struct field *x = find_or_add(f, name);
    bool news = x->interval_ms == 0;
    x->asked = now_ms;
    x->interval_ms = FIRST_MS;
    x->not_before = now_ms + FIRST_MS;
    free(x->text);
    x->text = xstrdup(text);
    return news;
}

void fights_calm(struct fights *f, const char *name)
{
    struct field *x = find(f, name);
    if (x != NULL)
        drop(f, x);
}
