#include "server/http/request_id.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static bool is_sane(const char *text) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    size_t n = strspn(text, allowed);

    return n > 0 && n < CK_REQUEST_ID_MAX && text[n] == 0;
}

static void make_uuid7(char text[static CK_REQUEST_ID_MAX]) {
    struct timespec now;
    uint64_t ms;
    uint8_t b[16] = {0};

    clock_gettime(CLOCK_REALTIME, &now);
    ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    /* Without entropy the time alone is left, which still tells requests apart well enough for a log. */
    if (getrandom(b + 6, 10, 0) < 0)
        memcpy(b + 6, &now.tv_nsec, sizeof(uint32_t));
    for (int i = 0; i < 6; i++)
        b[i] = (uint8_t)(ms >> (40 - 8 * i));
    b[6] = (uint8_t)(0x70 | (b[6] & 0x0F));
    b[8] = (uint8_t)(0x80 | (b[8] & 0x3F));
    snprintf(text, CK_REQUEST_ID_MAX, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

void ck_request_id(const char *offered, char ret_id[static CK_REQUEST_ID_MAX]) {
    if (offered && is_sane(offered))
        snprintf(ret_id, CK_REQUEST_ID_MAX, "%s", offered);
    else
        make_uuid7(ret_id);
}

static bool is_hex(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    return true;
}

static bool is_zero(const char *text, size_t n) {
    while (n > 0 && text[n - 1] == '0')
        n--;
    return n == 0;
}

/* VERSION-TRACE-PARENT-FLAGS: 2, 32, 16 and 2 digits; a later version may go on behind another dash. */
bool ck_traceparent_parse(const char *header, char ret_trace_id[static CK_TRACE_ID_MAX]) {
    size_t n = header ? strlen(header) : 0;
    const char *trace, *parent;

    if (n < 55 || header[2] != '-' || header[35] != '-' || header[52] != '-')
        return false;
    trace = header + 3;
    parent = header + 36;
    if (!is_hex(header, 2) || !is_hex(trace, 32) || !is_hex(parent, 16) || !is_hex(header + 53, 2))
        return false;
    if (strncmp(header, "ff", 2) == 0 || is_zero(trace, 32) || is_zero(parent, 16))
        return false;
    if (n > 55 && (strncmp(header, "00", 2) == 0 || header[55] != '-'))
        return false;
    snprintf(ret_trace_id, CK_TRACE_ID_MAX, "%.32s", trace);
    return true;
}
