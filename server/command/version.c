#include <jansson.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>
#include <zip.h>
#include <zlib.h>

#include "core/base/json_write.h"
#include "core/base/version.h"
#include "server/command/commands.h"
#include "server/work/sandbox.h"

static char build_text[1024];

static void compose(void) {
    _cleanup_(ck_buffer_release) struct ck_buffer buffer = {0};
    struct ck_json json;

    ck_buffer_init(&buffer, sizeof(build_text) - 1);
    ck_json_init(&json, ck_json_sink_buffer, &buffer, NULL);
    ck_json_object_begin(&json);
    ck_json_key_string(&json, "compiler", __VERSION__);
    ck_json_key_string(&json, "sandbox", ck_sandbox_name());
    ck_json_key_string(&json, "libmicrohttpd", MHD_get_version());
    ck_json_key_string(&json, "libuv", uv_version_string());
    ck_json_key_string(&json, "libzip", zip_libzip_version());
    ck_json_key_string(&json, "zlib", zlibVersion());
    ck_json_key_string(&json, "jansson", jansson_version_str());
    ck_json_key_string(&json, "openssl", OpenSSL_version(OPENSSL_VERSION_STRING));
    ck_json_object_end(&json);
    if (ck_json_finish(&json) == 0)
        memcpy(build_text, ck_buffer_text(&buffer), buffer.length + 1);
    else
        memcpy(build_text, "{}", 3);
}

const char *ck_build_json(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, compose);
    return build_text;
}

int ck_cmd_version(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--json") == 0) {
        printf("{\"name\":\"ckptd\",\"version\":\"%s\",\"build\":%s}\n", ck_version(), ck_build_json());
        return 0;
    }
    if (argc > 1) {
        fprintf(stderr, "ckptd version: unknown argument %s; it takes --json\n", argv[1]);
        return CK_EXIT_USAGE;
    }
    printf("ckptd %s\n", ck_version());
    return 0;
}
