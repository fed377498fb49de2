#include "server/process.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(const struct timeval *time) {
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static double cpu_seconds(void) {
    struct rusage self, children;

    if (getrusage(RUSAGE_SELF, &self) < 0 || getrusage(RUSAGE_CHILDREN, &children) < 0)
        return NAN;
    return seconds(&self.ru_utime) + seconds(&self.ru_stime) + seconds(&children.ru_utime) +
           seconds(&children.ru_stime);
}

static void read_memory(struct ck_process *process) {
    double page = (double)sysconf(_SC_PAGESIZE);
    unsigned long pages, resident;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return;
    if (fscanf(file, "%lu %lu", &pages, &resident) == 2) {
        process->virtual_memory_bytes = (double)pages * page;
        process->resident_memory_bytes = (double)resident * page;
    }
    fclose(file);
}

static double open_fds(void) {
    DIR *stream = opendir("/proc/self/fd");
    double n = -3; /* ".", ".." and the stream's own */

    if (!stream)
        return NAN;
    while (readdir(stream))
        n++;
    closedir(stream);
    return n;
}

static double max_fds(void) {
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (double)limit.rlim_cur : NAN;
}

static double boot_time(void) {
    FILE *file = fopen("/proc/stat", "re");
    char line[8192];
    double time = NAN;

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "btime %lf", &time) == 1)
            break;
    if (file)
        fclose(file);
    return time;
}

/* The 22nd field of /proc/self/stat counts ticks since the machine started (proc(5)); the name, which is in brackets
 * and may hold anything, is passed over from behind. */
static double start_time(void) {
    char text[4096] = "";
    unsigned long long ticks;
    const char *at;
    FILE *file = fopen("/proc/self/stat", "re");

    if (!file)
        return NAN;
    text[fread(text, 1, sizeof(text) - 1, file)] = 0;
    fclose(file);
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, "%llu", &ticks) != 1)
        return NAN;
    return boot_time() + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

void ck_process_read(struct ck_process *ret_process) {
    *ret_process = (struct ck_process){
        .cpu_seconds_total = cpu_seconds(),
        .resident_memory_bytes = NAN,
        .virtual_memory_bytes = NAN,
        .open_fds = open_fds(),
        .max_fds = max_fds(),
        .start_time_seconds = start_time(),
    };
    read_memory(ret_process);
}
