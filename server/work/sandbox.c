#include "server/work/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static void seccomp_releasep(scmp_filter_ctx *filter) {
    if (*filter)
        seccomp_release(*filter);
}

const char *ck_sandbox_name(void) {
    return SANITIZED ? "off (sanitizer)" : "seccomp";
}

int ck_sandbox_begin(struct ck_error *err) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        (!SANITIZED && prctl(PR_SET_DUMPABLE, 0) < 0))
        return ck_error_set_errno(err, errno, NULL, "give up the worker's privileges");
    return 0;
}

static int limit(int what, uint64_t soft, uint64_t hard, const char *doing, struct ck_error *err) {
    struct rlimit now, wanted;

    if (getrlimit((__rlimit_resource_t)what, &now) < 0)
        return ck_error_set_errno(err, errno, NULL, doing);
    /* A tighter limit that is already there stays. */
    wanted.rlim_max = CK_MIN(now.rlim_max, (rlim_t)hard);
    wanted.rlim_cur = CK_MIN(wanted.rlim_max, (rlim_t)soft);
    if (setrlimit((__rlimit_resource_t)what, &wanted) < 0)
        return ck_error_set_errno(err, errno, NULL, doing);
    return 0;
}

int ck_sandbox_limit(uint64_t memory, uint64_t cpu, uint64_t file, struct ck_error *err) {
    int r;

    r = limit(RLIMIT_CORE, 0, 0, "forbid core files", err);
    if (r == 0 && !SANITIZED)
        r = limit(RLIMIT_DATA, memory, memory, "limit the worker's memory", err);
    if (r == 0 && !SANITIZED)
        r = limit(RLIMIT_CPU, cpu, cpu + 5, "limit the worker's processor time", err);
    if (r == 0 && !SANITIZED)
        r = limit(RLIMIT_FSIZE, file, file, "limit the size of files", err);
    /* A file beyond its limit shall be an error of write(), not a signal. */
    signal(SIGXFSZ, SIG_IGN);
    return r;
}

/* Everything that the core, libuv's waiting threads, malloc and stdio need while they work on open files. */
static const int allowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(preadv),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pwrite64),
    SCMP_SYS(pwritev),
    SCMP_SYS(lseek),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat), /* glibc's fstat: an empty path, see below */
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(fadvise64),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(sync_file_range),
    SCMP_SYS(close),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sysinfo), /* qsort asks for the size of memory */
    SCMP_SYS(getrandom),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getrusage),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(rseq),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

static int add_rules(scmp_filter_ctx filter) {
    int r = 0;

    for (size_t i = 0; i < CK_ARRAY_LEN(allowed) && r == 0; i++) {
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
        if (r == -EDOM || r == -EINVAL) /* a call that this processor does not have */
            r = 0;
    }
    /* Memory, but never executable. */
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                             SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    /* abort() and raise() send a signal to this process; nobody else can be reached. */
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                             SCMP_A0_32(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, SCMP_A1_32(SCMP_CMP_EQ, F_GETFL, 0));
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return r;
}

int ck_sandbox_close(struct ck_error *err) {
    _cleanup_(seccomp_releasep) scmp_filter_ctx filter = NULL;
    int r;

    if (SANITIZED)
        return 0;
    filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!filter)
        return ck_error_set(err, CK_E_IO, NULL,
                            "the worker process could not be locked in: seccomp is not permitted here");
    r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (r == 0)
        r = add_rules(filter);
    /* The limit on descriptors comes last: the filter itself may need one while it is loaded. */
    if (r == 0)
        r = limit(RLIMIT_NOFILE, 0, 0, "forbid new files", err);
    if (r == 0)
        r = seccomp_load(filter);
    if (r < 0)
        return ck_error_set_errno(err, -r, NULL, "put the worker under its filter");
    return 0;
}

int ck_sandbox_check(struct ck_error *err) {
    uint32_t action = SECCOMP_RET_KILL_PROCESS;

    if (SANITIZED || syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
        return 0;
    ck_error_set(err, CK_E_IO, NULL, "worker processes cannot be locked in: seccomp is not permitted here (%s)",
                 strerror(errno));
    ck_error_set_hint(err, "allow the system call seccomp in the service's or container's own filter");
    return CK_E_IO;
}
