/* api/spec.h: what a client asks to be done, checked whole: the JSON of POST /v1/jobs and /v1/analyze, and the same members as texts of a form.
 *
 *     {"kind":"convert","inputs":[{"role":"model","name":"m.pt","digest":"sha256:HEX"}],"to":"mlx","quant":"q4","options":{"dtype":"float16"},
 *      "labels":{"team":"a"},"fresh":false,"dry_run":false}
 *
 * kind may be absent (convert), so may role (model), name, quant, options, labels, fresh, dry_run. An option's value is a text, a number or true/false;
 * layers and rules also take {"conv1":"Conv2d"}, whose order counts: the first pattern that fits wins.
 * Errors name the place as a JSON pointer: CK_E_BAD_JSON (grammar, a member twice, a wrong type, too much of something), CK_E_UNKNOWN_MEMBER with the
 * nearest name, and those of ck_spec_init() and ck_spec_set(). */
#ifndef CK_API_SPEC_H
#define CK_API_SPEC_H

#include "api/store.h"
#include "core/job/options.h"

#define CK_LABELS_MAX      32
#define CK_LABEL_KEY_MAX   63  /* bytes of A-Z a-z 0-9 . _ / - */
#define CK_LABEL_VALUE_MAX 255 /* bytes of UTF-8 without control characters */
#define CK_INPUT_NAME_MAX  255 /* bytes */

struct ck_submission {
    struct ck_spec       spec;   /* target NULL as long as it is not known */
    struct ck_job_source input;  /* the one file, of role "model"; bytes are known once it was found or taken (api/submit.h) */
    char                *labels; /* JSON object of texts with sorted keys; NULL: none */
    bool                 fresh;  /* not from cache */
};

/* body: NUL-terminated. Returns 0 or the errors above. */
int ck_submission_parse(const char *body, size_t n, struct ck_submission *ret_submission, struct ck_error *err);

/* {"digest","name","options","labels","fresh"}, of POST /v1/analyze. */
int ck_analysis_parse(const char *body, size_t n, struct ck_submission *ret_submission, struct ck_error *err);

/* The members of a form that are JSON. where: the field, for errors. */
int ck_submission_options(struct ck_submission *submission, const char *where, const char *text, struct ck_error *err);
int ck_submission_labels(struct ck_submission *submission, const char *where, const char *text, struct ck_error *err);

/* 0, or CK_E_BAD_REQUEST unless it has 1 to CK_INPUT_NAME_MAX bytes and no control characters. */
int ck_input_name_check(const char *where, const char *name, struct ck_error *err);

/* name: checked; digest: "sha256:HEX". where as above. */
int ck_submission_name(struct ck_submission *submission, const char *where, const char *name, struct ck_error *err);
int ck_submission_digest(struct ck_submission *submission, const char *where, const char *digest, struct ck_error *err);

/* True for what may be the key of a label. */
bool ck_label_key_ok(const char *key);

void ck_submission_release(struct ck_submission *submission);

#endif
