// A queue of messages from any thread to one reader: ownership of a message moves with it. The reader is
// woken by `wake`, which is called without the lock, at most once per emptying.
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

struct message {
    struct message *next;
    void (*run)(struct message *m); // called by the reader; owns m from then on
};

struct mailbox;

struct mailbox *mailbox_new(void (*wake)(void *ud), void *ud);
void mailbox_free(struct mailbox *b);                    // runs nothing: must be empty
void mailbox_post(struct mailbox *b, struct message *m); // any thread
// Takes all that is there, oldest first, linked by `next`, for a reader that runs them in portions. May be
// NULL.
struct message *mailbox_take(struct mailbox *b);
int mailbox_drain(struct mailbox *b); // the reader; runs all that was there at the call, returns how many

#endif
