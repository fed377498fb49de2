#include "server/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/macros.h"

/* A limit of one control group, read from its folder; UINT64_MAX: none, no such file, anything else. */
typedef uint64_t (*read_fn)(const char *folder);

static FILE *open_in(const char *folder, const char *name) {
    _cleanup_(ck_freep) char *path = NULL;

    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : fopen(path, "re");
}

static uint64_t read_number(const char *folder, const char *name) {
    unsigned long long value = UINT64_MAX;
    FILE *file = open_in(folder, name);

    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%llu", &value) != 1)
        value = UINT64_MAX; /* "max" */
    fclose(file);
    return value;
}

static uint64_t memory_1(const char *folder) {
    return read_number(folder, "memory.limit_in_bytes");
}

static uint64_t memory_2(const char *folder) {
    return read_number(folder, "memory.max");
}

/* Processors that a quota of time in each period comes to, rounded up. */
static uint64_t processors(uint64_t quota, uint64_t period) {
    return quota == 0 || quota > INT64_MAX || period == 0 || period > INT64_MAX ? UINT64_MAX : (quota - 1) / period + 1;
}

/* No quota is -1, which no number of this kind can be. */
static uint64_t cpu_1(const char *folder) {
    return processors(read_number(folder, "cpu.cfs_quota_us"), read_number(folder, "cpu.cfs_period_us"));
}

/* "QUOTA PERIOD" or "max PERIOD". */
static uint64_t cpu_2(const char *folder) {
    unsigned long long quota = 0, period = 0;
    FILE *file = open_in(folder, "cpu.max");

    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%llu %llu", &quota, &period) != 2)
        quota = 0;
    fclose(file);
    return processors(quota, period);
}

/* group: "/a/b". In a container the kernel may name a group by its path outside of it, where nothing is mounted: the
 * way up to the mount's own top finds the limit then, too. */
static uint64_t least_limit(const char *mount, const char *group, read_fn read) {
    size_t n = strlen(group);
    uint64_t least = UINT64_MAX;

    for (;;) {
        _cleanup_(ck_freep) char *folder = NULL;
        uint64_t limit;

        if (asprintf(&folder, "%s%.*s", mount, (int)n, group) < 0)
            return least;
        limit = read(folder);
        least = CK_MIN(least, limit);
        if (n == 0)
            return least;
        while (n > 0 && group[--n] != '/')
            ;
    }
}

/* True if the comma-separated list of controllers holds the word. */
static bool has_word(const char *controllers, const char *word) {
    size_t n = strlen(word);

    for (const char *at = controllers; (at = strstr(at, word)) != NULL; at++)
        if ((at == controllers || at[-1] == ',') && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

/* Lines of /proc/self/cgroup are ID:CONTROLLERS:PATH (cgroups(7)); version 2 has 0 and no controllers. */
static uint64_t group_limit(const char *root, const char *controller, read_fn version_1, read_fn version_2) {
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
        if (!second && !has_word(controllers + 1, controller))
            continue;
        snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s%s", root, second ? "" : "/", second ? "" : controller);
        limit = least_limit(mount, group, second ? version_2 : version_1);
        least = CK_MIN(least, limit);
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t ck_machine_processors(const char *root) {
    uint64_t quota = group_limit(root, "cpu", cpu_1, cpu_2), allowed = 1;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        allowed = (uint64_t)CPU_COUNT(&set);
    return CK_MIN(allowed, quota);
}

uint64_t ck_machine_memory(const char *root) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = group_limit(root, "memory", memory_1, memory_2);

    return CK_MIN(machine, group);
}
