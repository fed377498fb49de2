#include "server/log.h"

#include <string.h>
#include <stdio.h>
#include <time.h>

#include "core/base/json_write.h"

#define LINE_MAX_BYTES 16384

static enum ck_log_level least = CK_LOG_INFO;
static const char *const names[] = {"debug", "info", "warning", "error"};

void ck_log_set_level(enum ck_log_level level) {
    least = level;
}

enum ck_log_level ck_log_level_by_name(const char *name) {
    for (size_t i = 0; i < CK_ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return (enum ck_log_level)i;
    return CK_LOG_INFO;
}

static void write_time(struct ck_json *json) {
    struct timespec now;
    struct tm utc;
    char text[48];
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, sizeof(text) - n, ".%03ldZ", now.tv_nsec / 1000000);
    ck_json_key_string(json, "ts", text);
}

void ck_log_write(enum ck_log_level level, const char *message, const struct ck_log_field *fields, size_t n) {
    _cleanup_(ck_buffer_release) struct ck_buffer line = {0};
    struct ck_json json;
    ssize_t written;

    if (level < least)
        return;
    ck_buffer_init(&line, LINE_MAX_BYTES);
    ck_json_init(&json, ck_json_sink_buffer, &line, NULL);
    ck_json_object_begin(&json);
    write_time(&json);
    ck_json_key_string(&json, "level", names[level]);
    ck_json_key_string(&json, "msg", message);
    for (size_t i = 0; i < n; i++) {
        if (fields[i].text)
            ck_json_key_string(&json, fields[i].key, fields[i].text);
        else
            ck_json_key_u64(&json, fields[i].key, fields[i].number);
    }
    ck_json_object_end(&json);
    ck_json_newline(&json);
    if (ck_json_finish(&json) < 0)
        return;
    /* A log that cannot be written is nothing that a request should fail for. */
    written = write(STDERR_FILENO, ck_buffer_text(&line), line.length);
    (void)written;
}

void ck_log_error(enum ck_log_level level, const char *message, const struct ck_error *err) {
    const struct ck_log_field fields[] = {
        CK_LOG_TEXT("code", ck_error_row(err->code)->name),
        CK_LOG_TEXT("detail", err->message),
        CK_LOG_TEXT("where", err->where),
        CK_LOG_TEXT("hint", ck_error_hint(err)),
    };

    ck_log_write(level, message, fields, CK_ARRAY_LEN(fields));
}
