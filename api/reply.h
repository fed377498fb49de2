/* api/reply.h: an answer, before it meets a socket: status, headers, and a body of one of four kinds, or the wish to wait. */
#ifndef CK_API_REPLY_H
#define CK_API_REPLY_H

#include "core/base/buffer.h"
#include "core/output/zip_layout.h"

#define CK_REPLY_HEADERS_MAX 24
#define CK_REPLY_BODY_MAX    (8u << 20) /* bytes of a composed body */
#define CK_JOB_ID_SIZE       37         /* UUIDv7 and NUL */

struct ck_reply_header {
    const char *name;  /* static storage */
    char       *value; /* owned */
};

enum ck_reply_kind {
    CK_REPLY_TEXT,   /* body */
    CK_REPLY_STATIC, /* bytes that live as long as the process */
    CK_REPLY_FILE,   /* a range of a file */
    CK_REPLY_ZIP,    /* a range of a zip that is laid out and never written */
    CK_REPLY_WAIT,   /* no answer yet: suspend, then call the handler again with request->waited set */
};

/* Wait for a job. */
struct ck_reply_wait {
    char     job[CK_JOB_ID_SIZE];
    bool     until_finished; /* else until its version differs from `version` */
    uint64_t version;        /* the one that the handler saw: a change before the wait begins ends it at once */
    int64_t  seconds;        /* at most so long; 0: without end */
    bool     cancel_when_gone; /* cancel the job if the client leaves */
};

struct ck_reply {
    int                    status;
    enum ck_reply_kind     kind;
    struct ck_buffer       body;                 /* TEXT */
    const char            *bytes;                /* STATIC */
    int                    fd;                   /* FILE: owned; valid only with kind CK_REPLY_FILE */
    struct ck_zip_layout   zip;                  /* ZIP: owned */
    int                   *zip_files;            /* ZIP: owned descriptors of its files */
    size_t                 n_zip_files;
    uint64_t               offset, length;       /* STATIC, FILE, ZIP: what is sent */
    struct ck_reply_wait   wait;                 /* WAIT */
    struct ck_reply_header headers[CK_REPLY_HEADERS_MAX];
    size_t                 n_headers;
    int                    code;   /* CK_E_* of a problem, for logs and metrics; 0 */
    bool                   broken; /* memory ran out while it was composed: it must not be sent */
};

/* An empty text answer. content_type may be NULL (204, 304). */
void ck_reply_init(struct ck_reply *reply, int status, const char *content_type);

/* Turns an initialised reply into one of the other kinds. file and zip take their arguments, whatever happens. */
void ck_reply_static(struct ck_reply *reply, const char *bytes, size_t n);
void ck_reply_file(struct ck_reply *reply, int fd, uint64_t offset, uint64_t length);
void ck_reply_zip(struct ck_reply *reply, struct ck_zip_layout *zip, int *files, size_t n_files, uint64_t offset, uint64_t length);
void ck_reply_wait_for(struct ck_reply *reply, const struct ck_reply_wait *wait);

/* Adds a header; control characters in the value become '_', so that no text of a client can add a line. */
void ck_reply_header(struct ck_reply *reply, const char *name, const char *format, ...) _printf_(3, 4);

/* Appends to the body. */
void ck_reply_printf(struct ck_reply *reply, const char *format, ...) _printf_(2, 3);

/* The value of a header, or NULL. Borrowed. */
const char *ck_reply_find(const struct ck_reply *reply, const char *name);

/* Bytes that the answer's body has. */
uint64_t ck_reply_length(const struct ck_reply *reply);

/* Accepts a zeroed reply. */
void ck_reply_release(struct ck_reply *reply);

#endif
