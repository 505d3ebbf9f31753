#include "script/traceback.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FRAMES_MAX = 20, LEVELS_MAX = 200 };

static bool is_script(const lua_Debug *ar)
{
    return ar->source[0] == '=' && ar->source[1] != '[' && ar->currentline > 0;
}

void traceback_where(lua_State *L, char *out, size_t cap)
{
    lua_Debug ar;
    out[0] = 0;
    for (int level = 0; level < LEVELS_MAX && lua_getstack(L, level, &ar); level++) {
        if (lua_getinfo(L, "Sl", &ar) && is_script(&ar)) {
            snprintf(out, cap, "%s:%d: ", ar.short_src, ar.currentline);
            return;
        }
    }
}

const char *traceback_skip_library(const char *text)
{
    static const char begin[] = "[tidelock";
    if (strncmp(text, begin, sizeof(begin) - 1) != 0)
        return text;
    const char *line = strstr(text, "]:");
    const char *rest = line != NULL ? strchr(line, ' ') : NULL;
    return rest != NULL ? rest + 1 : text;
}

static void add_frame(struct buf *out, const lua_Debug *ar)
{
    buf_addf(out, "%s%s:%d: in ", out->len > 0 ? "\n" : "", ar->short_src, ar->currentline);
    if (ar->name != NULL && ar->name[0] != 0)
        buf_addf(out, "function '%s'", ar->name);
    else if (strcmp(ar->what, "main") == 0)
        buf_add_str(out, "the main chunk");
    else
        buf_addf(out, "function <%s:%d>", ar->short_src, ar->linedefined);
}

void traceback_add(lua_State *L, struct buf *out)
{
    lua_Debug ar;
    int frames = 0;
    for (int level = 0; level < LEVELS_MAX && lua_getstack(L, level, &ar); level++) {
        if (!lua_getinfo(L, "Sln", &ar) || !is_script(&ar))
            continue;
        if (++frames > FRAMES_MAX) {
            buf_add_str(out, "\n...");
            return;
        }
        add_frame(out, &ar);
    }
}
