/* server/process.h: what this process uses, for the process_* metrics that every Prometheus client exposes. */
#ifndef CK_SERVER_PROCESS_H
#define CK_SERVER_PROCESS_H

/* name (without process_), type, what. */
#define CK_PROCESS_METRICS(X)                                                                                          \
    X(cpu_seconds_total, COUNTER, "Processor time of this process; its workers count when they ended.")                \
    X(resident_memory_bytes, GAUGE, "Resident memory of this process, without its workers.")                           \
    X(virtual_memory_bytes, GAUGE, "Address space of this process.")                                                   \
    X(open_fds, GAUGE, "Open file descriptors.")                                                                       \
    X(max_fds, GAUGE, "Largest number of open file descriptors.")                                                      \
    X(start_time_seconds, GAUGE, "When this process started, in seconds since 1970.")

struct ck_process {
#define X(name, type, what) double name;
    CK_PROCESS_METRICS(X)
#undef X
};

/* What cannot be found out is NAN. */
void ck_process_read(struct ck_process *ret_process);

#endif
