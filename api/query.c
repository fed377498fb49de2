#include "api/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "core/job/options.h"

/* One "name=value". */
static int add(struct ck_query *query, const char *text, size_t n, struct ck_error *err) {
    const char *equals = memchr(text, '=', n);
    size_t name_bytes = equals ? (size_t)(equals - text) : n, value_at = equals ? name_bytes + 1 : n;
    _cleanup_(ck_freep) char *name = NULL, *value = NULL;
    int r;

    if (query->n == CK_QUERY_MAX)
        return ck_error_set(err, CK_E_BAD_REQUEST, NULL, "the query has more than %d parameters", CK_QUERY_MAX);
    r = ck_percent_decode(text, name_bytes, true, &name, err);
    if (r < 0)
        return r;
    r = ck_percent_decode(text + value_at, n - value_at, true, &value, err);
    if (r < 0)
        return r;
    query->names[query->n] = TAKE_PTR(name);
    query->values[query->n++] = TAKE_PTR(value);
    return 0;
}

int ck_query_parse(const char *text, struct ck_query *ret_query, struct ck_error *err) {
    _cleanup_(ck_query_release) struct ck_query query = {0};

    while (*text) {
        size_t n = strcspn(text, "&");
        int r = n > 0 ? add(&query, text, n, err) : 0;

        if (r < 0)
            return r;
        text += n;
        if (*text == '&')
            text++;
    }
    *ret_query = query;
    query.n = 0; /* given away */
    return 0;
}

static bool in_list(const char *word, const char *const *list) {
    for (; list && *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static int unknown(const char *name, const char *const *known, struct ck_error *err) {
    const char *nearest = ck_nearest(name, known);
    char words[400] = "";
    size_t used = 0;

    if (!known[0])
        return ck_error_set(err, CK_E_BAD_OPTION, name, "'%.100s' is unknown: this path takes no parameters", name);
    for (; *known && used < sizeof(words); known++)
        used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s", used > 0 ? ", " : "", *known);
    ck_error_set(err, CK_E_BAD_OPTION, name, "'%.100s' is no parameter of this path; there are %s", name, words);
    if (nearest)
        ck_error_set_hint(err, "did you mean '%s'?", nearest);
    else
        ck_error_set_hint(err, "use one of %s", words);
    return CK_E_BAD_OPTION;
}

static bool came_before(const struct ck_query *query, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (strcmp(query->names[k], query->names[i]) == 0)
            return true;
    return false;
}

int ck_query_check(const struct ck_query *query, const char *const *known, const char *const *repeatable,
                   struct ck_error *err) {
    for (size_t i = 0; i < query->n; i++) {
        const char *name = query->names[i];

        if (!in_list(name, known))
            return unknown(name, known, err);
        if (in_list(name, repeatable) || !came_before(query, i))
            continue;
        ck_error_set(err, CK_E_BAD_OPTION, name, "the parameter '%.100s' came twice", name);
        ck_error_set_hint(err, "give '%.100s' once", name);
        return CK_E_BAD_OPTION;
    }
    return 0;
}

int ck_query_none(const char *text, struct ck_error *err) {
    static const char *const none[] = {NULL};
    _cleanup_(ck_query_release) struct ck_query query = {0};
    int r = ck_query_parse(text, &query, err);

    return r < 0 ? r : ck_query_check(&query, none, NULL, err);
}

const char *ck_query_get(const struct ck_query *query, const char *name) {
    for (size_t i = 0; i < query->n; i++)
        if (strcmp(query->names[i], name) == 0)
            return query->values[i];
    return NULL;
}

static bool parse_number(const char *text, uint64_t *ret_number) {
    uint64_t number = 0;

    if (!*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || !ck_mul_u64(number, 10, &number) ||
            !ck_add_u64(number, (uint64_t)(*text - '0'), &number))
            return false;
    *ret_number = number;
    return true;
}

int ck_query_number(const struct ck_query *query, const char *name, uint64_t least, uint64_t most, uint64_t *ret_value,
                    struct ck_error *err) {
    const char *text = ck_query_get(query, name);
    uint64_t number;

    if (!text)
        return 0;
    if (!parse_number(text, &number) || number < least || number > most) {
        ck_error_set(err, CK_E_BAD_OPTION, name,
                     "'%.100s' is no value of %s: a whole number from %" PRIu64 " to %" PRIu64 " is", text, name, least,
                     most);
        ck_error_set_hint(err, "give %s a whole number from %" PRIu64 " to %" PRIu64, name, least, most);
        return CK_E_BAD_OPTION;
    }
    *ret_value = number;
    return 0;
}

int ck_query_bool(const struct ck_query *query, const char *name, bool *ret_value, struct ck_error *err) {
    static const char *const yes[] = {"true", "1", "yes", "", NULL}, *const no[] = {"false", "0", "no", NULL};
    const char *text = ck_query_get(query, name);

    if (!text)
        return 0;
    if (!in_list(text, yes) && !in_list(text, no)) {
        ck_error_set(err, CK_E_BAD_OPTION, name, "'%.100s' is no value of %s: true and false are", text, name);
        ck_error_set_hint(err, "give %s true or false", name);
        return CK_E_BAD_OPTION;
    }
    *ret_value = in_list(text, yes);
    return 0;
}

void ck_query_release(struct ck_query *query) {
    for (size_t i = 0; i < query->n; i++) {
        free(query->names[i]);
        free(query->values[i]);
    }
    query->n = 0;
}
