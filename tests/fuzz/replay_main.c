/* Feeds files to a fuzz target without libFuzzer: each path of argv that is a file, and each file in a path that is a
 * directory. A corpus that does not exist is no error, so that a new target can be built before it has one. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes are copied into a block of exactly their size, so that a sanitizer sees the first byte read past the end.
 */
static int replay_file(const char *path, size_t bytes) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(bytes > 0 ? bytes : 1);
    int ok = file && data && fread(data, 1, bytes, file) == bytes;

    if (ok)
        LLVMFuzzerTestOneInput(data, bytes);
    else
        fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
    free(data);
    if (file)
        fclose(file);
    return ok ? 1 : -1;
}

/* Returns how many files were fed, or -1. */
static int replay(const char *path) {
    struct dirent **entries;
    struct stat st;
    int fed = 0, n;

    if (stat(path, &st) < 0) {
        printf("%s: absent, nothing to replay\n", path);
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (size_t)st.st_size);
    n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char below[4096];
        int more = 0;

        snprintf(below, sizeof(below), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            more = replay(below);
        free(entries[i]);
        fed = more < 0 || fed < 0 ? -1 : fed + more;
    }
    if (n >= 0)
        free(entries);
    return n < 0 ? -1 : fed;
}

int main(int argc, char **argv) {
    int status = 0;

    for (int i = 1; i < argc; i++) {
        int fed = replay(argv[i]);

        if (fed < 0)
            status = 1;
        else
            printf("%s: %d inputs replayed\n", argv[i], fed);
    }
    return status;
}
