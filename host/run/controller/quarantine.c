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

static enum quarantine_turn succeed(struct quarantine *q, uint64_t key, uint64_t now_ms)
{
    bool was_on = q->on;
    *q = (struct quarantine){.good = q->good == 0 || (q->good == 1 && q->good_key == key) ? 1 : 2,
                             .good_key = key,
                             .level = q->level,
                             .ended_ms = was_on ? now_ms : q->ended_ms};
    return was_on ? QUARANTINE_ENDS : QUARANTINE_SAME;
}

static void count(struct quarantine *q, const struct quarantine_pass *p, uint64_t now_ms)
{
    if (q->row == 0) {
        q->first_key = p->key;
        q->first_ms = now_ms;
    }
    q->many |= q->first_key != p->key;
    q->overran |= p->verdict != VERDICT_ERROR;
    q->row++;
}

// Nothing but errors of one key: are they the script's, as far as is known, and have they lasted?
static bool is_alone(const struct quarantine *q, const struct quarantine_pass *p, uint64_t now_ms)
{
    bool others = q->good > 1 || (q->good == 1 && q->good_key != q->first_key);
    return !others && !p->paced && now_ms - q->first_ms >= QUARANTINE_FIRST_MS;
}

static bool is_due(const struct quarantine *q, const struct quarantine_pass *p, uint64_t now_ms)
{
    if (p->verdict == VERDICT_STUCK)
        return true;
    if (q->on) // a pass for a changed input, before its time, says nothing new
        return now_ms >= q->until_ms || q->overran;
    return q->row >= QUARANTINE_ROW && (q->overran || q->many || is_alone(q, p, now_ms));
}

enum quarantine_turn quarantine_note(struct quarantine *q, const struct quarantine_pass *p, uint64_t now_ms)
{
    if (p->verdict == VERDICT_NONE || (q->on && p->verdict != VERDICT_STUCK && p->begun_ms < q->since_ms))
        return QUARANTINE_SAME;
    if (p->verdict == VERDICT_SUCCESS)
        return succeed(q, p->key, now_ms);
    count(q, p, now_ms);
    if (!is_due(q, p, now_ms))
        return QUARANTINE_SAME;
    begin(q, now_ms);
    return QUARANTINE_BEGINS;
}

bool quarantine_admits_changes(const struct quarantine *q)
{
    return q->on && !q->overran;
}
