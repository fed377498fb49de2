/* GET /v1/jobs. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/job_json.h"
#include "api/jobs.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/spec.h"
#include "api/submit.h"

#define PAGE_BYTES (CK_REPLY_BODY_MAX / 2) /* a page is not continued beyond it; one job takes far less */

/* ---- cursors ---- */

/* 39 bytes of digits, letters and dashes: 52 characters of base64 without '+', '/' and '=', so base64url as well. */
#define CURSOR_PREFIX "j1:"
#define CURSOR_PLAIN  (sizeof(CURSOR_PREFIX) - 1 + CK_JOB_ID_SIZE - 1)
#define CURSOR_LENGTH (4 * CURSOR_PLAIN / 3)

_Static_assert(CURSOR_PLAIN % 3 == 0, "a cursor needs no padding");

static void cursor_make(const char *id, char ret_cursor[static CURSOR_LENGTH + 1]) {
    unsigned char plain[CURSOR_PLAIN + 1];

    snprintf((char *)plain, sizeof(plain), CURSOR_PREFIX "%s", id);
    EVP_EncodeBlock((unsigned char *)ret_cursor, plain, CURSOR_PLAIN);
}

static bool is_uuid(const char *id) {
    for (size_t i = 0; i < CK_JOB_ID_SIZE - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? id[i] != '-' : !strchr("0123456789abcdef", id[i]) || !id[i])
            return false;
    }
    return id[CK_JOB_ID_SIZE - 1] == 0;
}

static int cursor_parse(const char *cursor, char ret_id[static CK_JOB_ID_SIZE], struct ck_error *err) {
    unsigned char plain[CURSOR_PLAIN + 1] = {0};

    if (strlen(cursor) != CURSOR_LENGTH ||
        EVP_DecodeBlock(plain, (const unsigned char *)cursor, CURSOR_LENGTH) != CURSOR_PLAIN ||
        memcmp(plain, CURSOR_PREFIX, sizeof(CURSOR_PREFIX) - 1) != 0 ||
        !is_uuid((const char *)plain + sizeof(CURSOR_PREFIX) - 1))
        return ck_error_set(err, CK_E_BAD_CURSOR, "cursor", "'%.100s' is no cursor of this daemon", cursor);
    memcpy(ret_id, plain + sizeof(CURSOR_PREFIX) - 1, CK_JOB_ID_SIZE);
    return 0;
}

/* ---- filters ---- */

struct page {
    struct ck_query query;
    struct ck_job_filter filter;
    unsigned limit;
    char cursor[CK_JOB_ID_SIZE];
    char *label;                 /* the key, cut off its value; owned */
    char (*ids)[CK_JOB_ID_SIZE]; /* of the jobs found: one more than limit, if there are */
    unsigned n_ids;
};

static void page_release(struct page *page) {
    ck_query_release(&page->query);
    free(page->label);
    free(page->ids);
}

static int bad_word(const char *parameter, const char *word, const char *const *list, struct ck_error *err) {
    const char *near = ck_nearest(word, list);
    char words[256] = "";
    size_t used = 0;

    for (size_t i = 0; list[i] && used < sizeof(words); i++)
        used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", i ? ", " : "", list[i]);
    ck_error_set(err, CK_E_BAD_OPTION, parameter, "'%.50s' is no %s; there are: %s", word, parameter, words);
    if (near)
        ck_error_set_hint(err, "did you mean '%s'?", near);
    else
        ck_error_set_hint(err, "use one of %s", words);
    return CK_E_BAD_OPTION;
}

static int add_state(const char *word, unsigned *states, struct ck_error *err) {
    const char *names[CK_STATE_END_ + 1] = {0};
    enum ck_job_state state;

    if (ck_job_state_parse(word, &state)) {
        *states |= 1u << state;
        return 0;
    }
    for (unsigned i = 0; i < CK_STATE_END_; i++)
        names[i] = ck_job_state_name((enum ck_job_state)i);
    return bad_word("state", word, names, err);
}

/* Cuts the value in place: nobody else reads it. */
static int add_states(char *list, unsigned *states, struct ck_error *err) {
    char *word;
    int r = 0;

    while (r == 0 && (word = strsep(&list, ",")) != NULL)
        r = add_state(word, states, err);
    return r;
}

static int parse_states(struct page *page, struct ck_error *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < page->query.n; i++) {
        _cleanup_(ck_freep) char *list = NULL;

        if (strcmp(page->query.names[i], "state") != 0)
            continue;
        list = strdup(page->query.values[i]);
        r = list ? add_states(list, &page->filter.states, err)
                 : ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the list");
    }
    return r;
}

static int parse_words(struct page *page, struct ck_error *err) {
    static const char *const orders[] = {"asc", "desc", NULL};
    const char *kinds[CK_JOB_KIND_END_ + 1] = {0};
    const char *order = ck_query_get(&page->query, "order");
    enum ck_job_kind kind;

    page->filter.kind = ck_query_get(&page->query, "kind");
    page->filter.target = ck_query_get(&page->query, "target");
    for (unsigned i = 0; i < CK_JOB_KIND_END_; i++)
        kinds[i] = ck_job_kind_name((enum ck_job_kind)i);
    if (page->filter.kind && !ck_job_kind_from_name(page->filter.kind, &kind))
        return bad_word("kind", page->filter.kind, kinds, err);
    if (page->filter.target && !ck_target_quants(page->filter.target))
        return bad_word("target", page->filter.target, ck_targets, err);
    if (order && strcmp(order, orders[0]) != 0 && strcmp(order, orders[1]) != 0)
        return bad_word("order", order, orders, err);
    page->filter.oldest_first = order && strcmp(order, orders[0]) == 0;
    return 0;
}

static int parse_label(struct page *page, struct ck_error *err) {
    const char *text = ck_query_get(&page->query, "label");
    char *equals;

    if (!text)
        return 0;
    page->label = strdup(text);
    if (!page->label)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the list");
    equals = strchr(page->label, '=');
    if (equals)
        *equals = 0;
    if (!equals || !ck_label_key_ok(page->label))
        return ck_error_set(err, CK_E_BAD_OPTION, "label", "'%.100s' is not of the form label=KEY=VALUE", text);
    page->filter.label_key = page->label;
    page->filter.label_value = equals + 1;
    return 0;
}

/* The rest of RFC 3339 behind the seconds: ".123+01:00". A '+' that was sent as it is arrives as a space. */
static bool parse_zone(const char *text, int *ret_ms, int *ret_minutes) {
    int ms = 0, scale = 100, hours, minutes, used = 0;

    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++, scale /= 10)
            ms += (*text - '0') * scale;
    }
    *ret_ms = ms;
    *ret_minutes = 0;
    if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
        return true;
    if (!strchr("+- ", *text) || sscanf(text + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || used != 5 || text[6] ||
        hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
        return false;
    *ret_minutes = (*text == '-' ? -1 : 1) * (60 * hours + minutes);
    return true;
}

static bool parse_rfc3339(const char *text, int64_t *ret_ms) {
    struct tm tm = {0};
    int used = 0, ms, zone, day;
    time_t seconds;

    if (sscanf(text, "%4d-%2d-%2d%*1[Tt ]%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec, &used) != 6 ||
        used != 19 || !parse_zone(text + used, &ms, &zone))
        return false;
    if (tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_hour < 0 || tm.tm_hour > 23 ||
        tm.tm_min < 0 || tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return false;
    day = tm.tm_mday;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    seconds = timegm(&tm);
    /* The 30th of February has become the 1st or 2nd of March. */
    if (tm.tm_mday != day && tm.tm_sec < 60)
        return false;
    *ret_ms = ((int64_t)seconds - 60 * zone) * 1000 + ms;
    return true;
}

static int parse_time(const struct page *page, const char *name, int64_t *ret_ms, struct ck_error *err) {
    const char *text = ck_query_get(&page->query, name);
    size_t n = text ? strlen(text) : 0;

    if (!text)
        return 0;
    if (n > 0 && n <= 15 && strspn(text, "0123456789") == n) {
        *ret_ms = (int64_t)strtoll(text, NULL, 10);
        return 0;
    }
    if (!parse_rfc3339(text, ret_ms))
        return ck_error_set(err, CK_E_BAD_OPTION, name,
                            "'%.50s' is no time: 2026-03-01T12:00:00Z is one, and so is a number of ms since 1970",
                            text);
    return 0;
}

static int page_parse(struct page *page, const char *text, struct ck_error *err) {
    static const char *const known[] = {"limit", "cursor",        "state",          "kind",  "target",
                                        "label", "created_after", "created_before", "order", NULL};
    static const char *const repeatable[] = {"state", NULL};
    uint64_t limit = CK_JOBS_LIMIT_DEFAULT;
    const char *cursor;
    int r = ck_query_parse(text, &page->query, err);

    if (r == 0)
        r = ck_query_check(&page->query, known, repeatable, err);
    if (r == 0)
        r = ck_query_number(&page->query, "limit", 1, CK_JOBS_LIMIT, &limit, err);
    if (r == 0)
        r = parse_states(page, err);
    if (r == 0)
        r = parse_words(page, err);
    if (r == 0)
        r = parse_label(page, err);
    if (r == 0)
        r = parse_time(page, "created_after", &page->filter.created_after, err);
    if (r == 0)
        r = parse_time(page, "created_before", &page->filter.created_before, err);
    cursor = ck_query_get(&page->query, "cursor");
    if (r == 0 && cursor)
        r = cursor_parse(cursor, page->cursor, err);
    page->limit = (unsigned)limit;
    page->filter.tenant = CK_TENANT;
    page->filter.cursor = cursor ? page->cursor : NULL;
    page->filter.limit = page->limit + 1;
    return r;
}

/* ---- jobs ---- */

/* Only the ids are kept: each job is read again when it is written, because its place in the queue may not be asked for
 * from here. */
static int keep_id(void *ctx, const struct ck_job_row *row) {
    struct page *page = ctx;

    if (page->n_ids <= page->limit)
        memcpy(page->ids[page->n_ids++], row->id, CK_JOB_ID_SIZE);
    return 0;
}

static int find_jobs(struct page *page, const struct ck_ports *ports, struct ck_error *err) {
    page->ids = calloc(page->limit + 1, sizeof(*page->ids));
    if (!page->ids)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the list");
    return ports->store->job_list(ports->store, &page->filter, keep_id, page, err);
}

static int write_job(struct ck_json *json, const struct ck_ports *ports, const char *id, struct ck_error *err) {
    _cleanup_(ck_job_row_release) struct ck_job_row row = {0};
    struct ck_error failure = {0};
    struct ck_job_live live;
    int r = ports->store->job_get(ports->store, CK_TENANT, id, &row, &failure);

    if (r == CK_E_JOB_NOT_FOUND) /* deleted since */
        return 0;
    if (r < 0) {
        *err = failure;
        return r;
    }
    ck_json_newline(json);
    ck_job_json(json, ports, &row, row.state == CK_STATE_RUNNING && ports->live(ports->ctx, id, &live) ? &live : NULL);
    return 0;
}

/* *ret_next: the job that the next page begins behind, or NULL. */
static int write_jobs(struct ck_json *json, const struct ck_buffer *body, const struct page *page,
                      const struct ck_ports *ports, const char **ret_next, struct ck_error *err) {
    unsigned i = 0;
    int r = 0;

    ck_json_key(json, "jobs");
    ck_json_array_begin(json);
    while (r == 0 && i < page->n_ids && i < page->limit && body->length < PAGE_BYTES)
        r = write_job(json, ports, page->ids[i++], err);
    ck_json_array_end(json);
    *ret_next = i > 0 && i < page->n_ids ? page->ids[i - 1] : NULL;
    return r;
}

/* ---- the next page ---- */

static void add_encoded(struct ck_buffer *buffer, const char *text) {
    for (; *text; text++) {
        bool plain =
            (*text >= '0' && *text <= '9') || ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'z') || strchr("-._~", *text);

        if (plain)
            ck_buffer_add(buffer, text, 1);
        else
            ck_buffer_printf(buffer, "%%%02X", (unsigned char)*text);
    }
}

/* The same question with the new cursor. */
static void add_link(const struct page *page, const char *cursor, struct ck_reply *reply) {
    _cleanup_(ck_buffer_release) struct ck_buffer url = {0};

    ck_buffer_init(&url, CK_REPLY_BODY_MAX);
    for (size_t i = 0; i < page->query.n; i++) {
        if (strcmp(page->query.names[i], "cursor") == 0)
            continue;
        ck_buffer_printf(&url, "%s=", page->query.names[i]);
        add_encoded(&url, page->query.values[i]);
        ck_buffer_add(&url, "&", 1);
    }
    if (!ck_buffer_printf(&url, "cursor=%s", cursor))
        reply->broken = true;
    ck_reply_header(reply, "Link", "</v1/jobs?%s>; rel=\"next\"", ck_buffer_text(&url));
}

static int write_page(const struct page *page, const struct ck_ports *ports, struct ck_reply *reply,
                      struct ck_error *err) {
    char cursor[CURSOR_LENGTH + 1];
    const char *next = NULL;
    struct ck_json json;
    int r;

    ck_json_init(&json, ck_json_sink_buffer, &reply->body, err);
    ck_json_object_begin(&json);
    r = write_jobs(&json, &reply->body, page, ports, &next, err);
    if (r < 0)
        return r;
    if (next) {
        cursor_make(next, cursor);
        add_link(page, cursor, reply);
    }
    ck_json_key_string(&json, "next_cursor", next ? cursor : NULL);
    ck_json_object_end(&json);
    ck_json_newline(&json);
    return ck_json_finish(&json);
}

void ck_answer_job_list(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply) {
    _cleanup_(page_release) struct page page = {0};
    struct ck_error err = {0};
    int r = page_parse(&page, request->query, &err);

    if (r == 0)
        r = find_jobs(&page, ports, &err);
    if (r == 0) {
        ck_reply_init(ret_reply, 200, "application/json");
        ck_reply_header(ret_reply, "Cache-Control", "no-store");
        r = write_page(&page, ports, ret_reply, &err);
        if (r < 0)
            ck_reply_release(ret_reply);
    }
    if (r < 0)
        ck_problem_reply(&err, request->id, false, ret_reply);
}
