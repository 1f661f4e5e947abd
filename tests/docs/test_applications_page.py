"""docs/applications.md: its commands run, against a server that README's own line started."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hushdoc_command_runs
import pytest

pytest.importorskip("fastapi", reason="the extra [server] is not installed")
if shutil.which("curl") is None:
    pytest.skip("curl is not installed", allow_module_level=True)

from hushdoc.server.answers import OPERATIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/applications.md").read_text("utf-8")


def test_the_server_s_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    installing, curls, checking, *_ = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    serve = "hushdoc serve sample/model --policy sample/policy.toml"
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"```sh\npip install 'hushdoc[server]'\n{serve}\n```" in readme
    _, sample, last = installing.splitlines()
    assert last == serve
    assert hushdoc_command_runs.run(*shlex.split(sample)[1:]) == 0
    check = [sys.executable, ROOT / shlex.split(checking)[1], *shlex.split(checking)[2:]]
    assert subprocess.run(check, check=True, capture_output=True).stdout.startswith(b"accepted")
    command = [sys.executable, "-m", *shlex.split(serve), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        answers = []
        for line in curls.splitlines():
            asked = shlex.split(line.replace("http://127.0.0.1:8000", address))
            done = subprocess.run([*asked, "-sS", "--fail"], capture_output=True, check=True)
            answers.append(done.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    form, raw, archive, certificate = answers
    found = json.loads(form)["fields"]
    assert found
    assert found == json.loads(raw)["fields"]
    assert archive == b""
    assert Path("redacted.zip").read_bytes().startswith(b"PK")
    assert "NOT GUARANTEED" in json.loads(certificate)["models"][0]["explanation"]


def test_the_table_names_every_request_and_option() -> None:
    rows = dict(re.findall(r"^\| `POST /v1/(\w+)` \|[^|]*\|(.*)\|$", PAGE, re.MULTILINE))
    assert rows.keys() == OPERATIONS.keys()
    for name, operation in OPERATIONS.items():
        listed = [
            word for word in re.findall(r"`(\w+)`", rows[name]) if word not in ("page", "document")
        ]
        assert listed == list(operation.options)
