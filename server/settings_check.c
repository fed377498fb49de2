/* ckptd serve --check-config: what can be found out about settings without starting anything. */
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

#include "server/keys.h"
#include "server/http/listen.h"
#include "server/settings.h"

static int unusable(const char *path, const char *why, struct ck_error *err) {
    char text[128];

    return ck_error_set(err, CK_E_BAD_OPTION, "data", "--data %.200s: %s: %s", path, why,
                        strerror_r(errno, text, sizeof(text)));
}

static int check_data(const char *path, struct ck_error *err) {
    _cleanup_(ck_freep) char *copy = NULL;
    struct stat info;
    const char *parent;

    if (stat(path, &info) == 0) {
        if (!S_ISDIR(info.st_mode))
            return ck_error_set(err, CK_E_BAD_OPTION, "data", "--data %.200s is not a directory", path);
        return access(path, R_OK | W_OK | X_OK) == 0 ? 0 : unusable(path, "the directory cannot be used", err);
    }
    if (errno != ENOENT)
        return unusable(path, "the directory cannot be used", err);
    copy = strdup(path);
    if (!copy)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    parent = dirname(copy);
    return access(parent, W_OK | X_OK) == 0 ? 0 : unusable(path, "the directory cannot be made", err);
}

int ck_settings_check(const struct ck_settings *settings, struct ck_error *err) {
    _cleanup_(ck_keys_freep) struct ck_keys *keys = NULL;
    int r = 0;

    if (settings->keys_file[0])
        r = ck_keys_read(settings->keys_file, &keys, err);
    if (r == 0)
        r = ck_listen_check(settings->listen, settings->insecure || keys, err);
    if (r == 0)
        r = check_data(settings->data, err);
    return r;
}
