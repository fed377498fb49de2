#include "core/job/spec_json.h"

static int bad_spec(struct ck_error *err) {
    return ck_error_set(err, CK_E_INTERNAL, NULL, "the job has no valid specification");
}

/* kind, target and quantization. */
static int init(const json_t *object, struct ck_spec *spec, struct ck_error *err) {
    const char *word = json_string_value(json_object_get(object, "kind"));
    const char *to = json_string_value(json_object_get(object, "to"));
    const char *quant = json_string_value(json_object_get(object, "quant"));
    const json_t *dry_run = json_object_get(object, "dry_run");
    enum ck_job_kind kind;
    int r;

    if (!to || !quant || !word || !ck_job_kind_from_name(word, &kind) || (dry_run && !json_is_boolean(dry_run)))
        return bad_spec(err);
    if (kind == CK_JOB_ANALYZE)
        return to[0] || quant[0] || dry_run ? bad_spec(err) : ck_spec_init_analyze(spec, err);
    r = ck_spec_init(spec, to, quant, err);
    if (r == 0)
        spec->dry_run = json_is_true(dry_run);
    return r;
}

int ck_spec_from_json(const json_t *object, struct ck_spec *ret_spec, struct ck_error *err) {
    const char *name;
    json_t *value;
    int r;

    r = init(object, ret_spec, err);
    json_object_foreach(json_object_get(object, "options"), name, value) {
        if (r == 0 && !json_is_string(value))
            r = bad_spec(err);
        if (r == 0)
            r = ck_spec_set(ret_spec, name, json_string_value(value), err);
    }
    return r;
}
