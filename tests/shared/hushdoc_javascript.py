"""The verifier in JavaScript, asked by tests for a second opinion."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hushdoc.signing.keys import PrivateKey
from hushdoc.signing.trust_store import TrustedKey, TrustStore

VERIFY_JS = Path(__file__).parents[2] / "samples" / "verify-js"

# Runs verify.mjs once for each line of arguments, without starting Node for each.
ONE_AFTER_THE_OTHER = """
import { createInterface } from 'node:readline';
const write = process.stdout.write.bind(process.stdout);
for await (const line of createInterface({ input: process.stdin })) {
  const printed = { stdout: '', stderr: '' }, [program, ...given] = JSON.parse(line);
  for (const name of ['stdout', 'stderr'])
    process[name].write = (text) => { printed[name] += text; return true; };
  process.argv = [process.execPath, program, ...given];
  process.execArgv = []; // else what follows -e would be arguments
  process.exitCode = undefined;
  await import(program).catch((problem) => { printed.stderr += problem.stack; });
  write(`${JSON.stringify({ ...printed, code: process.exitCode ?? 0 })}\\n`);
}
"""
_NUMBERS = count()


class Verdict(NamedTuple):
    """What verify.mjs left: its exit code and all that it printed."""

    code: int
    stdout: str
    stderr: str


def verdict(model: Path, *, trust: Path, policy: Path, now: datetime, exact: bool) -> Verdict:
    """Returns what verify.mjs says, each time as a module of its own with an engine of its own."""
    number = next(_NUMBERS)
    asked = [f"{VERIFY_JS / 'verify.mjs'}?{number}", str(model), "--now", now.isoformat()]
    asked += ["--trust", str(trust), "--policy", str(policy)]
    asked += ["--exact", f"{VERIFY_JS / 'exact.mjs'}?{number}"] if exact else []
    node = _node()
    assert node.stdin is not None
    assert node.stdout is not None
    try:
        node.stdin.write(json.dumps(asked) + "\n")
        node.stdin.flush()
        return Verdict(**json.loads(node.stdout.readline()))
    except BaseException:  # an answer that comes later would be taken for the next one's
        _stop(node)
        _node.cache_clear()
        raise


@cache
def _node() -> subprocess.Popen[str]:
    command = ["node", "--input-type=module", "-e", ONE_AFTER_THE_OTHER]
    pipe = subprocess.PIPE
    node = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    atexit.register(_stop, node)
    return node


def _stop(node: subprocess.Popen[str]) -> None:
    node.kill()
    node.communicate()


def require_accepted(
    model: Path, folder: Path, key: PrivateKey, *, now: datetime | None = None, **limits: Any
) -> None:
    """Fails unless it accepts an artifact that a key signed; skips the test without node."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    trust = TrustStore.of([TrustedKey.of(key, name="trusted")])
    (folder / "trust.json").write_bytes(trust.to_json())
    (folder / "policy.json").write_text(json.dumps(limits))
    said = verdict(
        model,
        trust=folder / "trust.json",
        policy=folder / "policy.json",
        now=now or datetime.now(UTC),
        exact=True,
    )
    assert said.stdout.startswith("ACCEPTED: "), said.stdout + said.stderr
