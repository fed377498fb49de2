/* api/convert.h: the one-command route, PUT or POST /v1/convert/{to}[/{quant}]/[name]?options: what a request means and
 * what its answer is called. The bytes are conducted by server/.
 *
 * `curl -T FILE` appends the local name to an address that ends in '/', so one extra segment is a quantization or a
 * file name: a known quantization is one, anything with a dot is a name, the rest is refused with the nearest
 * quantization. A typo never means "no quantization". */
#ifndef CK_API_CONVERT_H
#define CK_API_CONVERT_H

#include "api/reply.h"
#include "core/job/options.h"

#define CK_CONVERT_PREFIX "/v1/convert/"

#define CK_SHA256_BYTES 32

struct ck_convert {
    struct ck_spec spec;
    char *name;   /* of the uploaded file as the client has it, "model" if it did not say; for messages; owned */
    char *stem;   /* see ck_stem(); owned */
    char *folder; /* STEM.TO[-QUANT]: the folder in the zip and the zip's name without .zip; owned */
};

/* path: as sent, at least "/v1/convert"; query: as sent, without '?'. Returns 0; CK_E_UNSUPPORTED_TARGET,
 * CK_E_UNSUPPORTED_QUANT, CK_E_BAD_OPTION, CK_E_BAD_RULE (each with the nearest name); CK_E_NOT_FOUND for more segments
 * than there are; CK_E_BAD_REQUEST for broken escapes. */
int ck_convert_parse(const char *path, const char *query, struct ck_convert *ret_convert, struct ck_error *err);

/* What the request head says about the body. Each may be NULL. */
struct ck_body_head {
    const char *content_length, *transfer_encoding, *content_type, *content_encoding, *content_range;
    const char *repr_digest, *content_digest;
};

struct ck_body_terms {
    bool length_known;
    uint64_t length; /* bytes, if known */
    bool digest_given;
    uint8_t digest[CK_SHA256_BYTES]; /* sha-256 that the body must have */
};

/* Returns 0; CK_E_BAD_REQUEST for a form, an encoding, a malformed length or digest; CK_E_BODY_TOO_LARGE naming
 * --max-upload. */
int ck_body_head_parse(const struct ck_body_head *head, uint64_t max_upload, struct ck_body_terms *ret_terms,
                       struct ck_error *err);

/* Composes the head of a success. bare: the answer is the one safetensors file, not a zip. The ETag names what the
 * result depends on: the input's digest, the normalised specification, the converter's version and the name of the
 * folder. Returns 0 or CK_E_OUT_OF_MEMORY. */
int ck_convert_reply(const struct ck_convert *convert, const uint8_t digest[static CK_SHA256_BYTES], uint32_t assumed,
                     bool bare, struct ck_reply *ret_reply, struct ck_error *err);

/* Accepts a zeroed one. */
void ck_convert_release(struct ck_convert *convert);

#endif
