"""`hushdoc sample`: a model that runs at once, and that no other artifact can pass for."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest
from hatchling.builders.wheel import WheelBuilder
from hushdoc_command_runs import write_policy

from hushdoc.__main__ import main
from hushdoc.commands.sample import SHIPPED
from hushdoc.signing.trust_store import TrustStore

Run = Callable[[str], tuple[int, str, str]]
ROOT = Path(__file__).parents[3]
SHOWN = {
    "document_number": "ST-015404",
    "total": "£18,319.12",
    "subtotal": "£17,446.78",
    "provider_name": "STRATBURG GLASS LTD.",
    "customer_name": "Linwald Housing Corp.",
}
"""What everybody reads on the invoice. Its dates have scores so near the threshold that rounding on
another processor might move them."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HUSHDOC_POLICY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    assert main(["sample", "sample"]) == 0
    return tmp_path


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Returns what runs a command line, for its exit code, output and errors."""

    def run(line: str) -> tuple[int, str, str]:
        capfd.readouterr()
        return main(line.split()), *capfd.readouterr()

    return run


def files(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_the_command_that_it_prints_finds_the_fields(place: Path, run: Run) -> None:
    _, printed, _ = run("sample sample")
    (command,) = (line for line in printed.splitlines() if "hushdoc extract" in line)
    code, printed, warned = run(command.removeprefix("  hushdoc "))
    assert code == 0
    assert "(shipped for the model of `hushdoc sample` alone)" in warned
    assert "calibrated on invented invoices" in printed
    rows = [line.split(maxsplit=3) for line in printed.splitlines() if line.startswith("  ")]
    found = {label: text for label, _, _, text in rows}
    assert {label: found.get(label) for label in SHOWN} == SHOWN
    page = (place / "page.html").read_text("utf-8")
    assert all(f"{label}</a>" in page for label in SHOWN)
    assert page.count('href="#field-') == len(rows) - 1  # all but the head have a box


@pytest.mark.slow
def test_the_image_has_the_same_fields(place: Path, run: Run) -> None:
    code, printed, _ = run("extract sample/model sample/invoice.png")
    assert code == 0
    assert all(SHOWN[label] in printed for label in ("document_number", "total"))


def test_it_holds_under_its_own_policy_file_and_names_what_it_is(place: Path, run: Run) -> None:
    code, printed, _ = run("verify sample/model --policy sample/policy.toml")
    assert (code, "ACCEPTED." in printed) == (0, True)
    code, printed, _ = run("inspect sample/model --trust sample/trust.json")
    assert code == 0
    assert "no release" in printed
    assert "invented" in printed


def test_no_other_artifact_passes_for_it(place: Path, run: Run) -> None:
    weights = Path("sample/model/onnx/model_int8.onnx")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    code, _, refused = run("verify sample/model")
    assert (code, "DIGEST_MISMATCH" in refused) == (4, True)
    with Path("sample/model/privacy.intoto.jsonl").open("ab") as stream:
        stream.write(b"\n")
    code, _, refused = run("verify sample/model")
    assert (code, "NO_POLICY" in refused) == (4, True)


def test_a_policy_of_the_user_counts_alone(
    place: Path, run: Run, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_policy(place, build.trust(key))
    monkeypatch.setenv("HUSHDOC_POLICY", str(place / "policy.toml"))
    code, _, refused = run("verify sample/model")
    assert (code, "NO_TRUSTED_SIGNATURE" in refused) == (4, True)


def test_a_folder_that_holds_something_else_is_left_as_it_is(place: Path, run: Run) -> None:
    Path("sample/mine").write_text("kept")
    before = files(place)
    code, _, refused = run("sample sample")
    assert (code, "OUTPUT_EXISTS" in refused) == (3, True)
    assert run("sample sample/mine")[0] == 3
    assert files(place) == before


@pytest.mark.parametrize("command", ["sample .", "keygen --out ."])
def test_an_empty_folder_that_it_runs_in_is_refused(
    place: Path, run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "empty").mkdir()
    monkeypatch.chdir(place / "empty")
    code, _, refused = run(command)
    assert (code, "OUTPUT_NOT_WRITTEN: '.'" in refused) == (6, True)
    assert files(place / "empty") == {}


def test_the_commands_that_it_prints_name_a_folder_with_a_space(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["sample", "my sample"]) == 0
    (command,) = (line for line in capfd.readouterr().out.splitlines() if "verify" in line)
    assert main(shlex.split(command)[1:]) == 0


def test_the_wheel_ships_it_and_no_private_key() -> None:
    inside = {
        file.distribution_path
        for file in WheelBuilder(str(ROOT)).recurse_included_files()
        if file.distribution_path.startswith("hushdoc/sample/")
    }
    shipped = files(SHIPPED)
    assert inside == {f"hushdoc/sample/{name}" for name in shipped}
    assert sum(map(len, shipped.values())) <= 3e6
    assert not any(b"PRIVATE KEY" in content for content in shipped.values())
    (trusted,) = TrustStore.from_file(SHIPPED / "trust.json").keys
    assert "no release" in trusted.name
    assert trusted.models == ("sample-invoice-fields",)
