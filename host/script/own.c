#include "script/own.h"

#include "base/assert.h"

enum { OWN_MAX = 64 }; // calls from C into Lua nest less deep than that while something is held

static _Thread_local struct {
    void *p;
    void (*free_fn)(void *p);
} held[OWN_MAX];
static _Thread_local int count;

void own_push(void *p, void (*free_fn)(void *p))
{
    ASSERT(count < OWN_MAX);
    held[count].p = p;
    held[count].free_fn = free_fn;
    count++;
}

void own_pop(void)
{
    ASSERT(count > 0);
    count--;
    held[count].free_fn(held[count].p);
}

int own_mark(void)
{
    return count;
}

void own_unwind(int mark)
{
    while (count > mark)
        own_pop();
}
