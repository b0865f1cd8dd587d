"""System call numbers, x86_64 and aarch64 side by side, for the calls that the filter treats by name.

A call that is not here is refused. A number of `-` means that the architecture does not have the call.
"""

from __future__ import annotations

from typing import NamedTuple


class Numbers(NamedTuple):
    """One call's number on each architecture; None where there is none."""

    x86_64: int | None
    aarch64: int | None


def _table(text: str) -> dict[str, Numbers]:
    words = text.split()
    rows = zip(words[0::3], words[1::3], words[2::3], strict=True)
    return {name: Numbers(*(None if number == "-" else int(number) for number in numbers)) for name, *numbers in rows}


DESCRIPTORS = _table("""
    read 0 63   write 1 64   close 3 57   close_range 436 436   lseek 8 62   pread64 17 67   pwrite64 18 68
    readv 19 65   writev 20 66   preadv 295 69   pwritev 296 70   preadv2 327 286   pwritev2 328 287   dup 32 23
    dup2 33 -   dup3 292 24   pipe 22 -   pipe2 293 59   fcntl 72 25   ioctl 16 29   flock 73 32   sendfile 40 71
    copy_file_range 326 285
""")

FILES = _table("""
    open 2 -   openat 257 56   creat 85 -   stat 4 -   fstat 5 80   lstat 6 -   newfstatat 262 79   statx 332 291
    statfs 137 43   fstatfs 138 44   access 21 -   faccessat 269 48   faccessat2 439 439   getdents 78 -
    getdents64 217 61   readlink 89 -   readlinkat 267 78   getcwd 79 17   chdir 80 49   fchdir 81 50   mkdir 83 -
    mkdirat 258 34   rmdir 84 -   unlink 87 -   unlinkat 263 35   rename 82 -   renameat 264 38   renameat2 316 276
    link 86 -   linkat 265 37   symlink 88 -   symlinkat 266 36   truncate 76 45   ftruncate 77 46
    fallocate 285 47   fadvise64 221 223   fsync 74 82   fdatasync 75 83   umask 95 166   getxattr 191 8
    lgetxattr 192 9   fgetxattr 193 10   listxattr 194 11   llistxattr 195 12   flistxattr 196 13
""")

# Landlock does not cover these, so they are only for a private root. Without one `shutil.copyfile` works, and
# `shutil.copy`, which copies the mode as well, is refused.
METADATA = _table("""
    chmod 90 -   fchmod 91 52   fchmodat 268 53   fchmodat2 452 452   chown 92 -   fchown 93 55   lchown 94 -
    fchownat 260 54   utime 132 -   utimes 235 -   futimesat 261 -   utimensat 280 88
""")

MEMORY = _table("""
    brk 12 214   mmap 9 222   munmap 11 215   mprotect 10 226   mremap 25 216   madvise 28 233   msync 26 227
    membarrier 324 283
""")

WAITING = _table("""
    poll 7 -   ppoll 271 73   select 23 -   pselect6 270 72   epoll_create 213 -   epoll_create1 291 20
    epoll_ctl 233 21   epoll_wait 232 -   epoll_pwait 281 22   epoll_pwait2 441 441   eventfd 284 -
    eventfd2 290 19   timerfd_create 283 85   timerfd_settime 286 86   timerfd_gettime 287 87   futex 202 98
    pause 34 -   restart_syscall 219 128
""")

SOCKETS = _table("""
    socketpair 53 199   accept 43 202   accept4 288 242   getsockname 51 204   getpeername 52 205
    getsockopt 55 209   setsockopt 54 208   sendto 44 206   recvfrom 45 207   sendmsg 46 211   recvmsg 47 212
    shutdown 48 210
""")

TIME = _table("""
    clock_gettime 228 113   clock_getres 229 114   clock_nanosleep 230 115   nanosleep 35 101   gettimeofday 96 169
    time 201 -   times 100 153   getitimer 36 102   setitimer 38 103   alarm 37 -
""")

SIGNALS = _table("""
    rt_sigaction 13 134   rt_sigprocmask 14 135   rt_sigreturn 15 139   rt_sigpending 127 136
    rt_sigsuspend 130 133   rt_sigtimedwait 128 137   sigaltstack 131 132   kill 62 129   tgkill 234 131
    tkill 200 130
""")

THREADS = _table("""
    clone 56 220   exit 60 93   exit_group 231 94   set_tid_address 218 96   set_robust_list 273 99   rseq 334 293
    arch_prctl 158 -   prctl 157 167   personality 135 92   sched_yield 24 124   sched_getaffinity 204 123
    sched_getparam 143 121   sched_getscheduler 145 120   sched_setscheduler 144 119
    sched_get_priority_max 146 125   sched_get_priority_min 147 126   wait4 61 260   waitid 247 95
""")

# Only where all processes of a session can be found and ended.
PROCESSES = _table("""
    fork 57 -   vfork 58 -   execve 59 221   setsid 112 157   setpgid 109 154
""")

FACTS = _table("""
    getpid 39 172   getppid 110 173   gettid 186 178   getpgid 121 155   getpgrp 111 -   getsid 124 156
    getuid 102 174   geteuid 107 175   getgid 104 176   getegid 108 177   getresuid 118 148   getresgid 120 150
    getgroups 115 158   getrlimit 97 163   setrlimit 160 164   prlimit64 302 261   getrusage 98 165   sysinfo 99 179
    uname 63 160   getcpu 309 168   getrandom 318 278
""")

# Refused like all that is not above, but with an error that makes the caller fall back to something else.
REFUSED_KINDLY = _table("""
    socket 41 198   clone3 435 435   openat2 437 437
""")
