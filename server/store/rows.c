#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json_write.h"
#include "server/store/inner.h"

#define FILES_JSON_MAX (64u << 20) /* bytes: 300,000 files */

enum kind { TEXT, ARRAY, STATE, U64, UNSIGNED, TIME, BOOL, FILES };

static const struct {
    const char *parameter;
    enum kind kind;
    size_t offset, size;
} columns[] = {
#define X(name, kind) {":" #name, kind, offsetof(struct ck_job_row, name), sizeof(((struct ck_job_row *)0)->name)},
    CK_JOB_COLUMNS(X)
#undef X
};

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for a job");
}

static int damaged(const char *id, const char *what, struct ck_error *err) {
    return ck_error_set(err, CK_E_STORE_UNAVAILABLE, NULL, "the job store is damaged: job %.64s has %s", id, what);
}

/* ---- reading ---- */

static int read_file(json_t *item, struct ck_job_file *ret_file) {
    json_int_t bytes, crc;
    const char *name;

    if (json_unpack(item, "{s:s, s:I, s:I}", "name", &name, "bytes", &bytes, "crc32", &crc) < 0)
        return -1;
    if (strlen(name) >= sizeof(ret_file->name) || bytes < 0 || crc < 0 || crc > UINT32_MAX)
        return -1;
    snprintf(ret_file->name, sizeof(ret_file->name), "%s", name);
    ret_file->bytes = (uint64_t)bytes;
    ret_file->crc32 = (uint32_t)crc;
    return 0;
}

static int read_files(const char *text, struct ck_job_row *row, struct ck_error *err) {
    json_t *list = json_loads(text, 0, NULL);
    size_t n = json_array_size(list), i;
    int r = 0;

    row->files = calloc(CK_MAX(n, (size_t)1), sizeof(*row->files));
    if (!row->files)
        r = no_memory(err);
    else if (!json_is_array(list))
        r = damaged(row->id, "a bad list of files", err);
    for (i = 0; i < n && r == 0; i++)
        if (read_file(json_array_get(list, i), &row->files[i]) < 0)
            r = damaged(row->id, "a bad list of files", err);
    row->n_files = r == 0 ? n : 0;
    json_decref(list);
    return r;
}

static int read_text(struct ck_stmt *stmt, int column, char **ret_text, struct ck_error *err) {
    if (sqlite3_column_type(stmt->stmt, column) == SQLITE_NULL)
        return 0;
    *ret_text = strdup(ck_stmt_get(stmt, column));
    return *ret_text ? 0 : no_memory(err);
}

static int read_column(struct ck_stmt *stmt, size_t i, struct ck_job_row *row, struct ck_error *err) {
    void *member = (char *)row + columns[i].offset;
    int column = (int)i + 1;
    int64_t number = sqlite3_column_int64(stmt->stmt, column);

    switch (columns[i].kind) {
    case TEXT:
        return read_text(stmt, column, member, err);
    case ARRAY:
        snprintf(member, columns[i].size, "%s", ck_stmt_get(stmt, column));
        return 0;
    case STATE:
        return ck_job_state_parse(ck_stmt_get(stmt, column), member) ? 0 : damaged(row->id, "an unknown state", err);
    case U64:
        *(uint64_t *)member = (uint64_t)number;
        return 0;
    case UNSIGNED:
        *(unsigned *)member = (unsigned)number;
        return 0;
    case TIME:
        *(int64_t *)member = number;
        return 0;
    case BOOL:
        *(bool *)member = number != 0;
        return 0;
    case FILES:
        return read_files(ck_stmt_get(stmt, column), row, err);
    }
    return 0;
}

static int read_source(struct ck_stmt *stmt, struct ck_job_row *row, struct ck_error *err) {
    struct ck_job_source *sources = reallocarray(row->inputs, row->n_inputs + 1, sizeof(*sources)), *source;
    int r;

    if (!sources)
        return no_memory(err);
    row->inputs = sources;
    source = &sources[row->n_inputs++];
    *source = (struct ck_job_source){.bytes = (uint64_t)sqlite3_column_int64(stmt->stmt, 3)};
    r = read_text(stmt, 0, &source->role, err);
    if (r < 0)
        return r;
    r = read_text(stmt, 1, &source->name, err);
    if (r < 0)
        return r;
    snprintf(source->digest, sizeof(source->digest), "%s", ck_stmt_get(stmt, 2));
    return 0;
}

static int read_sources(struct ck_conn *conn, struct ck_job_row *row, struct ck_error *err) {
    static const char sql[] = "SELECT role, name, digest, bytes FROM job_input WHERE job_id = :id ORDER BY position";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_text(&stmt, ":id", row->id);
    while ((r = ck_stmt_step(&stmt, err)) > 0) {
        r = read_source(&stmt, row, err);
        if (r < 0)
            return r;
    }
    return r;
}

int ck_row_read(struct ck_stmt *stmt, struct ck_job_row *ret_row, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    int r;

    snprintf(row.id, sizeof(row.id), "%s", ck_stmt_get(stmt, 0));
    for (size_t i = 0; i < CK_ARRAY_LEN(columns); i++) {
        r = read_column(stmt, i, &row, err);
        if (r < 0)
            return r;
    }
    r = read_sources(stmt->conn, &row, err);
    if (r < 0)
        return r;
    *ret_row = ck_row_take(&row);
    return 0;
}

int ck_row_find(struct ck_conn *conn, const char *tenant, const char *id, struct ck_job_row *ret_row,
                struct ck_error *err) {
    static const char sql[] =
        "SELECT " CK_ROW_COLUMNS " FROM job WHERE id = :id AND (:tenant IS NULL OR tenant = :tenant)";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    ck_stmt_text(&stmt, ":id", id);
    ck_stmt_text(&stmt, ":tenant", tenant);
    r = ck_stmt_step(&stmt, err);
    if (r < 0)
        return r;
    if (r == 0)
        return ck_error_set(err, CK_E_JOB_NOT_FOUND, NULL, "there is no job %.64s", id);
    return ck_row_read(&stmt, ret_row, err);
}

/* ---- writing ---- */

int ck_files_json(const struct ck_job_file *files, size_t n_files, char **ret_json, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer = {0};
    struct ck_json json;
    int r;

    ck_buffer_init(&buffer, FILES_JSON_MAX);
    ck_json_init(&json, ck_json_sink_buffer, &buffer, err);
    ck_json_array_begin(&json);
    for (size_t i = 0; i < n_files; i++) {
        ck_json_object_begin(&json);
        ck_json_key_string(&json, "name", files[i].name);
        ck_json_key_u64(&json, "bytes", files[i].bytes);
        ck_json_key_u64(&json, "crc32", files[i].crc32);
        ck_json_object_end(&json);
    }
    ck_json_array_end(&json);
    r = ck_json_finish(&json);
    if (r < 0)
        return r;
    *ret_json = TAKE_PTR(buffer.data);
    return 0;
}

int ck_job_error_json(int code, const char *detail, char **ret_json, struct ck_error *err) {
    const struct ck_error_row *row = ck_error_row(code);
    _cleanup_(ck_buffer_release) struct ck_buffer buffer = {0};
    struct ck_json json;
    int r;

    ck_buffer_init(&buffer, 65536);
    ck_json_init(&json, ck_json_sink_buffer, &buffer, err);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "code", row->name);
    ck_json_key_string(&json, "title", row->title);
    ck_json_key_string(&json, "detail", detail);
    ck_json_key_string(&json, "hint", row->hint);
    ck_json_object_end(&json);
    r = ck_json_finish(&json);
    if (r < 0)
        return r;
    *ret_json = TAKE_PTR(buffer.data);
    return 0;
}

static void bind_column(struct ck_stmt *stmt, size_t i, const struct ck_job_row *row, const char *files) {
    const void *member = (const char *)row + columns[i].offset;
    const char *name = columns[i].parameter;

    switch (columns[i].kind) {
    case TEXT:
        ck_stmt_text(stmt, name, *(char *const *)member);
        break;
    case ARRAY:
        ck_stmt_text(stmt, name, member);
        break;
    case STATE:
        ck_stmt_text(stmt, name, ck_job_state_name(*(const enum ck_job_state *)member));
        break;
    case U64:
        ck_stmt_u64(stmt, name, *(const uint64_t *)member);
        break;
    case UNSIGNED:
        ck_stmt_u64(stmt, name, *(const unsigned *)member);
        break;
    case TIME:
        ck_stmt_time(stmt, name, *(const int64_t *)member);
        break;
    case BOOL:
        ck_stmt_i64(stmt, name, *(const bool *)member);
        break;
    case FILES:
        ck_stmt_text(stmt, name, files);
        break;
    }
}

int ck_row_insert(struct ck_conn *conn, const struct ck_job_row *row, struct ck_error *err) {
#define PARAMETER(name, kind) ",:" #name
    static const char sql[] =
        "INSERT INTO job (" CK_ROW_COLUMNS ", run_at) VALUES (:id" CK_JOB_COLUMNS(PARAMETER) ", :created_at)";
#undef PARAMETER
    _cleanup_(ck_freep) char *files = NULL;
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);
    int r;

    r = ck_files_json(row->files, row->n_files, &files, err);
    if (r < 0)
        return r;
    ck_stmt_text(&stmt, ":id", row->id);
    for (size_t i = 0; i < CK_ARRAY_LEN(columns); i++)
        bind_column(&stmt, i, row, files);
    ck_stmt_i64(&stmt, ":version", 1);
    return ck_stmt_run(&stmt, NULL, err);
}

int ck_job_touch_inputs(struct ck_conn *conn, const char *id, int64_t now, struct ck_error *err) {
    static const char sql[] = "UPDATE blob SET last_used_at = max(last_used_at, :now) FROM job_input "
                              "WHERE job_input.job_id = :id AND blob.tenant = job_input.tenant "
                              "AND blob.digest = job_input.digest";
    _cleanup_(ck_stmt_reset) struct ck_stmt stmt = ck_stmt(conn, sql);

    ck_stmt_text(&stmt, ":id", id);
    ck_stmt_i64(&stmt, ":now", now);
    return ck_stmt_run(&stmt, NULL, err);
}
