#include "api/conditions.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* A stretch of a header's value. */
struct text {
    const char *at, *end;
};

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static struct text trimmed(struct text text) {
    while (text.at < text.end && is_blank(*text.at))
        text.at++;
    while (text.at < text.end && is_blank(text.end[-1]))
        text.end--;
    return text;
}

static struct text whole(const char *value) {
    return trimmed((struct text){value, value + strlen(value)});
}

static size_t length(struct text text) {
    return (size_t)(text.end - text.at);
}

static bool is_word(struct text text, const char *word) {
    return length(text) == strlen(word) && strncasecmp(text.at, word, length(text)) == 0;
}

/* The border of a piece: the next separator that stands in no quoted string, or the end. */
static const char *border(struct text text, char separator) {
    bool quoted = false;

    for (const char *c = text.at; c < text.end; c++) {
        if (quoted && *c == '\\' && c + 1 < text.end)
            c++;
        else if (*c == '"')
            quoted = !quoted;
        else if (*c == separator && !quoted)
            return c;
    }
    return text.end;
}

/* Cuts the next piece off; false when nothing is left. */
static bool next_piece(struct text *rest, char separator, struct text *ret_piece) {
    const char *end;

    if (rest->at >= rest->end)
        return false;
    end = border(*rest, separator);
    *ret_piece = trimmed((struct text){rest->at, end});
    rest->at = end < rest->end ? end + 1 : end;
    return true;
}

/* Splits "name=value" at the '='; the value of a piece without one is empty, quotes around it are taken off. */
static void split_pair(struct text piece, struct text *ret_name, struct text *ret_value) {
    const char *equals = memchr(piece.at, '=', length(piece));
    struct text value = {piece.end, piece.end};

    *ret_name = trimmed((struct text){piece.at, equals ? equals : piece.end});
    if (equals)
        value = trimmed((struct text){equals + 1, piece.end});
    if (length(value) >= 2 && value.at[0] == '"' && value.end[-1] == '"')
        value = (struct text){value.at + 1, value.end - 1};
    *ret_value = value;
}

/* Reads digits; a number beyond 64 bits becomes the largest one, which lies beyond the end of everything. False without
 * digits. */
static bool take_number(struct text *text, uint64_t *ret_number) {
    uint64_t number = 0;
    const char *start = text->at;

    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        if (!ck_mul_u64(number, 10, &number) || !ck_add_u64(number, (uint64_t)(*text->at - '0'), &number))
            number = UINT64_MAX;
    if (text->at == start)
        return false;
    *ret_number = number;
    return true;
}

static bool take_char(struct text *text, char c) {
    if (text->at >= text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

/* The quoted part of an entity tag: weak comparison looks at nothing else. */
static const char *opaque(const char *etag) {
    return strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
}

bool ck_none_match(const struct ck_request *request, const char *etag) {
    const char *value = ck_request_header(request, "If-None-Match");
    size_t n = strlen(opaque(etag));
    struct text rest;

    if (!value)
        return false;
    rest = whole(value);
    if (is_word(rest, "*"))
        return true;
    /* Not next_piece(): a backslash escapes nothing in an entity tag. */
    while (rest.at < rest.end) {
        const char *close;

        if (is_blank(*rest.at) || *rest.at == ',') {
            rest.at++;
            continue;
        }
        rest.at = opaque(rest.at);
        close = rest.at < rest.end && *rest.at == '"' ? memchr(rest.at + 1, '"', length(rest) - 1) : NULL;
        if (!close)
            return false;
        if ((size_t)(close + 1 - rest.at) == n && memcmp(rest.at, opaque(etag), n) == 0)
            return true;
        rest.at = close + 1;
    }
    return false;
}

static bool if_range_holds(const struct ck_request *request, const char *etag) {
    const char *value = ck_request_header(request, "If-Range");

    if (!value)
        return true;
    return opaque(etag) == etag && length(whole(value)) == strlen(etag) &&
           memcmp(whole(value).at, etag, strlen(etag)) == 0;
}

/* One range as it was sent. suffix: the last `last` bytes. */
struct byte_range {
    uint64_t first, last;
    bool suffix;
};

static bool parse_range(const char *value, struct byte_range *ret_range) {
    struct byte_range range = {.last = UINT64_MAX};
    struct text text = whole(value), unit, spec;

    split_pair(text, &unit, &spec);
    if (!is_word(unit, "bytes") || length(spec) == 0 || spec.end != text.end)
        return false;
    range.suffix = take_char(&spec, '-');
    if (range.suffix) {
        if (!take_number(&spec, &range.last))
            return false;
    } else {
        if (!take_number(&spec, &range.first) || !take_char(&spec, '-'))
            return false;
        if (spec.at < spec.end && !take_number(&spec, &range.last))
            return false;
    }
    if (spec.at != spec.end || (!range.suffix && range.first > range.last))
        return false;
    *ret_range = range;
    return true;
}

int ck_range_parse(const struct ck_request *request, const char *etag, uint64_t total, struct ck_range *ret_range,
                   struct ck_error *err) {
    const char *value = ck_request_header(request, "Range");
    struct byte_range range;

    /* RFC 9110 14.2 defines ranges for GET alone: a HEAD describes the whole. */
    if (!value || strcmp(request->method, "GET") != 0 || !if_range_holds(request, etag) ||
        !parse_range(value, &range) || (range.suffix && total == 0 && range.last > 0)) {
        *ret_range = (struct ck_range){.length = total};
        return 0;
    }
    if (range.suffix ? range.last == 0 : range.first >= total)
        return ck_error_set(err, CK_E_RANGE_NOT_SATISFIABLE, "Range",
                            "the range '%.100s' begins beyond the end: there are %" PRIu64 " bytes", value, total);
    if (range.suffix)
        range.first = total - CK_MIN(range.last, total);
    if (range.suffix || range.last > total - 1)
        range.last = total - 1;
    *ret_range = (struct ck_range){.offset = range.first, .length = range.last - range.first + 1, .partial = true};
    return 0;
}

void ck_range_apply(struct ck_reply *reply, const struct ck_range *range, uint64_t total) {
    reply->status = range->partial ? 206 : 200;
    ck_reply_header(reply, "Accept-Ranges", "bytes");
    if (range->partial)
        ck_reply_header(reply, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->offset,
                        range->offset + range->length - 1, total);
}

/* "1", "0.25": thousandths, or -1 for what is no weight. */
static int parse_weight(struct text text) {
    int weight = 0, digit = 100;

    if (length(text) < 1 || length(text) > 5 || (*text.at != '0' && *text.at != '1'))
        return -1;
    weight = (*text.at++ - '0') * 1000;
    if (text.at < text.end && !take_char(&text, '.'))
        return -1;
    for (; text.at < text.end; text.at++, digit /= 10) {
        if (*text.at < '0' || *text.at > '9')
            return -1;
        weight += (*text.at - '0') * digit;
    }
    return weight <= 1000 ? weight : -1;
}

/* How closely a media range fits a type: 0 not, 1 any type, 2 the same main type, 3 the very type. */
static int specificity(struct text range, const char *type) {
    size_t essence = strcspn(type, "; "), main_type = strcspn(type, "/");

    if (is_word(range, "*/*"))
        return 1;
    if (length(range) == essence && strncasecmp(range.at, type, essence) == 0)
        return 3;
    if (length(range) == main_type + 2 && strncasecmp(range.at, type, main_type + 1) == 0 && range.end[-1] == '*')
        return 2;
    return 0;
}

/* A piece of Accept: the media range and its weight. Other parameters are not compared: what is offered has one form
 * each. */
static bool parse_media_range(struct text piece, struct text *ret_range, int *ret_weight) {
    struct text parameter, name, value;

    *ret_weight = 1000;
    if (!next_piece(&piece, ';', ret_range) || !memchr(ret_range->at, '/', length(*ret_range)))
        return false;
    while (next_piece(&piece, ';', &parameter)) {
        split_pair(parameter, &name, &value);
        if (!is_word(name, "q"))
            continue;
        *ret_weight = parse_weight(value);
        break;
    }
    return *ret_weight >= 0;
}

/* The weight of a type: that of the most specific range which fits it; 0 if none does. Among equally specific ones the
 * best counts. */
static int weight_of(struct text accept, const char *type, bool *ret_any) {
    struct text piece, range;
    int best = 0, result = 0, weight;

    while (next_piece(&accept, ',', &piece)) {
        int fit;

        if (!parse_media_range(piece, &range, &weight))
            continue;
        *ret_any = true;
        fit = specificity(range, type);
        if (fit == 0 || fit < best)
            continue;
        result = fit > best ? weight : CK_MAX(result, weight);
        best = fit;
    }
    return result;
}

int ck_accept_choose(const struct ck_request *request, const char *const *offered) {
    const char *value = ck_request_header(request, "Accept");
    int chosen = -1, best = 0;
    bool any = false;

    for (int i = 0; value && offered[i]; i++) {
        int weight = weight_of(whole(value), offered[i], &any);

        if (weight > best) {
            best = weight;
            chosen = i;
        }
    }
    /* A header that names no media range asks for nothing. */
    return any ? chosen : 0;
}

/* More seconds than anybody waits, and few enough to count in milliseconds without a thought. */
#define WAIT_MAX INT32_MAX

static int64_t parse_wait(struct text value) {
    uint64_t seconds;

    if (!take_number(&value, &seconds) || value.at != value.end)
        return -1;
    return (int64_t)CK_MIN(seconds, (uint64_t)WAIT_MAX);
}

void ck_prefer_parse(const struct ck_request *request, struct ck_prefer *ret_prefer) {
    const char *header = ck_request_header(request, "Prefer");
    struct text rest, piece, preference, name, value;
    bool waited = false;

    *ret_prefer = (struct ck_prefer){.wait = -1};
    if (!header)
        return;
    rest = whole(header);
    while (next_piece(&rest, ',', &piece)) {
        if (!next_piece(&piece, ';', &preference))
            continue;
        split_pair(preference, &name, &value);
        if (is_word(name, "respond-async"))
            ret_prefer->async = true;
        /* RFC 7240 2: of a preference that came more than once the first counts. */
        if (is_word(name, "wait") && !waited) {
            ret_prefer->wait = parse_wait(value);
            waited = true;
        }
    }
}

void ck_reply_not_modified(struct ck_reply *reply, const char *etag) {
    ck_reply_init(reply, 304, NULL);
    ck_reply_header(reply, "ETag", "%s", etag);
}
