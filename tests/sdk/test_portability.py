"""Every module starts on a Python that lacks what only POSIX has: a simulation, on Linux."""

from __future__ import annotations

import pytest
from hushdoc_processes import in_python

IMPORT_ALL = """
import importlib.util, os, pkgutil, select, signal, socket, sys
for name in sys.argv[2:]:  # other people's packages may use what their own system has
    importlib.import_module(name)
MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
LACKING = {
    os: (
        "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "chown", "chroot",
        "fchdir", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid",
        "getgroups", "getloadavg", "getpgid", "getuid", "killpg", "lchown", "memfd_create",
        "mkfifo", "mknod", "nice", "openpty", "posix_spawn", "pread", "pwrite", "register_at_fork",
        "sched_getaffinity", "sched_setaffinity", "sendfile", "setsid", "setuid", "statvfs",
        "sysconf", "uname", "wait", "wait3", "wait4",
    ),
    select: ("epoll", "poll"),
    signal: ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "alarm", "pthread_sigmask", "setitimer"),
    socket: ("AF_UNIX", "recv_fds", "send_fds", "socketpair"),
}
for name in MODULES:
    sys.modules[name] = None
for module, names in LACKING.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for found in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
    found.clear()
package = importlib.import_module(sys.argv[1])
names = [item.name for item in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    if not name.startswith("hushdoc.server.") or importlib.util.find_spec("fastapi"):
        importlib.import_module(name)
if sys.argv[1] == "hushdoc":
    from hushdoc.commands.command_line import build_parser
    build_parser()
    from hushdoc.system.cores import usable_cores
    assert usable_cores() >= 1
print(len(names))
"""

ELSEWHERE = {
    "hushdoc": "subprocess tempfile multiprocessing asyncio concurrent.futures getpass numpy nacl "
    "nacl.bindings mmh3 cryptography PIL.Image onnxruntime tokenizers",
    "hushdoc_export": "torch onnx onnxruntime transformers",
}


@pytest.mark.parametrize("package", ELSEWHERE)
def test_every_module_is_imported_without_what_posix_alone_has(package: str) -> None:
    if package == "hushdoc_export":
        pytest.importorskip("torch")
    assert int(in_python(IMPORT_ALL, package, *ELSEWHERE[package].split()).stdout) > 10
