#include "api/body_head.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The sha-256 of an RFC 9530 dictionary ("sha-512=:...:, sha-256=:...:"). Other algorithms are ignored, as the RFC
 * wants. */
static int digest_parse(const char *field, const char *header, struct ck_body_terms *terms, struct ck_error *err) {
    while (*field) {
        size_t n = strcspn(field, ","), lead = strspn(field, " \t");
        const char *item = field + lead;
        uint8_t raw[48];

        if (strncasecmp(item, "sha-256=", 8) == 0) {
            size_t length = n - CK_MIN(n, lead + 8);

            item += 8;
            while (length > 0 && (item[length - 1] == ' ' || item[length - 1] == '\t'))
                length--;
            /* 32 bytes are 44 characters of base64, the last of them '=', between two colons. */
            if (length != 46 || item[0] != ':' || item[45] != ':' || item[44] != '=' ||
                EVP_DecodeBlock(raw, (const unsigned char *)item + 1, 44) != 33)
                return ck_error_set(err, CK_E_BAD_REQUEST, header,
                                    "the header %s must look like sha-256=:BASE64 OF 32 BYTES:", header);
            if (terms->digest_given && memcmp(terms->digest, raw, CK_SHA256_BYTES) != 0)
                return ck_error_set(err, CK_E_BAD_REQUEST, header, "two different digests were sent for one body");
            memcpy(terms->digest, raw, CK_SHA256_BYTES);
            terms->digest_given = true;
        }
        field += n;
        field += *field == ',';
    }
    return 0;
}

static int length_parse(const char *text, struct ck_body_terms *terms, struct ck_error *err) {
    uint64_t value = 0;

    if (!text[0] || strspn(text, "0123456789") != strlen(text))
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Length", "Content-Length is not a number");
    for (; *text; text++)
        if (!ck_mul_u64(value, 10, &value) || !ck_add_u64(value, (uint64_t)(*text - '0'), &value))
            return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Length", "Content-Length is not a number");
    terms->length = value;
    terms->length_known = true;
    return 0;
}

static int check_framing(const struct ck_body_head *head, struct ck_error *err) {
    if (head->content_length && head->transfer_encoding)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Length",
                            "a request has either Content-Length or Transfer-Encoding");
    if (head->transfer_encoding && strcasecmp(head->transfer_encoding, "chunked") != 0)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Transfer-Encoding",
                            "chunked is the one Transfer-Encoding that is read");
    if (head->content_range)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Range", "a part of a body is not taken: send the whole");
    if (head->content_encoding && strcasecmp(head->content_encoding, "identity") != 0)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Encoding",
                            "send the body as it is, without Content-Encoding");
    return 0;
}

/* ---- media types ---- */

/* True if the header names this media type; parameters do not count. */
static bool is_type(const char *content_type, const char *type) {
    size_t n = strcspn(content_type, "; \t");

    return n == strlen(type) && strncasecmp(content_type, type, n) == 0;
}

static int wrong_type(const char *content_type, const char *wanted, const char *hint, struct ck_error *err) {
    ck_error_set(err, CK_E_UNSUPPORTED_MEDIA, "Content-Type", "this path takes %s, not %.100s", wanted,
                 content_type[0] ? content_type : "a body without Content-Type");
    ck_error_set_hint(err, "%s", hint);
    return CK_E_UNSUPPORTED_MEDIA;
}

static int choose_json(const char *type, enum ck_body_way *ret_way, struct ck_error *err) {
    /* `curl -d @spec.json` says that it sends a form; what the body is shows when it is read. */
    if (type[0] && !is_type(type, "application/json") && !is_type(type, "application/x-www-form-urlencoded"))
        return wrong_type(type, "application/json", "send -H 'Content-Type: application/json'", err);
    *ret_way = CK_WAY_JSON;
    return 0;
}

static int choose_form(const char *type, enum ck_body_way *ret_way, struct ck_error *err) {
    if (!strcasestr(type, "boundary="))
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Type", "the Content-Type of the form has no boundary");
    *ret_way = CK_WAY_FORM;
    return 0;
}

static int choose_way(enum ck_body body, const char *type, enum ck_body_way *ret_way, struct ck_error *err) {
    if (body == CK_BODY_NONE) {
        *ret_way = CK_WAY_NONE;
        return 0;
    }
    if (body == CK_BODY_JSON)
        return choose_json(type, ret_way, err);
    if (is_type(type, "multipart/form-data"))
        return choose_form(type, ret_way, err);
    if (body == CK_BODY_FORM)
        return wrong_type(type, "multipart/form-data", "use curl -F, or send the file alone: curl -T FILE", err);
    if (strncasecmp(type, "multipart/", 10) == 0)
        return wrong_type(type, "a file or multipart/form-data", "use curl -T FILE or curl -F file=@FILE", err);
    *ret_way = body == CK_BODY_EITHER && is_type(type, "application/json") ? CK_WAY_JSON : CK_WAY_RAW;
    return 0;
}

/* ---- all of it ---- */

static int digests_parse(const struct ck_body_head *head, struct ck_body_terms *terms, struct ck_error *err) {
    int r = 0;

    if (terms->way == CK_WAY_NONE || (!head->repr_digest && !head->content_digest))
        return 0;
    /* Accepting a digest that nobody compares would be a promise that is not kept. */
    if (terms->way != CK_WAY_RAW)
        return ck_error_set(err, CK_E_BAD_REQUEST, head->repr_digest ? "Repr-Digest" : "Content-Digest",
                            "only the digest of a file that is sent alone is checked, not that of a form or of JSON");
    if (head->repr_digest)
        r = digest_parse(head->repr_digest, "Repr-Digest", terms, err);
    if (r == 0 && head->content_digest)
        r = digest_parse(head->content_digest, "Content-Digest", terms, err);
    return r;
}

static int check_length(const struct ck_body_terms *terms, struct ck_error *err) {
    bool small = terms->way == CK_WAY_JSON || terms->way == CK_WAY_NONE;

    if (terms->length <= terms->most)
        return 0;
    ck_error_set(err, CK_E_BODY_TOO_LARGE, NULL, "the %s has %" PRIu64 " bytes, this server takes %" PRIu64 " (%s)",
                 small ? "body" : "upload", terms->length, terms->most, small ? "--max-json" : "--max-upload");
    if (small)
        ck_error_set_hint(err, "raise --max-json");
    return CK_E_BODY_TOO_LARGE;
}

int ck_body_head_parse(const struct ck_body_head *head, enum ck_body body, const struct ck_terms *limits,
                       struct ck_body_terms *ret_terms, struct ck_error *err) {
    struct ck_body_terms terms = {0};
    int r = check_framing(head, err);

    if (r == 0)
        r = choose_way(body, head->content_type ? head->content_type : "", &terms.way, err);
    if (r == 0 && head->content_length)
        r = length_parse(head->content_length, &terms, err);
    if (r == 0)
        r = digests_parse(head, &terms, err);
    if (r < 0)
        return r;
    if (!head->content_length && !head->transfer_encoding) {
        terms.length_known = true;
        terms.length = 0;
    }
    terms.most = terms.way == CK_WAY_JSON || terms.way == CK_WAY_NONE ? limits->max_json : limits->max_upload;
    r = check_length(&terms, err);
    if (r < 0)
        return r;
    *ret_terms = terms;
    return 0;
}
