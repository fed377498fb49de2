/* api/query.h: query strings, taken apart once and checked whole: an unknown or repeated parameter is an error with the nearest name,
 * never ignored. */
#ifndef CK_API_QUERY_H
#define CK_API_QUERY_H

#include "core/base/error.h"

#define CK_QUERY_MAX 64 /* parameters */

struct ck_query {
    char  *names[CK_QUERY_MAX], *values[CK_QUERY_MAX]; /* decoded, owned; a parameter without '=' has the value "" */
    size_t n;
};

/* Returns 0, CK_E_BAD_REQUEST (escapes, NUL, more than CK_QUERY_MAX), CK_E_OUT_OF_MEMORY. */
int ck_query_parse(const char *text, struct ck_query *ret_query, struct ck_error *err);

/* Checks every name against `known` (ends with NULL). repeatable (may be NULL, ends with NULL): names that may come more than once.
 * Returns 0, CK_E_BAD_OPTION naming the parameter and the nearest known one. */
int ck_query_check(const struct ck_query *query, const char *const *known, const char *const *repeatable, struct ck_error *err);

/* For paths that take no parameters: both of the above. */
int ck_query_none(const char *text, struct ck_error *err);

/* The first value, or NULL. */
const char *ck_query_get(const struct ck_query *query, const char *name);

/* A whole number from least to most; *ret_value is left alone if the parameter is absent. Returns 0 or CK_E_BAD_OPTION. */
int ck_query_number(const struct ck_query *query, const char *name, uint64_t least, uint64_t most, uint64_t *ret_value, struct ck_error *err);

/* "true"/"false" (also 1, 0, yes, no, and "" for true); left alone if absent. Returns 0 or CK_E_BAD_OPTION. */
int ck_query_bool(const struct ck_query *query, const char *name, bool *ret_value, struct ck_error *err);

void ck_query_release(struct ck_query *query);

#endif
