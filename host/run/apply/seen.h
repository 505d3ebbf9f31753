// Waits until the stores show a plan's writes: all that hold the object, or will. What they have not shown
// after 5 s is looked for by consistent lists, of those that are behind; what is not in such a list is not
// waited for any longer. While a list fails it goes on waiting: a pass would read the past. Loop thread.
#ifndef RUN_APPLY_SEEN_H
#define RUN_APPLY_SEEN_H

#include "kube/informers.h"
#include "run/apply/own_writes.h"

struct seen;

// Is no store behind a write that one of them has shown? For own_writes_new.
bool seen_by_all(void *informers, const struct own_write *w);

struct seen_options {
    struct loop *loop;
    struct informers *informers;
    struct own_writes *own;
    const bool *hurry;         // borrowed: true: nothing is waited for, or no longer than a second
    void (*on_seen)(void *ud); // once
    void *ud;
};

struct seen *seen_new(const struct seen_options *o);
void seen_free(struct seen *s);                 // not from inside on_seen
struct own_waiter *seen_waiter(struct seen *s); // for own_writes_begin; borrowed
void seen_wait(struct seen *s); // the last write was answered. Calls on_seen, at once if all is seen already

#endif
