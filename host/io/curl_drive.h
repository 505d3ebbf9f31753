// A multi handle of libcurl on the loop: its sockets and its timer become the loop's, and whoever owns it is
// called when there is something for libcurl to do. For io/curl_*.c only. Loop thread.
#ifndef IO_CURL_DRIVE_H
#define IO_CURL_DRIVE_H

#include <curl/curl.h>

#include "io/loop.h"

struct curl_drive;

// `act` is called with what curl_drive_act takes; it calls that, and then takes what is done.
struct curl_drive *curl_drive_new(struct loop *l, void (*act)(void *ud, curl_socket_t fd, int events),
                                  void *ud);
void curl_drive_free(struct curl_drive *d);    // closes the connections; no easy handle is in it any more
CURLM *curl_drive_multi(struct curl_drive *d); // borrowed
void curl_drive_add(struct curl_drive *d, CURL *easy);
void curl_drive_act(struct curl_drive *d, curl_socket_t fd, int events); // libcurl's callbacks run
// The next handle that is done, still in the drive, or NULL.
CURL *curl_drive_next_done(struct curl_drive *d, CURLcode *ret_result);

#endif
