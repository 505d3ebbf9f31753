// Reading of single HTTP header values. Any thread.
#ifndef IO_HTTP_TEXT_H
#define IO_HTTP_TEXT_H

#include <stdbool.h>
#include <stdint.h>

// Retry-After, in whole seconds or as an HTTP date, to ms from now: 0 for a date that is past, at most an
// hour; -1 for NULL and for anything else.
int64_t http_text_retry_after_ms(const char *value, int64_t now_wall_us);

// The text of a Warning value (`299 - "text"`), unquoted; of one without quotes all of it. NULL for NULL. The
// caller frees it.
char *http_text_take_warning(const char *value);

// Can the text stand in a header: no control characters?
bool http_text_is_header_safe(const char *value);

#endif
