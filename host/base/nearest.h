// "Did you mean": the known name that a misspelt one is closest to. Any thread.
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

// Of `known` (NULL-terminated), the one within a third of the word's letters (at least 1, ignoring case and
// '_'), or NULL.
const char *nearest_name(const char *word, const char *const *known);

#endif
