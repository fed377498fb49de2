#include "server/http/intake.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "core/container/sniff.h"

#define FORM_BUFFER (64u << 10)

struct ck_part {
    struct ck_intake *intake;
    struct ck_upload *upload;
    char *field, *name; /* owned; name may be NULL */
    uint64_t bytes;
    bool sniffed, finished;
};

static int no_memory(struct ck_error *err) {
    return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "no memory for the request");
}

/* ---- parts ---- */

static void one_less(struct ck_intake *intake) {
    if (atomic_fetch_sub(&intake->pending, 1) == 1)
        intake->complete(intake->ctx);
}

/* On a hasher thread, with the upload's lock held. */
static void upload_ready(void *ctx, bool digested) {
    struct ck_part *part = ctx;

    if (digested)
        one_less(part->intake);
    else
        part->intake->resume(part->intake->ctx);
}

static int add_part(struct ck_intake *intake, const char *field, const char *name, struct ck_error *err) {
    struct ck_part *part = calloc(1, sizeof(*part)), **parts;
    struct ck_daemon *daemon = intake->daemon;
    int fd = -1, r;

    parts = realloc(intake->parts, (intake->n_parts + 1) * sizeof(struct ck_part *));
    if (parts)
        intake->parts = parts;
    if (!part || !parts) {
        free(part);
        return no_memory(err);
    }
    part->intake = intake;
    part->field = strdup(field);
    part->name = name ? strdup(name) : NULL;
    intake->parts[intake->n_parts++] = part;
    if (!part->field || (name && !part->name))
        return no_memory(err);
    r = ck_data_dir_temporary(&daemon->data, &fd, err);
    if (r < 0)
        return r;
    r = ck_upload_new(daemon->hasher, fd, upload_ready, part, &part->upload, err);
    if (r < 0) {
        ck_data_dir_discard(fd);
        return r;
    }
    ck_upload_set_writeback(part->upload, intake->writeback);
    /* Blocks that are there already are filled a sixth faster. A disk that is full is found when it is written to. */
    if (intake->way == CK_WAY_RAW && intake->terms->length_known && intake->terms->length > 0)
        intake->reserved = fallocate(part->upload->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)intake->terms->length) == 0;
    intake->open = part;
    return 0;
}

static int sniff(struct ck_part *part, uint64_t length, struct ck_error *err) {
    char bytes[CK_SNIFF_BYTES];
    ssize_t n;

    part->sniffed = true;
    if (!part->intake->sniff)
        return 0;
    n = pread(part->upload->fd, bytes, sizeof(bytes), 0);
    if (n <= 0)
        return 0; /* the worker will say what is wrong with it */
    (void)ck_sniff(bytes, (size_t)n, length, err);
    return err->code;
}

static int part_write(struct ck_part *part, const char *bytes, size_t n, struct ck_error *err) {
    const struct ck_intake *intake = part->intake;
    int r;

    r = ck_upload_write(part->upload, bytes, n, err);
    if (r < 0)
        return r;
    part->bytes += n;
    if (!part->sniffed && part->bytes >= CK_SNIFF_BYTES)
        r = sniff(part, intake->way == CK_WAY_RAW && intake->terms->length_known ? intake->terms->length : 0, err);
    return r;
}

static bool no_suspend(_unused_ void *ctx) {
    return true; /* nobody has to stop for the digest of a part that is complete */
}

/* No more bytes come for the open part. */
static int close_part(struct ck_intake *intake, struct ck_error *err) {
    struct ck_part *part = intake->open;
    int r = 0;

    if (!part)
        return 0;
    intake->open = NULL;
    if (intake->sniff && part->bytes == 0)
        return ck_error_set(err, CK_E_EMPTY_FILE, part->name,
                            intake->way == CK_WAY_RAW ? "the body is empty" : "the file is empty");
    if (!part->sniffed)
        r = sniff(part, part->bytes, err);
    if (r < 0)
        return r;
    part->finished = true;
    atomic_fetch_add(&intake->pending, 1);
    (void)ck_upload_finish(part->upload, no_suspend);
    return 0;
}

static void part_free(struct ck_part *part) {
    if (part->upload)
        ck_upload_abandon(part->upload);
    free(part->field);
    free(part->name);
    free(part);
}

/* ---- forms ---- */

static int add_to_field(struct ck_intake *intake, const char *name, const char *bytes, size_t n, uint64_t offset,
                        struct ck_error *err) {
    struct ck_field *field;
    char *value;
    size_t used;

    if (offset == 0) {
        if (intake->n_fields == CK_FIELDS_MAX)
            return ck_error_set(err, CK_E_TOO_MANY_FILES, name, "a form may have %d fields besides its files",
                                CK_FIELDS_MAX);
        field = &intake->fields[intake->n_fields];
        *field = (struct ck_field){.name = strdup(name), .value = strdup("")};
        intake->n_fields++;
        if (!field->name || !field->value)
            return no_memory(err);
    }
    field = &intake->fields[intake->n_fields - 1];
    intake->field_bytes += n;
    if (intake->field_bytes > CK_FIELD_BYTES_MAX)
        return ck_error_set(err, CK_E_TOO_MANY_FILES, name,
                            "the fields of a form may have %u bytes together, its files apart", CK_FIELD_BYTES_MAX);
    if (n > 0 && memchr(bytes, 0, n)) {
        ck_error_set(err, CK_E_BAD_REQUEST, name, "the field \"%.64s\" holds a NUL; a file needs a file name", name);
        ck_error_set_hint(
            err, "send the file as curl -F %.64s=@FILE does: with filename=\"...\" in its Content-Disposition", name);
        return CK_E_BAD_REQUEST;
    }
    used = strlen(field->value);
    value = realloc((char *)(uintptr_t)field->value, used + n + 1);
    if (!value)
        return no_memory(err);
    memcpy(value + used, bytes, n);
    value[used + n] = 0;
    field->value = value;
    return 0;
}

static int take_form(struct ck_intake *intake, const char *key, const char *filename, const char *bytes, size_t n,
                     uint64_t offset, struct ck_error *err) {
    int r = 0;

    if (!key || !key[0])
        return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Disposition",
                            "a part of the form has no name=\"...\" (with its quotes)");
    if (offset == 0)
        r = close_part(intake, err);
    if (r < 0)
        return r;
    if (!filename)
        return add_to_field(intake, key, bytes, n, offset, err);
    if (offset == 0 && intake->n_parts == intake->daemon->settings.max_files)
        return ck_error_set(err, CK_E_TOO_MANY_FILES, key, "the form has more than %" PRIu64 " files (--max-files)",
                            intake->daemon->settings.max_files);
    if (offset == 0)
        r = add_part(intake, key, filename, err);
    return r < 0 ? r : part_write(intake->open, bytes, n, err);
}

static enum MHD_Result on_form(void *ctx, _unused_ enum MHD_ValueKind kind, const char *key, const char *filename,
                               _unused_ const char *content_type, _unused_ const char *encoding, const char *data,
                               uint64_t offset, size_t n) {
    struct ck_intake *intake = ctx;

    if (intake->err.code < 0)
        return MHD_NO;
    return take_form(intake, key, filename, data, n, offset, &intake->err) < 0 ? MHD_NO : MHD_YES;
}

static int form_error(struct ck_intake *intake, const char *message, struct ck_error *err) {
    if (intake->err.code) {
        *err = intake->err;
        return err->code;
    }
    return ck_error_set(err, CK_E_BAD_REQUEST, "Content-Type", "%s", message);
}

/* ---- the way of a body ---- */

int ck_intake_begin(struct ck_intake *intake, struct MHD_Connection *connection, struct ck_error *err) {
    atomic_store(&intake->pending, 1);
    ck_buffer_init(&intake->json, intake->terms->most);
    switch (intake->way) {
    case CK_WAY_RAW:
        return add_part(intake, "", NULL, err);
    case CK_WAY_FORM:
        intake->fields = calloc(CK_FIELDS_MAX, sizeof(*intake->fields));
        if (!intake->fields)
            return no_memory(err);
        intake->form = MHD_create_post_processor(connection, FORM_BUFFER, on_form, intake);
        return intake->form ? 0
                            : ck_error_set(err, CK_E_BAD_REQUEST, "Content-Type",
                                           "the form's Content-Type names no usable boundary");
    default:
        return 0;
    }
}

static int too_large(const struct ck_intake *intake, struct ck_error *err) {
    bool json = intake->way == CK_WAY_JSON;

    return ck_error_set(err, CK_E_BODY_TOO_LARGE, NULL,
                        "the %s has more than the %" PRIu64 " bytes that this server takes (%s)",
                        json ? "JSON" : "upload", intake->terms->most, json ? "--max-json" : "--max-upload");
}

/* For ck_upload_throttle(), which knows parts. */
static bool suspend_for(void *ctx) {
    const struct ck_part *part = ctx;

    return part->intake->suspend(part->intake->ctx);
}

int ck_intake_take(struct ck_intake *intake, const char *bytes, size_t n, bool *ret_suspended, struct ck_error *err) {
    *ret_suspended = false;
    if (intake->open && ck_upload_throttle(intake->open->upload, suspend_for)) {
        *ret_suspended = true;
        return 0;
    }
    intake->received += n;
    if (intake->received > intake->terms->most)
        return too_large(intake, err);
    switch (intake->way) {
    case CK_WAY_JSON:
        return ck_buffer_add(&intake->json, bytes, n) ? 0 : no_memory(err);
    case CK_WAY_RAW:
        return part_write(intake->open, bytes, n, err);
    case CK_WAY_FORM:
        return MHD_post_process(intake->form, bytes, n) == MHD_YES ? 0
                                                                   : form_error(intake, "the form is malformed", err);
    default:
        return 0;
    }
}

int ck_intake_end(struct ck_intake *intake, struct ck_error *err) {
    struct MHD_PostProcessor *form = TAKE_PTR(intake->form);

    if (form && MHD_destroy_post_processor(form) != MHD_YES)
        return form_error(intake, "the form ends in the middle", err);
    if (intake->err.code)
        return form_error(intake, "", err);
    if (intake->way == CK_WAY_FORM && intake->received > 0 && intake->n_parts + intake->n_fields == 0)
        return form_error(intake, "the form has no part: none begins with the boundary that Content-Type names", err);
    return close_part(intake, err);
}

/* The throttle's suspend() and ready() pair up; here the connection is suspended by the caller. */
void ck_intake_await(struct ck_intake *intake) {
    one_less(intake);
}

int ck_intake_files(struct ck_intake *intake, struct ck_error *err) {
    intake->files = calloc(intake->n_parts + 1, sizeof(*intake->files));
    if (!intake->files)
        return no_memory(err);
    for (size_t i = 0; i < intake->n_parts; i++) {
        struct ck_part *part = intake->parts[i];
        struct ck_received *file = &intake->files[i];

        if (part->upload->read_error)
            return ck_error_set_errno(err, part->upload->read_error, NULL, "read the upload back");
        *file =
            (struct ck_received){.field = part->field, .name = part->name, .bytes = part->bytes, .spool = part->upload};
        memcpy(file->digest, part->upload->digest, sizeof(file->digest));
        if (intake->terms->digest_given && memcmp(intake->terms->digest, file->digest, sizeof(file->digest)) != 0)
            return ck_error_set(err, CK_E_DIGEST_MISMATCH, NULL,
                                "the %" PRIu64 " bytes that arrived have another sha-256 than the request's head says",
                                part->bytes);
    }
    return 0;
}

void ck_intake_release(struct ck_intake *intake) {
    if (intake->form)
        MHD_destroy_post_processor(intake->form);
    for (size_t i = 0; i < intake->n_parts; i++)
        part_free(intake->parts[i]);
    for (size_t i = 0; i < intake->n_fields; i++) {
        free((char *)(uintptr_t)intake->fields[i].name);
        free((char *)(uintptr_t)intake->fields[i].value);
    }
    free(intake->parts);
    free(intake->files);
    free(intake->fields);
    ck_buffer_release(&intake->json);
    intake->form = NULL;
    intake->parts = NULL;
    intake->files = NULL;
    intake->fields = NULL;
    intake->n_parts = intake->n_fields = 0;
}
