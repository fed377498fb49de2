#include "api/matrix.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/conditions.h"
#include "api/matrix_text.h"
#include "api/problem.h"
#include "api/query.h"
#include "core/job/options.h"

/* ---- texts ---- */

#define ETAG_SIZE     35        /* 32 hex digits, quotes, NUL */
#define TEXT_MAX      (1 << 20) /* bytes of one answer; the largest has 30 KiB */
#define MATRICES_MAX  4
#define DIGEST_OF_TAG 16

static const char *const format_words[] = {
#define X(name, word, type) word,
    CK_MATRIX_FORMATS(X) NULL,
#undef X
};

static const char *const media_types[] = {
#define X(name, word, type) type,
    CK_MATRIX_FORMATS(X) NULL,
#undef X
};

/* Half a sha256 is more than enough to tell answers apart. */
static bool etag_of(const struct ck_buffer *text, char ret_etag[static ETAG_SIZE]) {
    unsigned char digest[EVP_MAX_MD_SIZE];

    if (EVP_Digest(ck_buffer_text(text), text->length, digest, NULL, EVP_sha256(), NULL) != 1)
        return false;
    ret_etag[0] = '"';
    for (size_t i = 0; i < DIGEST_OF_TAG; i++)
        snprintf(ret_etag + 1 + 2 * i, 3, "%02x", digest[i]);
    memcpy(ret_etag + 1 + 2 * DIGEST_OF_TAG, "\"", 2);
    return true;
}

struct text {
    struct ck_buffer body;
    char etag[ETAG_SIZE]; /* "" if memory ran out */
};

/* The whole answers. Composed by the first request, read by all, never freed. */
static struct text list_text, whole_texts[MATRICES_MAX][CK_MATRIX_FORMAT_END_];
static pthread_once_t composed = PTHREAD_ONCE_INIT;

static void compose(void) {
    static const struct ck_matrix_filter all = {0};

    ck_buffer_init(&list_text.body, TEXT_MAX);
    if (!ck_matrix_write_list(&list_text.body) || !etag_of(&list_text.body, list_text.etag))
        list_text.etag[0] = 0;
    for (size_t i = 0; i < MATRICES_MAX && ck_matrices[i]; i++) {
        for (int format = 0; format < CK_MATRIX_FORMAT_END_; format++) {
            struct text *text = &whole_texts[i][format];

            ck_buffer_init(&text->body, TEXT_MAX);
            if (!ck_matrix_write(ck_matrices[i], &all, (enum ck_matrix_format)format, &text->body) ||
                !etag_of(&text->body, text->etag))
                text->etag[0] = 0;
        }
    }
}

/* ---- replies ---- */

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the matrix");
}

/* The head that answers with and without a body share. True if the client has the bytes already, and then the reply is
 * complete. */
static bool begin(const struct ck_request *request, const char *etag, const char *type, struct ck_reply *reply) {
    bool known = ck_none_match(request, etag);

    if (known) {
        ck_reply_not_modified(reply, etag);
    } else {
        ck_reply_init(reply, 200, type);
        ck_reply_header(reply, "ETag", "%s", etag);
    }
    ck_reply_header(reply, "Vary", "Accept");
    ck_reply_header(reply, "Cache-Control", "no-cache");
    return known;
}

static int send_kept(const struct ck_request *request, const struct text *text, const char *type,
                     struct ck_reply *ret_reply, struct ck_error *err) {
    if (!text->etag[0])
        return no_memory(err);
    if (!begin(request, text->etag, type, ret_reply))
        ck_reply_static(ret_reply, ck_buffer_text(&text->body), text->body.length);
    return 0;
}

static const struct text *whole_text(const struct ck_matrix *matrix, enum ck_matrix_format format) {
    size_t i = 0;

    while (ck_matrices[i] != matrix)
        i++;
    return &whole_texts[i][format];
}

static int send_filtered(const struct ck_request *request, const struct ck_matrix *matrix,
                         const struct ck_matrix_filter *filter, enum ck_matrix_format format,
                         struct ck_reply *ret_reply, struct ck_error *err) {
    _cleanup_(ck_buffer_release) struct ck_buffer body = {0};
    char etag[ETAG_SIZE];

    ck_buffer_init(&body, TEXT_MAX);
    if (!ck_matrix_write(matrix, filter, format, &body) || !etag_of(&body, etag))
        return no_memory(err);
    if (begin(request, etag, media_types[format], ret_reply))
        return 0;
    ck_buffer_release(&ret_reply->body);
    ret_reply->body = body;
    body = (struct ck_buffer){0}; /* given away */
    return 0;
}

/* ---- what is asked for ---- */

static int unknown_word(const char *what, const char *word, const char *const *list, struct ck_error *err) {
    const char *nearest = ck_nearest(word, list);
    char words[400] = "";
    size_t used = 0;

    for (const char *const *w = list; *w && used < sizeof(words); w++)
        used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", used > 0 ? ", " : "", *w);
    ck_error_set(err, CK_E_BAD_OPTION, what, "'%.64s' is no %s; there are %s", word, what, words);
    if (nearest)
        ck_error_set_hint(err, "did you mean '%s'?", nearest);
    else
        ck_error_set_hint(err, "use one of %s", words);
    return CK_E_BAD_OPTION;
}

/* The index of the word, or CK_E_BAD_OPTION. */
static int index_of(const char *what, const char *word, const char *const *list, struct ck_error *err) {
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return unknown_word(what, word, list, err);
}

/* Every word of every parameter of that name ("a,b") as bits. */
static int parse_words(const struct ck_query *query, const char *what, const char *const *list, uint32_t *ret_bits,
                       struct ck_error *err) {
    uint32_t bits = 0;

    for (size_t i = 0; i < query->n; i++) {
        const char *value = query->values[i];
        bool more = strcmp(query->names[i], what) == 0;

        while (more) {
            size_t n = strcspn(value, ",");
            char word[80];
            int index;

            snprintf(word, sizeof(word), "%.*s", (int)CK_MIN(n, sizeof(word)), value);
            index = index_of(what, word, list, err);
            if (index < 0)
                return index;
            bits |= 1u << index;
            more = value[n] == ',';
            value += n + 1;
        }
    }
    *ret_bits = bits;
    return 0;
}

static int parse_sections(const struct ck_query *query, const struct ck_matrix *matrix, uint32_t *ret_bits,
                          struct ck_error *err) {
    const char *names[CK_MATRIX_SECTIONS_MAX + 1] = {NULL};

    for (size_t i = 0; i < matrix->n_sections; i++)
        names[i] = matrix->sections[i].name;
    return parse_words(query, "section", names, ret_bits, err);
}

static int choose_format(const struct ck_request *request, const struct ck_query *query,
                         enum ck_matrix_format *ret_format, struct ck_error *err) {
    const char *word = ck_query_get(query, "format");
    int index = word ? index_of("format", word, format_words, err) : ck_accept_choose(request, media_types);

    if (index < 0 && !word)
        return ck_error_set(err, CK_E_NOT_ACCEPTABLE, "Accept",
                            "Accept excludes what there is: application/json, text/csv and text/markdown");
    if (index < 0)
        return index;
    *ret_format = (enum ck_matrix_format)index;
    return 0;
}

static int answer_query(const struct ck_request *request, const struct ck_matrix *matrix, const struct ck_query *query,
                        struct ck_reply *ret_reply, struct ck_error *err) {
    static const char *const known[] = {"section", "key", "status", "format", NULL};
    const char *keys[CK_QUERY_MAX];
    struct ck_matrix_filter filter = {.keys = keys};
    enum ck_matrix_format format = CK_MATRIX_JSON;
    int r;

    r = ck_query_check(query, known, (const char *const[]){"section", "key", "status", NULL}, err);
    if (r < 0)
        return r;
    r = choose_format(request, query, &format, err);
    if (r < 0)
        return r;
    r = parse_sections(query, matrix, &filter.sections, err);
    if (r < 0)
        return r;
    r = parse_words(query, "status", ck_status_words, &filter.status, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < query->n; i++)
        if (strcmp(query->names[i], "key") == 0)
            keys[filter.n_keys++] = query->values[i];
    if (filter.sections || filter.status || filter.n_keys > 0)
        return send_filtered(request, matrix, &filter, format, ret_reply, err);
    return send_kept(request, whole_text(matrix, format), media_types[format], ret_reply, err);
}

static int no_such_matrix(const char *name, struct ck_error *err) {
    const char *nearest = ck_nearest(name, ck_matrix_names);
    char words[200] = "";
    size_t used = 0;

    for (const char *const *w = ck_matrix_names; *w && used < sizeof(words); w++)
        used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", used > 0 ? ", " : "", *w);
    ck_error_set(err, CK_E_MATRIX_NOT_FOUND, name, "there is no matrix '%.64s'; there are %s", name, words);
    if (nearest)
        ck_error_set_hint(err, "did you mean /v1/matrix/%s?", nearest);
    return CK_E_MATRIX_NOT_FOUND;
}

static int answer(const struct ck_request *request, struct ck_reply *ret_reply, struct ck_error *err) {
    const struct ck_matrix *matrix = ck_matrix_by_name(request->params[0]);
    _cleanup_(ck_query_release) struct ck_query query = {0};
    int r;

    if (!matrix)
        return no_such_matrix(request->params[0], err);
    r = ck_query_parse(request->query, &query, err);
    if (r < 0)
        return r;
    return answer_query(request, matrix, &query, ret_reply, err);
}

static int answer_list(const struct ck_request *request, struct ck_reply *ret_reply, struct ck_error *err) {
    static const char *const none[] = {NULL};
    _cleanup_(ck_query_release) struct ck_query query = {0};
    int r;

    r = ck_query_parse(request->query, &query, err);
    if (r < 0)
        return r;
    r = ck_query_check(&query, none, NULL, err);
    if (r < 0)
        return r;
    return send_kept(request, &list_text, "application/json", ret_reply, err);
}

void ck_answer_matrix_list(struct ck_request *request, _unused_ const struct ck_ports *ports,
                           struct ck_reply *ret_reply) {
    struct ck_error err = {0};

    pthread_once(&composed, compose);
    if (answer_list(request, ret_reply, &err) < 0)
        ck_problem_reply(&err, request->id, false, ret_reply);
}

void ck_answer_matrix(struct ck_request *request, _unused_ const struct ck_ports *ports, struct ck_reply *ret_reply) {
    struct ck_error err = {0};

    pthread_once(&composed, compose);
    if (answer(request, ret_reply, &err) < 0)
        ck_problem_reply(&err, request->id, false, ret_reply);
}
