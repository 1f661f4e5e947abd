"""Sockets are counted and refused, whoever asks and however: the proof would catch a sender."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from typing import Any

import pytest
from hushdoc_processes import in_python

from hushdoc.commands import sockets

HEAD = """
import json, os, sys
from dataclasses import asdict
from hushdoc.commands import sockets

def tried(ask):
    try:
        ask()
    except OSError:
        return
    raise SystemExit("a socket was given")

def run():
    {body}
    return 0

print(json.dumps(asdict(sockets.watch(run))))
"""


def watched(body: str, **environment: str) -> dict[str, Any]:
    """Returns what a fresh interpreter tells of a function that it watched."""
    code = HEAD.format(body="\n    ".join(body.strip().splitlines()))
    done = in_python(code, drop=("ORT_DISABLE_TELEMETRY",), environment=environment)
    return json.loads(done.stdout.splitlines()[-1])


def asked(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(attempt["family"], attempt["kind"]) for attempt in found["attempts"]]


def askers(found: dict[str, Any]) -> list[str]:
    return [attempt["asked_by"] for attempt in found["attempts"]]


def test_a_process_that_asks_for_none_has_none() -> None:
    found = watched("sum(range(1000))")
    assert (found["exit_code"], found["attempts"]) == (0, [])


def test_every_kind_is_counted_and_refused() -> None:
    found = watched("""
import socket
tried(lambda: socket.socket())
tried(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
tried(lambda: socket.socket(socket.AF_UNIX))
tried(lambda: socket.create_connection(("127.0.0.1", 9)))
""")
    assert found["exit_code"] == 0
    assert asked(found) == [
        ("AF_INET", "SOCK_STREAM"),
        ("AF_INET6", "SOCK_DGRAM"),
        ("AF_UNIX", "SOCK_STREAM"),
        ("AF_INET", "SOCK_STREAM"),
    ]


def test_a_name_that_is_looked_up_shows_as_a_dns_query() -> None:
    found = watched("""
import socket
tried(lambda: socket.getaddrinfo("example.org", 443))
""")
    assert ("AF_INET", "SOCK_DGRAM") in asked(found)


def test_threads_native_code_and_children_are_watched_as_well() -> None:
    found = watched("""
import ctypes, subprocess, threading
thread = threading.Thread(target=ctypes.CDLL(None).socket, args=(2, 1, 0))
thread.start()
thread.join()
code = "import socket; socket.socket()"
subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
""")
    assert asked(found) == [("AF_INET", "SOCK_STREAM")] * 2
    assert askers(found)[0] == sockets.UNKNOWN
    assert askers(found)[1].startswith("the program ")


def test_functions_are_named_that_ask() -> None:
    found = watched("""
import socket, threading
def homing():
    tried(lambda: socket.create_connection(("127.0.0.1", 9)))
homing()
thread = threading.Thread(target=homing)
thread.start()
thread.join()
import ctypes
ctypes.CDLL(None).socket(2, 1, 0)
""")
    named = askers(found)
    assert [name.split(".")[-1] for name in named[:2]] == ["<lambda>", "<lambda>"]
    assert all("homing" in name for name in named[:2])
    # What a thread said once is not said of what it asks for later.
    assert named[2] == sockets.UNKNOWN


def test_the_test_for_ipv6_is_known_by_all_of_its_marks() -> None:
    """urllib3 binds ::1 when it is imported, and closes it: nothing is sent."""
    pytest.importorskip("urllib3")
    found = watched("import urllib3")
    (attempt,) = [sockets.Attempt(**told) for told in found["attempts"]]
    assert attempt.is_local_test
    assert not replace(attempt, asked_by="urllib3.connection.connect").is_local_test
    assert not replace(attempt, family="AF_INET").is_local_test
    assert not replace(attempt, kind="SOCK_DGRAM").is_local_test


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="numbers of these")
def test_the_other_ways_to_a_socket_are_shut() -> None:
    found = watched("""
import ctypes, errno
library = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(256)
assert library.syscall(ctypes.c_long(425), 1, buffer) == -1
assert ctypes.get_errno() == errno.EPERM
if os.uname().machine == "x86_64":
    ctypes.set_errno(0)
    # The same call by its number in the x32 interface.
    assert library.syscall(ctypes.c_long(0x40000000 + 41), 2, 1, 0) == -1
    assert ctypes.get_errno() == errno.EPERM
""")
    assert found["exit_code"] == 0
    assert found["attempts"] == []


@pytest.mark.parametrize(
    ("body", "code"),
    [("sys.exit(7)", 1), ("raise ValueError('x')", 1), ("os.kill(os.getpid(), 9)", -9)],
)
def test_a_run_that_fails_or_is_killed_is_no_proof(body: str, code: int) -> None:
    assert watched(body)["exit_code"] == code


@pytest.mark.slow
@pytest.mark.parametrize(("variable", "silent"), [("1", True), ("0", False)])
def test_the_watch_catches_the_telemetry_that_we_switch_off(variable: str, silent: bool) -> None:
    """Left on, onnxruntime asks for sockets; they are refused, so this test sends nothing."""
    found = watched("import onnxruntime, time\ntime.sleep(60)", ORT_DISABLE_TELEMETRY=variable)
    assert found["exit_code"] == 0
    assert (asked(found) == []) is silent
