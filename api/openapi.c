#include "api/openapi.h"

#include "api/conditions.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/repr_digest.h"

/* The build names the files: openapi.yaml, and the JSON that it made. */
#define EMBED(symbol, path)                                                                                            \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".globl " #symbol "_begin, " #symbol "_end\n" #symbol "_begin:\n"                                          \
            ".incbin \"" path "\"\n" #symbol "_end:\n"                                                                 \
            ".byte 0\n"                                                                                                \
            ".popsection\n");                                                                                          \
    extern const char symbol##_begin[], symbol##_end[]

EMBED(ck_embedded_yaml, CK_OPENAPI_YAML);
EMBED(ck_embedded_json, CK_OPENAPI_JSON);

static size_t size(const char *begin, const char *end) {
    return (size_t)((uintptr_t)end - (uintptr_t)begin);
}

const char *ck_openapi_yaml(size_t *ret_bytes) {
    *ret_bytes = size(ck_embedded_yaml_begin, ck_embedded_yaml_end);
    return ck_embedded_yaml_begin;
}

static void answer(const struct ck_request *request, const char *type, const char *bytes, size_t n,
                   struct ck_reply *ret_reply) {
    char etag[CK_ETAG_SIZE];
    struct ck_error err = {0};
    int r = ck_query_none(request->query, &err);

    if (r == 0)
        r = ck_etag_of(bytes, n, etag, &err);
    if (r < 0) {
        ck_problem_reply(&err, request->id, false, ret_reply);
        return;
    }
    if (ck_none_match(request, etag)) {
        ck_reply_not_modified(ret_reply, etag);
    } else {
        ck_reply_init(ret_reply, 200, type);
        ck_reply_header(ret_reply, "ETag", "%s", etag);
        ck_reply_static(ret_reply, bytes, n);
    }
    ck_reply_header(ret_reply, "Cache-Control", "no-cache");
}

void ck_answer_openapi_yaml(struct ck_request *request, _unused_ const struct ck_ports *ports,
                            struct ck_reply *ret_reply) {
    size_t n;
    const char *yaml = ck_openapi_yaml(&n);

    answer(request, "application/yaml", yaml, n, ret_reply);
}

void ck_answer_openapi_json(struct ck_request *request, _unused_ const struct ck_ports *ports,
                            struct ck_reply *ret_reply) {
    answer(request, "application/json", ck_embedded_json_begin, size(ck_embedded_json_begin, ck_embedded_json_end),
           ret_reply);
}
