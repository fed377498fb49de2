#include "api/matrix_text.h"

#include <string.h>
#include <strings.h>

#include "core/base/json_write.h"
#include "core/job/options.h"

/* ---- which rows ---- */

static bool fits_key(const struct ck_matrix_filter *filter, const char *cell) {
    for (size_t i = 0; i < filter->n_keys; i++)
        if (ck_matrix_key_matches(cell, filter->keys[i]))
            return true;
    return filter->n_keys == 0;
}

static bool fits_section(const struct ck_matrix_filter *filter, size_t section) {
    return filter->sections == 0 || (filter->sections >> section & 1);
}

/* The rows that fit, one after the other; zeroed to begin with. */
struct cursor {
    size_t section, next;
    const struct ck_matrix_section *in;
    const struct ck_matrix_row *row;
    const char *key;
    struct ck_standing standing;
};

static bool next_row(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter, struct cursor *cursor) {
    for (; cursor->section < matrix->n_sections; cursor->section++, cursor->next = 0) {
        cursor->in = &matrix->sections[cursor->section];
        while (fits_section(filter, cursor->section) && cursor->next < cursor->in->n_rows) {
            cursor->row = &cursor->in->rows[cursor->next++];
            cursor->key = cursor->row->cells[cursor->in->key];
            if (!fits_key(filter, cursor->key))
                continue;
            cursor->standing = cursor->in->standing(cursor->row);
            if (filter->status == 0 || (filter->status >> cursor->standing.status & 1))
                return true;
        }
    }
    return false;
}

/* How many rows fit, and in which sections (bits). */
static size_t count_rows(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter,
                         uint32_t *ret_sections) {
    struct cursor cursor = {0};
    size_t n = 0;

    *ret_sections = 0;
    for (; next_row(matrix, filter, &cursor); n++)
        *ret_sections |= 1u << cursor.section;
    return n;
}

/* ---- near keys ---- */

struct near {
    const char *keys[CK_MATRIX_NEAR_MAX];
    size_t n;
};

static void add_near(struct near *near, const char *key) {
    for (size_t i = 0; i < near->n; i++)
        if (strcmp(near->keys[i], key) == 0)
            return;
    if (near->n < CK_MATRIX_NEAR_MAX)
        near->keys[near->n++] = key;
}

/* The name that ck_nearest() likes best; false if none is near. */
static bool nearest_name(const struct ck_matrix *matrix, const char *wanted, char ret_name[static CK_MATRIX_NAME_MAX]) {
    static const struct ck_matrix_filter all = {0};
    char best[CK_MATRIX_NAME_MAX] = "", name[CK_MATRIX_NAME_MAX];
    struct cursor cursor = {0};

    while (next_row(matrix, &all, &cursor))
        for (const char *cell = cursor.key; ck_matrix_next_name(&cell, name);)
            if (ck_nearest(wanted, (const char *const[]){best, name, NULL}) == name)
                memcpy(best, name, sizeof(best));
    memcpy(ret_name, best, sizeof(best));
    return best[0] != 0;
}

/* The rows that have the name in any case. */
static void add_named(const struct ck_matrix *matrix, const char *wanted, struct near *near) {
    static const struct ck_matrix_filter all = {0};
    struct cursor cursor = {0};
    char name[CK_MATRIX_NAME_MAX];

    while (next_row(matrix, &all, &cursor))
        for (const char *cell = cursor.key; ck_matrix_next_name(&cell, name);)
            if (strcasecmp(wanted, name) == 0)
                add_near(near, cursor.key);
}

static void find_near(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter, struct near *near) {
    for (size_t i = 0; i < filter->n_keys; i++) {
        const char *key = filter->keys[i];
        char wanted[CK_MATRIX_NAME_MAX], other[CK_MATRIX_NAME_MAX];

        if (!ck_matrix_next_name(&key, wanted))
            continue;
        add_named(matrix, wanted, near);
        if (nearest_name(matrix, wanted, other))
            add_named(matrix, other, near);
    }
}

/* ---- JSON ---- */

static const char *or_null(const char *text) {
    return text && text[0] ? text : NULL;
}

static void json_row(struct ck_json *json, const struct cursor *cursor) {
    ck_json_newline(json);
    ck_json_object_begin(json);
    ck_json_key_string(json, "section", cursor->in->name);
    ck_json_key_string(json, "key", cursor->key);
    ck_json_key(json, "cells");
    ck_json_object_begin(json);
    for (size_t i = 0; i < cursor->in->n_columns; i++)
        ck_json_key_string(json, cursor->in->columns[i], cursor->row->cells[i]);
    ck_json_object_end(json);
    ck_json_key(json, "ckptd");
    ck_json_object_begin(json);
    ck_json_key_string(json, "status", ck_status_words[cursor->standing.status]);
    ck_json_key_string(json, "rule", or_null(cursor->standing.rule));
    ck_json_key_string(json, "note", cursor->standing.note);
    ck_json_key_string(json, "since", cursor->standing.since);
    ck_json_object_end(json);
    ck_json_object_end(json);
}

static void json_section(struct ck_json *json, const struct ck_matrix_section *section) {
    ck_json_newline(json);
    ck_json_object_begin(json);
    ck_json_key_string(json, "name", section->name);
    ck_json_key_string(json, "title", section->title);
    ck_json_key_string(json, "description", section->description);
    ck_json_key(json, "columns");
    ck_json_array_begin(json);
    for (size_t i = 0; i < section->n_columns; i++)
        ck_json_string(json, section->columns[i]);
    ck_json_array_end(json);
    ck_json_object_end(json);
}

static void json_filters(struct ck_json *json, const struct ck_matrix *matrix, const struct ck_matrix_filter *filter) {
    ck_json_key(json, "filters");
    ck_json_object_begin(json);
    if (filter->sections) {
        ck_json_key(json, "section");
        ck_json_array_begin(json);
        for (size_t i = 0; i < matrix->n_sections; i++)
            if (fits_section(filter, i))
                ck_json_string(json, matrix->sections[i].name);
        ck_json_array_end(json);
    }
    if (filter->n_keys > 0) {
        ck_json_key(json, "key");
        ck_json_array_begin(json);
        for (size_t i = 0; i < filter->n_keys; i++)
            ck_json_string(json, filter->keys[i]);
        ck_json_array_end(json);
    }
    if (filter->status) {
        ck_json_key(json, "status");
        ck_json_array_begin(json);
        for (int i = 0; i < CK_STATUS_END_; i++)
            if (filter->status >> i & 1)
                ck_json_string(json, ck_status_words[i]);
        ck_json_array_end(json);
    }
    ck_json_object_end(json);
}

static void json_near(struct ck_json *json, const struct ck_matrix *matrix, const struct ck_matrix_filter *filter) {
    struct near near = {0};

    find_near(matrix, filter, &near);
    ck_json_key(json, "near");
    ck_json_array_begin(json);
    for (size_t i = 0; i < near.n; i++)
        ck_json_string(json, near.keys[i]);
    ck_json_array_end(json);
}

static bool write_json(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter,
                       struct ck_buffer *buffer) {
    struct cursor cursor = {0};
    struct ck_error failure = {0};
    struct ck_json json;
    uint32_t present;
    size_t n = count_rows(matrix, filter, &present);

    ck_json_init(&json, ck_json_sink_buffer, buffer, &failure);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "name", matrix->name);
    ck_json_key_string(&json, "title", matrix->title);
    ck_json_key_string(&json, "description", matrix->description);
    json_filters(&json, matrix, filter);
    ck_json_key_u64(&json, "count", n);
    ck_json_key(&json, "sections");
    ck_json_array_begin(&json);
    for (size_t i = 0; i < matrix->n_sections; i++)
        if (present >> i & 1)
            json_section(&json, &matrix->sections[i]);
    ck_json_array_end(&json);
    ck_json_key(&json, "rows");
    ck_json_array_begin(&json);
    while (next_row(matrix, filter, &cursor))
        json_row(&json, &cursor);
    ck_json_array_end(&json);
    if (n == 0 && filter->n_keys > 0)
        json_near(&json, matrix, filter);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json) == 0;
}

static void json_listed(struct ck_json *json, const struct ck_matrix *matrix) {
    static const struct ck_matrix_filter all = {0};
    struct cursor cursor = {0};
    uint64_t rows = 0, status[CK_STATUS_END_] = {0};
    char href[64] = "/v1/matrix/";

    for (; next_row(matrix, &all, &cursor); rows++)
        status[cursor.standing.status]++;
    strncat(href, matrix->name, sizeof(href) - strlen(href) - 1);
    ck_json_newline(json);
    ck_json_object_begin(json);
    ck_json_key_string(json, "name", matrix->name);
    ck_json_key_string(json, "title", matrix->title);
    ck_json_key_string(json, "href", href);
    ck_json_key(json, "sections");
    ck_json_array_begin(json);
    for (size_t i = 0; i < matrix->n_sections; i++) {
        ck_json_object_begin(json);
        ck_json_key_string(json, "name", matrix->sections[i].name);
        ck_json_key_string(json, "title", matrix->sections[i].title);
        ck_json_key_u64(json, "rows", matrix->sections[i].n_rows);
        ck_json_object_end(json);
    }
    ck_json_array_end(json);
    ck_json_key_u64(json, "rows", rows);
    ck_json_key(json, "status");
    ck_json_object_begin(json);
    for (int i = 0; i < CK_STATUS_END_; i++)
        ck_json_key_u64(json, ck_status_words[i], status[i]);
    ck_json_object_end(json);
    ck_json_object_end(json);
}

bool ck_matrix_write_list(struct ck_buffer *buffer) {
    struct ck_error failure = {0};
    struct ck_json json;

    ck_json_init(&json, ck_json_sink_buffer, buffer, &failure);
    ck_json_object_begin(&json);
    ck_json_key(&json, "matrices");
    ck_json_array_begin(&json);
    for (const struct ck_matrix *const *matrix = ck_matrices; *matrix; matrix++)
        json_listed(&json, *matrix);
    ck_json_array_end(&json);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json) == 0;
}

/* ---- CSV ---- */

#define CSV_COLUMNS_MAX (CK_MATRIX_SECTIONS_MAX * CK_MATRIX_COLUMNS_MAX)

static bool csv_field(struct ck_buffer *buffer, const char *text, bool first) {
    bool ok = first || ck_buffer_add(buffer, ",", 1);

    text = text ? text : "";
    if (!strpbrk(text, ",\"\r\n"))
        return ok && ck_buffer_add_text(buffer, text);
    ok = ok && ck_buffer_add(buffer, "\"", 1);
    for (; *text && ok; text++)
        ok = ck_buffer_add(buffer, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    return ok && ck_buffer_add(buffer, "\"", 1);
}

/* The columns of the sections that are present, each once. */
static size_t csv_columns(const struct ck_matrix *matrix, uint32_t present, const char *ret_columns[CSV_COLUMNS_MAX]) {
    size_t n = 0, known;

    for (size_t i = 0; i < matrix->n_sections; i++) {
        for (size_t k = 0; (present >> i & 1) && k < matrix->sections[i].n_columns; k++) {
            for (known = 0; known < n && strcmp(ret_columns[known], matrix->sections[i].columns[k]) != 0; known++)
                ;
            if (known == n)
                ret_columns[n++] = matrix->sections[i].columns[k];
        }
    }
    return n;
}

static const char *cell_of(const struct cursor *cursor, const char *column) {
    for (size_t i = 0; i < cursor->in->n_columns; i++)
        if (strcmp(cursor->in->columns[i], column) == 0)
            return cursor->row->cells[i];
    return "";
}

static bool write_csv(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter, struct ck_buffer *buffer) {
    const char *columns[CSV_COLUMNS_MAX];
    struct cursor cursor = {0};
    uint32_t present;
    size_t n;
    bool ok;

    count_rows(matrix, filter, &present);
    n = csv_columns(matrix, present, columns);
    ok = csv_field(buffer, "section", true) && csv_field(buffer, "key", false);
    for (size_t i = 0; i < n; i++)
        ok = ok && csv_field(buffer, columns[i], false);
    ok = ok && ck_buffer_add_text(buffer, ",status,rule,note,since\r\n");
    while (ok && next_row(matrix, filter, &cursor)) {
        ok = csv_field(buffer, cursor.in->name, true) && csv_field(buffer, cursor.key, false);
        for (size_t i = 0; i < n; i++)
            ok = ok && csv_field(buffer, cell_of(&cursor, columns[i]), false);
        ok = ok && csv_field(buffer, ck_status_words[cursor.standing.status], false) &&
             csv_field(buffer, cursor.standing.rule, false) && csv_field(buffer, cursor.standing.note, false) &&
             csv_field(buffer, cursor.standing.since, false) && ck_buffer_add_text(buffer, "\r\n");
    }
    return ok;
}

/* ---- Markdown ---- */

static bool is_alnum(char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Escapes what would be read as Markdown. An underscore begins emphasis only where no word stands before it. */
static bool markdown_text(struct ck_buffer *buffer, const char *text) {
    char before = 0;
    bool ok = true;

    for (; *text && ok; before = *text++) {
        bool escape = strchr("|\\*`<", *text) != NULL || (*text == '_' && !is_alnum(before));

        ok = (!escape || ck_buffer_add(buffer, "\\", 1)) && ck_buffer_add(buffer, text, 1);
    }
    return ok;
}

static bool markdown_cell(struct ck_buffer *buffer, const char *text) {
    return ck_buffer_add_text(buffer, " ") && markdown_text(buffer, text ? text : "") &&
           ck_buffer_add_text(buffer, " |");
}

static bool markdown_heading(struct ck_buffer *buffer, const char *level, const char *title, const char *description) {
    bool ok = ck_buffer_add_text(buffer, level) && markdown_text(buffer, title) && ck_buffer_add_text(buffer, "\n\n");

    if (description)
        ok = ok && markdown_text(buffer, description) && ck_buffer_add_text(buffer, "\n\n");
    return ok;
}

static bool markdown_columns(struct ck_buffer *buffer, const struct ck_matrix_section *section) {
    bool ok = ck_buffer_add_text(buffer, "|");

    for (size_t i = 0; i < section->n_columns; i++)
        ok = ok && markdown_cell(buffer, section->columns[i]);
    ok = ok && ck_buffer_add_text(buffer, " Status | Rule | Note | Since |\n|");
    for (size_t i = 0; i < section->n_columns + 4; i++)
        ok = ok && ck_buffer_add_text(buffer, " --- |");
    return ok && ck_buffer_add_text(buffer, "\n");
}

static bool markdown_row(struct ck_buffer *buffer, const struct cursor *cursor) {
    bool ok = ck_buffer_add_text(buffer, "|");

    for (size_t i = 0; i < cursor->in->n_columns; i++)
        ok = ok && markdown_cell(buffer, cursor->row->cells[i]);
    return ok && markdown_cell(buffer, ck_status_words[cursor->standing.status]) &&
           markdown_cell(buffer, cursor->standing.rule) && markdown_cell(buffer, cursor->standing.note) &&
           markdown_cell(buffer, cursor->standing.since) && ck_buffer_add_text(buffer, "\n");
}

static bool markdown_nothing(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter,
                             struct ck_buffer *buffer) {
    struct near near = {0};
    bool ok = ck_buffer_add_text(buffer, "No row fits.\n");

    find_near(matrix, filter, &near);
    for (size_t i = 0; i < near.n; i++)
        ok = ok && ck_buffer_add_text(buffer, i == 0 ? "\nNear: " : "; ") && markdown_text(buffer, near.keys[i]);
    return ok && (near.n == 0 || ck_buffer_add_text(buffer, "\n"));
}

static bool write_markdown(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter,
                           struct ck_buffer *buffer) {
    bool ok = markdown_heading(buffer, "# ", matrix->title, matrix->description);
    const struct ck_matrix_section *section = NULL;
    struct cursor cursor = {0};

    while (ok && next_row(matrix, filter, &cursor)) {
        if (section != cursor.in)
            ok = (!section || ck_buffer_add_text(buffer, "\n")) &&
                 markdown_heading(buffer, "## ", cursor.in->title, cursor.in->description) &&
                 markdown_columns(buffer, cursor.in);
        section = cursor.in;
        ok = ok && markdown_row(buffer, &cursor);
    }
    return ok && (section || markdown_nothing(matrix, filter, buffer));
}

bool ck_matrix_write(const struct ck_matrix *matrix, const struct ck_matrix_filter *filter,
                     enum ck_matrix_format format, struct ck_buffer *buffer) {
    if (format == CK_MATRIX_CSV)
        return write_csv(matrix, filter, buffer);
    return format == CK_MATRIX_MARKDOWN ? write_markdown(matrix, filter, buffer) : write_json(matrix, filter, buffer);
}
