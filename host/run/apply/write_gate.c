#include "run/apply/write_gate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"

struct line { // one script's, first come first served
    char *script;
    struct write_waiter *first, **end;
    TAILQ_ENTRY(line) turn;
};
TAILQ_HEAD(lines, line);

struct write_gate {
    unsigned max, in_flight;
    struct lines lines;
};

struct write_gate *write_gate_new(unsigned max)
{
    struct write_gate *g = xcalloc(1, sizeof *g);
    g->max = max;
    TAILQ_INIT(&g->lines);
    return g;
}

void write_gate_free(struct write_gate *g)
{
    if (g == NULL)
        return;
    ASSERT(TAILQ_EMPTY(&g->lines));
    free(g);
}

static struct line *find_line(struct write_gate *g, const char *script)
{
    struct line *l;
    TAILQ_FOREACH (l, &g->lines, turn) {
        if (strcmp(l->script, script) == 0)
            return l;
    }
    l = xcalloc(1, sizeof *l);
    l->script = xstrdup(script);
    l->end = &l->first;
    TAILQ_INSERT_TAIL(&g->lines, l, turn);
    return l;
}

void write_gate_enter(struct write_gate *g, const char *script, struct write_waiter *w)
{
    if (g->in_flight < g->max) {
        g->in_flight++;
        w->go(w);
        return;
    }
    struct line *l = find_line(g, script);
    w->next = NULL;
    *l->end = w;
    l->end = &w->next;
}

void write_gate_leave(struct write_gate *g)
{
    struct line *l = TAILQ_FIRST(&g->lines);
    if (l == NULL) {
        g->in_flight--;
        return;
    }
    struct write_waiter *w = l->first; // it takes over the place
    l->first = w->next;
    TAILQ_REMOVE(&g->lines, l, turn);
    if (l->first != NULL) {
        TAILQ_INSERT_TAIL(&g->lines, l, turn);
    } else {
        free(l->script);
        free(l);
    }
    w->go(w);
}

unsigned write_gate_in_flight(const struct write_gate *g)
{
    return g->in_flight;
}
