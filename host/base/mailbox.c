#include "base/mailbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

struct mailbox {
    pthread_mutex_t lock;
    struct message *head;
    struct message **tail;
    void (*wake)(void *ud);
    void *ud;
};

struct mailbox *mailbox_new(void (*wake)(void *ud), void *ud)
{
    struct mailbox *b = xcalloc(1, sizeof(*b));
    pthread_mutex_init(&b->lock, NULL);
    b->tail = &b->head;
    b->wake = wake;
    b->ud = ud;
    return b;
}

void mailbox_free(struct mailbox *b)
{
    if (b == NULL)
        return;
    ASSERT(b->head == NULL);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void mailbox_post(struct mailbox *b, struct message *m)
{
    m->next = NULL;
    pthread_mutex_lock(&b->lock);
    bool was_empty = b->head == NULL;
    *b->tail = m;
    b->tail = &m->next;
    void (*wake)(void *ud) = b->wake;
    void *ud = b->ud;
    pthread_mutex_unlock(&b->lock);
    // From here on the reader may have run m and freed the box.
    if (was_empty && wake != NULL)
        wake(ud);
}

struct message *mailbox_take(struct mailbox *b)
{
    pthread_mutex_lock(&b->lock);
    struct message *m = b->head;
    b->head = NULL;
    b->tail = &b->head;
    pthread_mutex_unlock(&b->lock);
    return m;
}

int mailbox_drain(struct mailbox *b)
{
    struct message *m = mailbox_take(b);
    int count = 0;
    while (m != NULL) {
        struct message *next = m->next; // m is gone after its run
        m->run(m);
        m = next;
        count++;
    }
    return count;
}
