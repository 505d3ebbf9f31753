#include "run/apply/without_empties.h"

#include "data/json_write.h"

// Empty, or nothing in it but what is.
static bool holds_nothing(const json *v)
{
    if (!json_is_object(v))
        return json_is_array(v) && json_count(v) == 0;
    for (struct json_iter i = json_iter(v); json_next(&i);)
        if (!holds_nothing(i.value))
            return false;
    return true;
}

static bool write(struct json_writer *w, const json *v)
{
    bool left_out = false;
    if (json_is_object(v)) {
        jw_object(w);
        for (struct json_iter i = json_iter(v); json_next(&i);) {
            if (holds_nothing(i.value)) {
                left_out = true;
                continue;
            }
            jw_keyn(w, i.key, i.key_len);
            left_out |= write(w, i.value);
        }
        jw_object_end(w);
    } else if (json_is_array(v)) {
        jw_array(w);
        for (struct json_iter i = json_iter(v); json_next(&i);)
            left_out |= write(w, i.value);
        jw_array_end(w);
    } else {
        jw_value(w, v);
    }
    return left_out;
}

bool without_empties_write(const json *body, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    return write(&w, body) && !w.failed && !out->failed;
}
