// Labels and fields that a script gives as a map, as the text of a selector; checked, so that no value adds a
// requirement of its own. May raise.
#ifndef SCRIPT_SELECTOR_TEXT_H
#define SCRIPT_SELECTOR_TEXT_H

#include <lua.h>
#include <stdbool.h>

enum selector_text_kind { SELECTOR_TEXT_LABELS, SELECTOR_TEXT_FIELDS };

// Pushes the text for the value at idx: a string as it is, a map {app = "web"} as "app=web" with sorted keys,
// an empty map as "". `what` is how errors name the value: "world.list: labels".
void selector_text_push(lua_State *L, int idx, enum selector_text_kind kind, const char *what);

// Is it a dotted path, as fields are named by?
bool selector_text_is_path(const char *s, size_t n);

#endif
