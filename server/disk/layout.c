#include "server/disk/layout.h"

#include <string.h>

#include "api/store.h"

bool ck_layout_is_digest(const char *text) {
    return strspn(text, "0123456789abcdef") == 64 && !text[64];
}

bool ck_layout_is_job(const char *text) {
    if (strlen(text) != CK_JOB_ID_SIZE - 1)
        return false;
    for (size_t i = 0; text[i]; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
            return false;
    }
    return true;
}

bool ck_layout_is_result_name(const char *text) {
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return n > 0 && n < sizeof((struct ck_job_file){0}.name) && !text[n] && text[0] != '.';
}

int ck_layout_open(const struct ck_data_dir *data, int *ret_blobs, int *ret_jobs, struct ck_error *err) {
    _cleanup_(ck_closep) int parent = -1, blobs = -1, jobs = -1;
    int r = ck_data_dir_folder(data->root, "blobs", &parent, err);

    if (r == 0)
        r = ck_data_dir_folder(parent, "sha256", &blobs, err);
    if (r == 0)
        r = ck_data_dir_folder(data->root, "jobs", &jobs, err);
    if (r == 0)
        r = ck_data_dir_sync(parent, err);
    if (r == 0)
        r = ck_data_dir_sync(data->root, err);
    if (r < 0)
        return r;
    *ret_blobs = TAKE_FD(blobs);
    *ret_jobs = TAKE_FD(jobs);
    return 0;
}
