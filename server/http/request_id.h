/* server/http/request_id.h: the name of a request in logs, answers and job orders. */
#ifndef CK_SERVER_HTTP_REQUEST_ID_H
#define CK_SERVER_HTTP_REQUEST_ID_H

#include "core/base/macros.h"

#define CK_REQUEST_ID_MAX 64

/* The client's X-Request-Id if it is sane (1 to 63 of [A-Za-z0-9._:-]), else a new UUIDv7 (RFC 9562: sorts by time).
 * offered may be NULL. */
void ck_request_id(const char *offered, char ret_id[static CK_REQUEST_ID_MAX]);

#define CK_TRACE_ID_MAX 33

/* The trace id (32 hex digits) of a traceparent header (W3C Trace Context, version 00, and what later versions promise
 * to keep of it). False for NULL, anything malformed, capitals, ids of zeros only and version ff; ret_trace_id is
 * untouched then, and the trace begins here. */
bool ck_traceparent_parse(const char *header, char ret_trace_id[static CK_TRACE_ID_MAX]);

#endif
