/* server/http/intake.h: the body of one request on its way in: JSON into memory, files into nameless files whose digests are taken behind the
 * writing, fields of forms into memory.
 *
 * One epoll thread feeds it. The digests come from the hashers; when the body is over and the last digest is there, complete() is called, on
 * whichever thread that was. */
#ifndef CK_SERVER_HTTP_INTAKE_H
#define CK_SERVER_HTTP_INTAKE_H

#include <microhttpd.h>

#include "api/body_head.h"
#include "server/daemon.h"

#define CK_FIELDS_MAX      64        /* fields of a form that are no files */
#define CK_FIELD_BYTES_MAX (1u << 20) /* bytes of all of them together: the largest option is 64 KiB */

struct ck_part; /* one file */

struct ck_intake {
    struct ck_daemon *daemon;
    enum ck_body_way way;
    const struct ck_body_terms *terms; /* borrowed */
    bool sniff;                        /* refuse at its first bytes what is no checkpoint */
    bool writeback;                    /* the file will be made durable: let the disk begin early */
    /* complete(ctx): every byte and digest is there. resume(ctx): a throttled body may go on. suspend(ctx): false if that is not possible any more. */
    void (*complete)(void *ctx);
    void (*resume)(void *ctx);
    bool (*suspend)(void *ctx);
    void *ctx;

    uint64_t received; /* bytes of the message */
    bool reserved;     /* the disk holds room for all of it already */
    struct ck_buffer json;
    struct MHD_PostProcessor *form;
    struct ck_part **parts; /* owned */
    size_t n_parts;
    struct ck_part *open; /* the part that bytes go to, or NULL */
    struct ck_received *files; /* of parts; owned; filled by ck_intake_files() */
    struct ck_field *fields;   /* owned, texts too */
    size_t n_fields, field_bytes;
    atomic_uint pending; /* digests to come, and one for the body itself */
    struct ck_error err; /* of the form's callbacks */
};

/* Makes what the body's way needs. connection: for the form's boundary. Returns 0, CK_E_IO, CK_E_STORAGE_FULL, CK_E_BAD_REQUEST, CK_E_OUT_OF_MEMORY. */
int ck_intake_begin(struct ck_intake *intake, struct MHD_Connection *connection, struct ck_error *err);

/* Takes n bytes. *ret_suspended: it took none, the connection was suspended until the hashers have caught up; offer them again.
 * Returns 0, CK_E_BODY_TOO_LARGE, CK_E_TOO_MANY_FILES, CK_E_BAD_REQUEST, CK_E_STORAGE_FULL, CK_E_IO, and what the sniff says. */
int ck_intake_take(struct ck_intake *intake, const char *bytes, size_t n, bool *ret_suspended, struct ck_error *err);

/* The body is over: checks that it is whole. Returns 0, CK_E_EMPTY_FILE, CK_E_BAD_REQUEST (a form that ends early), and what the sniff says. */
int ck_intake_end(struct ck_intake *intake, struct ck_error *err);

/* After ck_intake_end(), the connection suspended: complete() follows. */
void ck_intake_await(struct ck_intake *intake);

/* After complete(): checks digests, and fills `files`. Returns 0, CK_E_DIGEST_MISMATCH, CK_E_IO. */
int ck_intake_files(struct ck_intake *intake, struct ck_error *err);

/* Gives everything back at any time; complete() and resume() are not called any more. Accepts a zeroed one. */
void ck_intake_release(struct ck_intake *intake);

#endif
