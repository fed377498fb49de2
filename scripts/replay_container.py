"""The inside of scripts/replay_dockerfile.py: started in namespaces of its own, it becomes the process of a container.

    python3 replay_container.py SPEC.json

SPEC: root, argv, env, cwd, uid, gid; mount: build | run | none (the mounts are there already, as for `docker exec`);
binds: [[source, target]]; writable: targets that stay so; confined: no capability, no new privileges, a filter; group: null
or [folder of the memory control group, where the container finds it].
"""
import ctypes
import json
import os
import signal
import subprocess
import sys

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
LAST_CAPABILITY = 63

# What the container engines' default profile forbids, said the other way round: everything else is allowed.
FORBIDDEN = """
acct add_key bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module fsconfig fsmount
fsopen fspick get_kernel_syms get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp
kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount mount_setattr move_mount move_pages nfsservctl
open_by_handle_at open_tree perf_event_open pivot_root process_vm_readv process_vm_writev query_module quotactl reboot
request_key set_mempolicy setdomainname sethostname setns settimeofday swapoff swapon sysfs syslog umount2 unshare uselib
userfaultfd ustat vhangup
""".split()
NEW_NAMESPACES = 0x7E020000
SCMP_ACT_ALLOW, SCMP_ACT_ERRNO, SCMP_CMP_EQ, SCMP_CMP_MASKED_EQ = 0x7FFF0000, 0x00050000, 4, 7
EPERM, ENOSYS = 1, 38


class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def check(result, what):
    if result < 0:
        raise OSError(f"{what}: {result}")
    return result


def make_filter():
    """Returns a function that puts the calling process under the filter. The library is found before the chroot."""
    lib = ctypes.CDLL("libseccomp.so.2")
    lib.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.seccomp_init(SCMP_ACT_ALLOW))

    def forbid(name, errno, *comparisons):
        call = lib.seccomp_syscall_resolve_name(name.encode())
        if call == -1:  # not known to this version
            return
        array = (Comparison * max(1, len(comparisons)))(*comparisons)
        result = lib.seccomp_rule_add_array(context, ctypes.c_uint32(SCMP_ACT_ERRNO | errno), call, len(comparisons), array)
        if result not in (-22, -33):  # -EINVAL, -EDOM: not a call of this processor
            check(result, f"seccomp rule for {name}")

    for name in FORBIDDEN:
        forbid(name, EPERM)
    for bit in range(32):
        if NEW_NAMESPACES >> bit & 1:
            forbid("clone", EPERM, Comparison(0, SCMP_CMP_MASKED_EQ, 1 << bit, 1 << bit))
    forbid("clone3", ENOSYS)
    forbid("socket", EPERM, Comparison(0, SCMP_CMP_EQ, 40, 0))  # AF_VSOCK
    return lambda: check(lib.seccomp_load(context), "seccomp_load")


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def make_devices(dev):
    mount("-t", "tmpfs", "-o", "mode=755,nosuid,noexec,size=64k", "tmpfs", dev)
    for name in ("null", "zero", "full", "random", "urandom"):
        open(f"{dev}/{name}", "w").close()
        mount("--bind", f"/dev/{name}", f"{dev}/{name}")
    os.mkdir(f"{dev}/pts")
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,nosuid,noexec", "devpts", f"{dev}/pts")
    os.symlink("pts/ptmx", f"{dev}/ptmx")
    os.symlink("/proc/self/fd", f"{dev}/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{dev}/{name}")


def make_mounts(spec):
    root, run = spec["root"], spec["mount"] == "run"
    mount("--make-rprivate", "/")
    mount("--bind", root, root)
    for source, target in spec["binds"]:
        mount("--bind", source, root + target)
        if target not in spec["writable"]:
            mount("-o", "remount,bind,ro,nosuid,nodev", root + target)
    mount("-t", "proc", "-o", "nosuid,nodev,noexec", "proc", f"{root}/proc")
    if spec["group"]:
        folder, target = spec["group"]
        mount("-t", "tmpfs", "-o", "mode=755,nosuid,nodev,noexec,size=64k", "tmpfs", f"{root}/sys")
        os.makedirs(root + target)
        mount("--bind", folder, root + target)
        mount("-o", "remount,bind,ro,nosuid,nodev,noexec", root + target)
        mount("-o", "remount,ro", f"{root}/sys")
    make_devices(f"{root}/dev")
    if run:
        mount("-o", "remount,ro", f"{root}/dev")
        mount("-o", "remount,bind,ro,nosuid", root)


def main():
    with open(sys.argv[1]) as f:
        spec = json.load(f)
    if spec["mount"] != "none":
        make_mounts(spec)
    filter_load = make_filter() if spec["confined"] else None
    libc = ctypes.CDLL(None, use_errno=True)
    os.chroot(spec["root"])
    os.chdir(spec["cwd"])
    os.umask(0o022)
    if spec["confined"]:
        for capability in range(LAST_CAPABILITY + 1):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the kernel's last one
    os.setgroups([])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    if spec["confined"]:
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
        filter_load()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        sys.exit(f"cannot run {spec['argv'][0]}: {error.strerror}")


main()
