#include "server/http/http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "server/http/exchange.h"
#include "server/log.h"
#include "server/http/peer.h"

#define CONNECTION_MEMORY (64u << 10) /* the best of the sizes measured */

struct ck_http {
    struct ck_daemon *daemon;
    struct MHD_Daemon *mhd;
    pthread_mutex_t lock; /* guards uploads: an exchange in the list has an open socket */
    struct ck_exchange *uploads;
};

void ck_http_list(struct ck_http *http, struct ck_exchange *exchange) {
    if (exchange->listed)
        return;
    pthread_mutex_lock(&http->lock);
    exchange->next = http->uploads;
    exchange->previous = NULL;
    if (http->uploads)
        http->uploads->previous = exchange;
    http->uploads = exchange;
    exchange->listed = true;
    pthread_mutex_unlock(&http->lock);
}

void ck_http_unlist(struct ck_http *http, struct ck_exchange *exchange) {
    if (!exchange->listed)
        return;
    pthread_mutex_lock(&http->lock);
    if (exchange->previous)
        exchange->previous->next = exchange->next;
    else
        http->uploads = exchange->next;
    if (exchange->next)
        exchange->next->previous = exchange->previous;
    exchange->listed = false;
    pthread_mutex_unlock(&http->lock);
}

void ck_http_tick(struct ck_http *http) {
    int64_t limit = ck_now_ms() - (int64_t)http->daemon->settings.upload_timeout * 1000;

    pthread_mutex_lock(&http->lock);
    for (struct ck_exchange *exchange = http->uploads; exchange; exchange = exchange->next)
        if (!atomic_load(&exchange->suspended)) {
            if (atomic_load(&exchange->last_byte) < limit)
                ck_exchange_stalled(exchange);
            else if (ck_peer_is_gone(exchange->socket))
                shutdown(exchange->socket, SHUT_RDWR); /* an edge that the library does not miss */
        }
    pthread_mutex_unlock(&http->lock);
}

static void *on_uri(void *ctx, const char *uri, _unused_ struct MHD_Connection *connection) {
    struct ck_http *http = ctx;

    return ck_exchange_new(http->daemon, uri);
}

static enum MHD_Result on_request(_unused_ void *ctx, struct MHD_Connection *connection, _unused_ const char *url,
                                  const char *method, _unused_ const char *version, const char *bytes, size_t *n_bytes,
                                  void **exchange) {
    return *exchange ? ck_exchange_handle(*exchange, connection, method, bytes, n_bytes) : MHD_NO;
}

static void on_completed(_unused_ void *ctx, _unused_ struct MHD_Connection *connection, void **exchange,
                         _unused_ enum MHD_RequestTerminationCode why) {
    if (*exchange)
        ck_exchange_free(*exchange);
    *exchange = NULL;
}

_printf_(2, 0) static void on_log(_unused_ void *ctx, const char *format, va_list args) {
    char text[512];

    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = 0;
    CK_LOG(DEBUG, "libmicrohttpd", CK_LOG_TEXT("text", text));
}

int ck_http_start(struct ck_daemon *daemon, struct ck_error *err) {
    const struct ck_settings *settings = &daemon->settings;
    struct ck_http *http = calloc(1, sizeof(*http));

    if (!http)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    http->daemon = daemon;
    daemon->http = http;
    pthread_mutex_init(&http->lock, NULL);
    /* The library drops an idle connection without a word; uploads get their answer from ck_http_tick() some seconds
     * earlier. */
    http->mhd = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, http,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, daemon->listen.fd,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)settings->http_threads, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)settings->max_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)settings->upload_timeout + 5, MHD_OPTION_URI_LOG_CALLBACK, on_uri,
        http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!http->mhd) {
        daemon->http = NULL;
        pthread_mutex_destroy(&http->lock);
        free(http);
        return ck_error_set(err, CK_E_IO, NULL, "cannot start the HTTP server");
    }
    daemon->listen.fd = -1;
    return 0;
}

void ck_http_stop(struct ck_http *http) {
    if (!http)
        return;
    MHD_stop_daemon(http->mhd);
    pthread_mutex_destroy(&http->lock);
    free(http);
}
