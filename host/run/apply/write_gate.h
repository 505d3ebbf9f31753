// Caps the writes in flight, fairly: scripts that wait take turns. Loop thread.
#ifndef RUN_APPLY_WRITE_GATE_H
#define RUN_APPLY_WRITE_GATE_H

struct write_gate;

struct write_waiter { // embedded in what waits
    struct write_waiter *next;
    void (*go)(struct write_waiter *w); // may send now; gives the place back with write_gate_leave
};

struct write_gate *write_gate_new(unsigned max);
void write_gate_free(struct write_gate *g); // nothing may wait any more
// Calls go now or when a place is free. `script` (its hash) takes turns with others.
void write_gate_enter(struct write_gate *g, const char *script, struct write_waiter *w);
void write_gate_leave(struct write_gate *g);
unsigned write_gate_in_flight(const struct write_gate *g);

#endif
