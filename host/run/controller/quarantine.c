#include "run/controller/quarantine.h"

static void begin(struct quarantine *q, uint64_t now_ms)
{
    uint64_t ms = QUARANTINE_FIRST_MS;
    if (!q->on && (q->ended_ms == 0 || now_ms - q->ended_ms > QUARANTINE_MAX_MS))
        q->level = 0;
    else
        q->level++;
    for (unsigned i = 0; i < q->level && ms < QUARANTINE_MAX_MS; i++)
        ms *= 2;
    q->on = true;
    q->since_ms = now_ms;
    q->until_ms = now_ms + (ms < QUARANTINE_MAX_MS ? ms : QUARANTINE_MAX_MS);
}

static enum quarantine_turn succeed(struct quarantine *q, uint64_t now_ms)
{
    bool was_on = q->on;
    *q = (struct quarantine){.level = q->level, .ended_ms = was_on ? now_ms : q->ended_ms};
    return was_on ? QUARANTINE_ENDS : QUARANTINE_SAME;
}

static void count(struct quarantine *q, const struct quarantine_pass *p)
{
    if (q->row == 0)
        q->first_key = p->key;
    q->many |= q->first_key != p->key;
    q->overran |= p->verdict != VERDICT_ERROR;
    q->row++;
}

enum quarantine_turn quarantine_note(struct quarantine *q, const struct quarantine_pass *p, uint64_t now_ms)
{
    if (p->verdict == VERDICT_NONE || (q->on && p->verdict != VERDICT_STUCK && p->begun_ms < q->since_ms))
        return QUARANTINE_SAME;
    if (p->verdict == VERDICT_SUCCESS)
        return succeed(q, now_ms);
    count(q, p);
    bool due =
        q->on ? now_ms >= q->until_ms || q->overran : q->row >= QUARANTINE_ROW && (q->overran || q->many);
    if (!due && p->verdict != VERDICT_STUCK)
        return QUARANTINE_SAME; // also a pass for a changed input, before its time: nothing new
    begin(q, now_ms);
    return QUARANTINE_BEGINS;
}

bool quarantine_admits_changes(const struct quarantine *q)
{
    return q->on && !q->overran;
}
