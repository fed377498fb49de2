#include "api/convert.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/names.h"
#include "core/base/version.h"

#define SEGMENTS_MAX 3

static const char *const no_quant = "none";

struct segments {
    char *text[SEGMENTS_MAX]; /* decoded, owned */
    size_t count;
};

static void segments_release(struct segments *segments) {
    for (size_t i = 0; i < segments->count; i++)
        free(segments->text[i]);
    segments->count = 0;
}

static int segments_split(const char *rest, struct segments *segments, struct ck_error *err) {
    while (*rest) {
        size_t n = strcspn(rest, "/");
        int r;

        if (n == 0)
            return ck_error_set(err, CK_E_BAD_REQUEST, NULL,
                                "the path holds an empty segment: the form is " CK_CONVERT_PREFIX
                                "{to}/[{quant}/][name]");
        if (segments->count == SEGMENTS_MAX)
            return ck_error_set(err, CK_E_NOT_FOUND, NULL,
                                "the path has too many segments: the form is " CK_CONVERT_PREFIX
                                "{to}/[{quant}/][name]");
        r = ck_percent_decode(rest, n, false, &segments->text[segments->count], err);
        if (r < 0)
            return r;
        segments->count++;
        rest += n;
        rest += *rest == '/';
    }
    return 0;
}

static bool is_word(const char *word, const char *const *list) {
    for (; list && *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* Which of the segments is the quantization and which the name. A quantization that is none of the list is left to
 * ck_spec_init(), which refuses it with the nearest one or knows a longer spelling. */
static void tell_apart(const struct segments *segments, const char **ret_quant, const char **ret_name) {
    const char *second = segments->count > 1 ? segments->text[1] : NULL;

    *ret_quant = *ret_name = NULL;
    if (segments->count == 3) {
        *ret_quant = second;
        *ret_name = segments->text[2];
    } else if (second && strchr(second, '.') && !is_word(second, ck_target_quants(segments->text[0]))) {
        *ret_name = second;
    } else {
        *ret_quant = second;
    }
    if (*ret_quant && strcmp(*ret_quant, no_quant) == 0)
        *ret_quant = NULL;
}

static int set_option(struct ck_spec *spec, const char *pair, size_t n, struct ck_error *err) {
    _cleanup_(ck_freep) char *name = NULL, *value = NULL;
    const char *equals = memchr(pair, '=', n);
    size_t name_length = equals ? (size_t)(equals - pair) : n;
    int r;

    r = ck_percent_decode(pair, name_length, true, &name, err);
    if (r < 0)
        return r;
    r = ck_percent_decode(equals ? equals + 1 : "", equals ? n - name_length - 1 : 0, true, &value, err);
    if (r < 0)
        return r;
    return ck_spec_set(spec, name, value, err);
}

static int set_options(struct ck_spec *spec, const char *query, struct ck_error *err) {
    while (*query) {
        size_t n = strcspn(query, "&");
        int r = n > 0 ? set_option(spec, query, n, err) : 0;

        if (r < 0)
            return r;
        query += n;
        query += *query == '&';
    }
    return 0;
}

static int name_results(struct ck_convert *convert, const char *name, struct ck_error *err) {
    const char *quant = convert->spec.quant ? convert->spec.quant : "";

    convert->name = strdup(name ? name : "model");
    convert->stem = ck_stem(name ? name : "model");
    if (!convert->name || !convert->stem ||
        asprintf(&convert->folder, "%s.%s%s%s", convert->stem, convert->spec.target, quant[0] ? "-" : "", quant) < 0) {
        convert->folder = NULL;
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the request");
    }
    return 0;
}

static int no_target(struct ck_error *err) {
    char list[256];
    size_t used = 0;

    list[0] = 0;
    for (size_t i = 0; ck_targets[i] && used < sizeof(list) - 1; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", ck_targets[i]);
    return ck_error_set(err, CK_E_UNSUPPORTED_TARGET, NULL, "the path names no target; there are: %s", list);
}

int ck_convert_parse(const char *path, const char *query, struct ck_convert *ret_convert, struct ck_error *err) {
    _cleanup_(ck_convert_release) struct ck_convert convert = {0};
    _cleanup_(segments_release) struct segments segments = {0};
    const char *quant, *name;
    int r;

    path += CK_MIN(strlen(path), sizeof(CK_CONVERT_PREFIX) - 1);
    r = segments_split(path, &segments, err);
    if (r < 0)
        return r;
    if (segments.count == 0)
        return no_target(err);
    tell_apart(&segments, &quant, &name);
    r = ck_spec_init(&convert.spec, segments.text[0], quant, err);
    if (r == CK_E_UNSUPPORTED_QUANT && segments.count == 2 && err->hint[0] == 0)
        ck_error_set_hint(err, "to name a file without a dot, write " CK_CONVERT_PREFIX "%.20s/none/%.60s",
                          segments.text[0], segments.text[1]);
    if (r < 0)
        return r;
    r = set_options(&convert.spec, query, err);
    if (r < 0)
        return r;
    r = name_results(&convert, name, err);
    if (r < 0)
        return r;
    *ret_convert = convert;
    convert = (struct ck_convert){0};
    return 0;
}

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

int ck_body_head_parse(const struct ck_body_head *head, uint64_t max_upload, struct ck_body_terms *ret_terms,
                       struct ck_error *err) {
    struct ck_body_terms terms = {0};
    int r = 0;

    if (head->content_length && head->transfer_encoding)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Length",
                            "a request has either Content-Length or Transfer-Encoding");
    if (head->transfer_encoding && strcasecmp(head->transfer_encoding, "chunked") != 0)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Transfer-Encoding",
                            "chunked is the one Transfer-Encoding that is read");
    if (head->content_range)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Range",
                            "a part of a file cannot be converted: send the whole");
    if (head->content_encoding && strcasecmp(head->content_encoding, "identity") != 0)
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Encoding",
                            "send the file as it is, without Content-Encoding");
    if (head->content_type && strncasecmp(head->content_type, "multipart/", 10) == 0) {
        r = ck_error_set(err, CK_E_BAD_REQUEST, "Content-Type", "the body must be the file itself, not a form");
        ck_error_set_hint(err, "use curl -T FILE instead of -F file=@FILE");
        return r;
    }
    if (head->content_length)
        r = length_parse(head->content_length, &terms, err);
    if (r == 0 && head->repr_digest)
        r = digest_parse(head->repr_digest, "Repr-Digest", &terms, err);
    if (r == 0 && head->content_digest)
        r = digest_parse(head->content_digest, "Content-Digest", &terms, err);
    if (r < 0)
        return r;
    if (!head->content_length && !head->transfer_encoding) {
        terms.length_known = true;
        terms.length = 0;
    }
    if (terms.length > max_upload)
        return ck_error_set(err, CK_E_BODY_TOO_LARGE, NULL,
                            "the upload has %" PRIu64 " bytes, this server takes %" PRIu64 " (--max-upload)",
                            terms.length, max_upload);
    *ret_terms = terms;
    return 0;
}

static int etag(const struct ck_convert *convert, const uint8_t *digest, char ret_hex[static 65],
                struct ck_error *err) {
    _cleanup_(ck_freep) char *spec = ck_spec_normalised(&convert->spec);
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    unsigned char sum[CK_SHA256_BYTES];
    bool ok;

    /* The NULs keep the parts apart. */
    ok = spec && sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) && EVP_DigestUpdate(sha, digest, CK_SHA256_BYTES) &&
         EVP_DigestUpdate(sha, spec, strlen(spec) + 1) &&
         EVP_DigestUpdate(sha, ck_version(), strlen(ck_version()) + 1) &&
         EVP_DigestUpdate(sha, convert->folder, strlen(convert->folder)) && EVP_DigestFinal_ex(sha, sum, NULL);
    EVP_MD_CTX_free(sha);
    if (!ok)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
    for (size_t i = 0; i < sizeof(sum); i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", sum[i]);
    return 0;
}

int ck_convert_reply(const struct ck_convert *convert, const uint8_t digest[static CK_SHA256_BYTES], uint32_t assumed,
                     bool bare, struct ck_reply *ret_reply, struct ck_error *err) {
    _cleanup_(ck_freep) char *file = NULL, *disposition = NULL;
    char hex[65];
    int r;

    r = etag(convert, digest, hex, err);
    if (r < 0)
        return r;
    if (asprintf(&file, "%s%s", bare ? convert->stem : convert->folder, bare ? ".safetensors" : ".zip") < 0)
        file = NULL;
    disposition = file ? ck_disposition(file) : NULL;
    if (!disposition)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the answer");
    ck_reply_init(ret_reply, 200, bare ? "application/octet-stream" : "application/zip");
    ck_reply_header(ret_reply, "Content-Disposition", "%s", disposition);
    ck_reply_header(ret_reply, "ETag", "\"%s\"", hex);
    ck_reply_header(ret_reply, "X-Ckptd-Assumed", "%" PRIu32, assumed);
    return 0;
}

void ck_convert_release(struct ck_convert *convert) {
    ck_spec_release(&convert->spec);
    free(convert->name);
    free(convert->stem);
    free(convert->folder);
    *convert = (struct ck_convert){0};
}
