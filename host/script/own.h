// What C holds while it calls into Lua. An arena that is exhausted leaves all frames of a pass at once
// (longjmp), past every pcall: what malloc gave and is on this list is freed then. A small stack for each
// thread; entries are popped by who pushed them, in order.
#ifndef SCRIPT_OWN_H
#define SCRIPT_OWN_H

void own_push(void *p, void (*free_fn)(void *p));
void own_pop(void); // frees the last one
// For the sandbox: the height now, and freeing down to it.
int own_mark(void);
void own_unwind(int mark);

#endif
