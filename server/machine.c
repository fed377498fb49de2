#include "server/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"

uint64_t ck_machine_processors(void) {
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint64_t)CPU_COUNT(&set) : 1;
}

/* The number in a file, or UINT64_MAX: "max", no such file, anything else. */
static uint64_t read_limit(const char *path) {
    unsigned long long value = UINT64_MAX;
    FILE *file = fopen(path, "re");

    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%llu", &value) != 1)
        value = UINT64_MAX;
    fclose(file);
    return value;
}

/* group: "/a/b". In a container the kernel may name a group by its path outside of it, where nothing is mounted: the
 * way up to the mount's own top finds the limit then, too. */
static uint64_t least_limit(const char *mount, const char *group, const char *file) {
    size_t n = strlen(group);
    uint64_t least = UINT64_MAX;

    for (;;) {
        _cleanup_(ck_freep) char *path = NULL;
        uint64_t limit;

        if (asprintf(&path, "%s%.*s/%s", mount, (int)n, group, file) < 0)
            return least;
        limit = read_limit(path);
        least = CK_MIN(least, limit);
        if (n == 0)
            return least;
        while (n > 0 && group[--n] != '/')
            ;
    }
}

/* True if the comma-separated list of controllers holds "memory". */
static bool has_memory(const char *controllers) {
    static const char word[] = "memory";

    for (const char *at = controllers; (at = strstr(at, word)) != NULL; at++)
        if ((at == controllers || at[-1] == ',') && (at[sizeof(word) - 1] == ',' || at[sizeof(word) - 1] == 0))
            return true;
    return false;
}

/* Lines of /proc/self/cgroup are ID:CONTROLLERS:PATH (cgroups(7)); version 2 has 0 and no controllers. */
static uint64_t group_memory(const char *root) {
    char path[4096], line[4096];
    uint64_t least = UINT64_MAX;
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        char mount[4200];
        bool second;
        uint64_t limit;

        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        second = controllers[1] == 0;
        if (!second && !has_memory(controllers + 1))
            continue;
        snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s", root, second ? "" : "/memory");
        limit = least_limit(mount, group, second ? "memory.max" : "memory.limit_in_bytes");
        least = CK_MIN(least, limit);
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t ck_machine_memory(const char *root) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), group = group_memory(root);

    return CK_MIN(machine, group);
}
