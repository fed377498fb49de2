/* base/error.h: the one list of errors, and the record that a failing function fills.
 *
 * From the list come the enum, the problem documents (RFC 9457), the documentation and the test that every code can be
 * reached. Names are stable for ever: clients match on them.
 *
 * Functions return 0 or a negative CK_E_* code; the code and the place are also in the struct ck_error that they were given.
 * The first error wins: ck_error_set() on a record that already holds one changes nothing. */
#ifndef CK_BASE_ERROR_H
#define CK_BASE_ERROR_H

#include "core/base/macros.h"

/* Classes: request (the caller asked for something wrong), document (this file cannot be done), limit (a bound of this server,
 * the setting is named), busy (come back), worker (the process that read the file died), server (our fault or our disk). */
#define CK_ERRORS(X)                                                                                                                                     \
    /* NAME                       class     http retry  title                                              hint */                                        \
    X(BAD_REQUEST,                request,  400, false, "the request is malformed",                        "compare the command with the examples that GET / prints") \
    X(BAD_OPTION,                 request,  400, false, "an option is unknown or has a wrong value",       "the README lists every option with its values")  \
    X(BAD_RULE,                   request,  400, false, "a layer or rule does not fit its tensor",         "correct the pattern or the class named in layers= or rules=") \
    X(BAD_JSON,                   request,  400, false, "the body is not the JSON that is expected",       "compare the body with the example of this path in /openapi.yaml") \
    X(UNKNOWN_MEMBER,             request,  400, false, "the JSON has a member that is not known",         "the message names the nearest one; /openapi.yaml lists all") \
    X(BAD_CURSOR,                 request,  400, false, "the cursor is not one of ours",                   "take next_cursor of the page before, unchanged") \
    X(MISSING_FILE,               request,  400, false, "no file came with the request",                   "send one: -T FILE, or -F file=@FILE, or -F digest=sha256:HEX of a blob") \
    X(UNSUPPORTED_TARGET,         request,  400, false, "unknown target format",                           "use one of the targets that the message lists")  \
    X(UNSUPPORTED_QUANT,          request,  400, false, "unknown quantization",                            "use one of the quantizations that the message lists, or none") \
    X(NOT_FOUND,                  request,  404, false, "nothing is served under this path",               "GET / lists the paths")                          \
    X(JOB_NOT_FOUND,              request,  404, false, "there is no such job",                            "GET /v1/jobs lists the jobs; records are forgotten after --record-ttl") \
    X(BLOB_NOT_FOUND,             request,  404, false, "there is no such blob",                           "upload it: curl -T FILE .../v1/blobs; unused blobs are removed after --input-ttl") \
    X(RESULT_NOT_FOUND,           request,  404, false, "the job has no such result",                      "GET /v1/jobs/ID/results lists what it has") \
    X(MATRIX_NOT_FOUND,           request,  404, false, "there is no such matrix",                         "GET /v1/matrix lists them") \
    X(INPUT_NOT_FOUND,            request,  422, false, "an input of the job is not stored here",          "upload it to /v1/blobs first, then name its digest") \
    X(RESULTS_EXPIRED,            request,  410, false, "the results of the job were removed",             "POST /v1/jobs/ID/retry makes them again while the input is stored; --result-ttl sets how long results stay") \
    X(JOB_NOT_FINISHED,           request,  409, true,  "the job is not finished",                         "GET /v1/jobs/ID?wait=60 waits for it") \
    X(JOB_FINISHED,               request,  409, false, "the job is finished already",                     "there is nothing left to cancel") \
    X(JOB_NOT_RETRYABLE,          request,  409, false, "the job cannot be retried",                       "only failed, cancelled, dead and expired jobs can be") \
    X(BLOB_IN_USE,                request,  409, true,  "a job needs the blob",                            "wait for the job or cancel it") \
    X(NOT_ACCEPTABLE,             request,  406, false, "the answer has no such media type",               "leave out Accept, or name one of the types that the message lists") \
    X(RANGE_NOT_SATISFIABLE,      request,  416, false, "the range begins beyond the end",                 "Content-Range of the answer has the size; with curl -C - the file may be complete already") \
    X(UNSUPPORTED_MEDIA,          request,  415, false, "the body has a Content-Type that this path does not take", "the message names those it takes") \
    X(METHOD_NOT_ALLOWED,         request,  405, false, "this path does not take that method",             "the Allow header lists the methods")             \
    X(FORBIDDEN,                  request,  403, false, "the caller may not do this",                      "call the daemon by its own address with a key that has the scope, not from a web page of another site") \
    X(UNAUTHENTICATED,            request,  401, false, "no valid key was sent",                           "send Authorization: Bearer KEY; ckptd key NAME makes one") \
    X(BODY_STALLED,               request,  408, true,  "the upload stopped",                              "send the file again; --upload-timeout sets how long a silent client is kept") \
    X(DIGEST_MISMATCH,            request,  422, true,  "the body does not have the digest that was sent", "send the file again; it was changed on the way or the digest is of another file") \
    X(BODY_TOO_LARGE,             limit,    413, false, "the upload is larger than this server takes",     "raise --max-upload")                             \
    X(TOO_MANY_FILES,             limit,    413, false, "the form has more files or fields than this server takes", "send fewer, or raise the setting that the message names") \
    X(TOO_MANY_OUTPUT_FILES,      limit,    413, false, "the result has more files than this server makes", "raise max_shard_size")                          \
    X(EMPTY_FILE,                 document, 422, false, "the file is empty",                               "send the checkpoint itself")                     \
    X(NOT_A_CHECKPOINT,           document, 415, false, "the file is not a checkpoint",                    "send what torch.save or safetensors wrote")      \
    X(UNSUPPORTED_FORM,           document, 415, false, "the file is of a kind that is not read",          "the message says what the file is and what to do instead") \
    X(ARCHIVE_CORRUPT,            document, 422, false, "the archive is damaged",                          "the file is cut off or damaged; compare its size with the original") \
    X(ARCHIVE_UNSAFE,             document, 422, false, "the archive can be read in two ways",             "write it again with torch.save; torch never makes such a file") \
    X(PICKLE_CORRUPT,             document, 422, false, "the pickle in the file is damaged",               "the file is cut off or damaged; compare its size with the original") \
    X(PICKLE_LIMIT,               limit,    422, false, "the pickle exceeds a limit",                      "raise the limit that the message names, if the file can be trusted") \
    X(HEADER_CORRUPT,             document, 422, false, "the header of the file is damaged",               "the file is cut off or damaged; compare its size with the original") \
    X(TRUNCATED,                  document, 422, false, "the file ends too early",                         "the file is cut off; compare its size with the original") \
    X(TENSOR_OUT_OF_BOUNDS,       document, 422, false, "a tensor lies outside its storage",               "the file is cut off or damaged; compare its size with the original") \
    X(TENSOR_LIMIT,               limit,    422, false, "the model exceeds a limit",                       "raise the limit that the message names, if the file can be trusted") \
    X(OUTPUT_LIMIT,               limit,    422, false, "the result would be far larger than the upload",  "raise the limit that the message names, if the file can be trusted") \
    X(NO_TENSORS,                 document, 422, false, "the file holds no tensors",                       "send the file that holds the weights")           \
    X(AMBIGUOUS_STATE_DICT,       document, 422, false, "several sets of weights are equally good",        "name one with the option state_dict=PATH")       \
    X(STATE_DICT_NOT_FOUND,       document, 422, false, "the option state_dict names no set of weights",   "the message lists the paths that hold tensors")  \
    X(AMBIGUOUS_MEMBER,           document, 422, false, "several files in the archive are equally good",   "name one with the option member=PATH")           \
    X(MEMBER_NOT_FOUND,           document, 422, false, "the option member names no file of the archive",  "the message lists the files; leave the option out for what is no archive of files") \
    X(SHARDS_MISMATCH,            document, 422, false, "the shards do not make one whole model",          "send all shards of one save, and the index that was saved with them") \
    X(AMBIGUOUS_LAYOUT,           document, 422, false, "the layout cannot be told from the file",         "answer the questions with the option layers=")   \
    X(ASSUMPTION_REFUSED,         document, 422, false, "a layer would have to be assumed",                "name the layers with the option layers=, or leave out assume=never") \
    X(UNSUPPORTED_LAYER,          document, 422, false, "a layer has no equal in the target",              "rules=PATTERN:identity passes its tensors through unchanged") \
    X(UNSUPPORTED_DTYPE,          document, 422, false, "a tensor has a dtype that the target cannot hold", "rules=PATTERN:drop leaves the tensor out")      \
    X(UNSUPPORTED_TENSOR,         document, 422, false, "a tensor of this kind is not converted",          "rules=PATTERN:drop leaves the tensor out")       \
    X(NAME_CLASH,                 document, 422, false, "two tensors would get the same name",             "rename one of them before saving")               \
    X(FINDINGS_REFUSED,           document, 422, false, "the pickle of the file names what it should not",  "do not load the file with torch.load; on_findings=report converts it all the same, which runs nothing") \
    X(ALREADY_CONVERTED,          document, 422, false, "the file is already in MLX layout",               "input_layout=mlx keeps its layout, input_layout=torch converts it all the same") \
    X(FOREIGN_LAYOUT,             document, 422, false, "the weights are in another framework's layout",   "the target safetensors takes them as they are; input_layout=torch converts them as if they were torch's") \
    X(WORKER_CRASHED,             worker,   422, false, "the worker process that read this file crashed",  "please report the file; nothing else was harmed") \
    X(WORKER_OOM,                 worker,   422, false, "the worker process ran out of its memory",        "raise --worker-memory")                          \
    X(WORKER_TIMEOUT,             worker,   422, false, "the worker process took too long",                "raise --worker-silence or --worker-cpu")         \
    X(WORKER_KILLED,              worker,   503, true,  "the worker process was killed from outside",      "try again; if it happens again, the machine or the container may be short of memory") \
    X(ATTEMPTS_EXHAUSTED,         worker,   503, true,  "every attempt at the job was lost",               "look at the log for what killed the daemon or its workers, then retry the job") \
    X(CANCELLED,                  worker,   409, true,  "the job was cancelled",                           "POST /v1/jobs/ID/retry starts it again")                                 \
    X(CLIENT_GONE,                request,  499, true,  "the client closed the connection",                "only logs show this") \
    X(QUEUE_FULL,                 busy,     429, true,  "too many jobs are waiting",                       "try again after the time in Retry-After, or raise --queue") \
    X(DRAINING,                   busy,     503, true,  "the daemon is shutting down",                     "try again after the time in Retry-After")        \
    X(STORE_UNAVAILABLE,          busy,     503, true,  "the job store does not answer",                   "try again after the time in Retry-After; readyz and the log say what is wrong") \
    X(STORAGE_FULL,               server,   507, true,  "the disk is full",                                "free space under the data directory")            \
    X(VERIFY_FAILED,              server,   500, true,  "the written file is not what was planned",        "check the disk, then start the job again")       \
    X(IO,                         server,   500, true,  "a file could not be read or written",             "see the message; check the disk")                \
    X(OUT_OF_MEMORY,              server,   500, true,  "out of memory",                                   "give the process more memory")                   \
    X(INTERNAL,                   server,   500, true,  "something is wrong with ckptd itself",            "please report it with the request id")

enum ck_code {
    CK_OK = 0,
#define X(name, class_, http, retry, title, hint) CK_ENUM_##name,
    CK_ENUM_FIRST_ = CK_OK,
    CK_ERRORS(X) CK_ENUM_END_
#undef X
};

/* The codes as functions return them: negative, so that `if (r < 0)` is the one test. */
enum {
#define X(name, class_, http, retry, title, hint) CK_E_##name = -CK_ENUM_##name,
    CK_ERRORS(X)
#undef X
};

enum ck_error_class {
    CK_CLASS_request,
    CK_CLASS_document,
    CK_CLASS_limit,
    CK_CLASS_busy,
    CK_CLASS_worker,
    CK_CLASS_server,
};

struct ck_error_row {
    const char         *name; /* lower case, as clients see it: "ambiguous_layout" */
    enum ck_error_class class_;
    int                 http; /* status of the problem document */
    bool                retryable;
    const char         *title, *hint;
};

struct ck_error {
    int  code;          /* 0 or CK_E_*; a zeroed record holds no error */
    char message[1024]; /* one sentence: what is wrong, with the numbers */
    char where[512];    /* tensor, archive entry, option, path; "" if there is no place */
    char hint[512];     /* what to do; "" means the row's general hint */
    char details[8192]; /* a JSON value for clients (the questions of ambiguous_layout), or "" */
};

/* Fills err unless it already holds an error or is NULL. `where` may be NULL; both texts are cut to fit on a character border.
 * Returns code, so that `return ck_error_set(...)` is the usual form. */
int ck_error_set(struct ck_error *err, int code, const char *where, const char *format, ...) _printf_(4, 5);

/* The same from errno: no space (ENOSPC, EDQUOT) becomes CK_E_STORAGE_FULL, ENOMEM CK_E_OUT_OF_MEMORY, else CK_E_IO.
 * `doing` completes "cannot ..." ("write model.safetensors"). */
int ck_error_set_errno(struct ck_error *err, int errno_value, const char *where, const char *doing);

/* Replaces the row's general hint by a better one, if err holds an error. */
void ck_error_set_hint(struct ck_error *err, const char *format, ...) _printf_(2, 3);

/* The row of a negative code; the row of CK_E_INTERNAL for anything that is no code. Static storage. */
const struct ck_error_row *ck_error_row(int code);

/* The negative code with that lower-case name, or 0. */
int ck_error_by_name(const char *name);

/* The hint that a client should see: the record's own, or its row's. */
const char *ck_error_hint(const struct ck_error *err);

#endif
