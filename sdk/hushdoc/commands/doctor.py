"""The subcommand `doctor`: checks the installation, and proves that nothing is sent."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hushdoc.arguments import printable
from hushdoc.commands.extras import EXTRAS
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.errors import HushdocError

if TYPE_CHECKING:
    from hushdoc.commands.doctor_proof import Proof
    from hushdoc.commands.parsing import Subcommands

SECONDS = 60.0
"""How long a proof runs: onnxruntime's telemetry, left on, asks for sockets within 45 s."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check of the installation, with its result and what to do.

    Its state is "fine"; "note" for what is missing but may not be needed; "wrong".
    """

    name: str
    state: Literal["fine", "note", "wrong"]
    found: str
    advice: str = ""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc doctor`; nothing heavy is imported before it runs."""
    parser = subcommands.add_parser(
        "doctor",
        help="check this installation, or prove that nothing is sent",
        description="Checks packages, ONNX Runtime, cores and memory. With --prove-offline it runs "
        "a model, and reads a page with each OCR engine that is installed, while the kernel "
        "refuses and counts every socket that the process asks for; exit code 6 if one of them "
        "could have sent something.",
    )
    parser.add_argument(
        "artifact",
        type=Path,
        nargs="?",
        metavar="ARTIFACT",
        help="model that --prove-offline loads and runs (default: a graph of one operator)",
    )
    parser.add_argument(
        "--prove-offline", action="store_true", help="watch a run for sockets and DNS queries"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="N",
        help=f"with --prove-offline: seconds to watch (default: {SECONDS:g})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    policy_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints every check; returns 0 if nothing is wrong."""
    if options.artifact is not None and not options.prove_offline:
        options.refuse_usage("only --prove-offline runs an artifact; give it too")
    if not 0 <= options.seconds < float("inf"):
        options.refuse_usage("--seconds must be a number of at least 0")
    policy = None if options.artifact is None else policy_from(options)
    proof = None
    if options.prove_offline:  # first: what is watched must not have been imported here
        from hushdoc.commands import doctor_proof

        proof = doctor_proof.prove(options.artifact, policy, options.seconds)
    checks = [*machine(), *packages(), *engines(), *runtime()]
    if proof is not None:
        checks.append(offline(proof))
    if options.json:
        result: dict[str, Any] = {
            "healthy": all(check.state != "wrong" for check in checks),
            "checks": [asdict(check) for check in checks],
        }
        if proof is not None:
            result["offline"] = {**asdict(proof.watched), "ran": proof.ran}
        print(json.dumps(result))
    else:
        _print(checks)
    return HushdocError.exit_code if any(check.state == "wrong" for check in checks) else 0


def machine() -> Iterator[Check]:
    """Yields the version of hushdoc, the machine, and the cores that this process may use."""
    import hushdoc
    from hushdoc.runtime.session import Runtime

    found = f"{hushdoc.__version__} on Python {platform.python_version()}, {platform.platform()}"
    yield Check(name="hushdoc", state="fine", found=found)
    usable, present = Runtime().num_threads, os.cpu_count() or 1
    found = f"{usable} of {present} may be used (affinity and the container's quota)"
    yield Check(name="cores", state="fine", found=found)


def packages() -> Iterator[Check]:
    """Yields which extras are fully installed."""
    for extra, names in EXTRAS.items():
        missing = [name for name in names if importlib.util.find_spec(name) is None]
        if missing:
            yield Check(
                name=f"extra {extra}",
                state="note",
                found=f"{', '.join(missing)} not installed",
                advice=f"If you need it: pip install 'hushdoc[{extra}]'",
            )
        else:
            yield Check(name=f"extra {extra}", state="fine", found="installed")


def engines() -> Iterator[Check]:
    """Yields what OCR engines need besides their extra."""
    from hushdoc.errors import OCRError
    from hushdoc.reading import ocr, tesseract

    if importlib.util.find_spec("rapidocr") is not None and not ocr.rapid_is_installed():
        yield Check(
            name="engine rapidocr",
            state="note",
            found="rapidocr is installed without onnxruntime, which runs its models",
            advice="If you need it: pip install 'hushdoc[cpu,ocr]', or 'hushdoc[gpu,ocr]'",
        )
    if tesseract.program() is None:
        yield Check(
            name="engine tesseract",
            state="note",
            found="the program is not installed",
            advice="If you need it: apt-get install tesseract-ocr on Debian and Ubuntu; see its "
            "documentation for other systems.",
        )
        return
    try:
        found = tesseract.TesseractEngine().version
    except OCRError as problem:
        yield Check(
            name="engine tesseract",
            state="wrong",
            found="the program does not run",
            advice=str(problem),
        )
        return
    yield Check(name="engine tesseract", state="fine", found=found)


def runtime() -> Iterator[Check]:
    """Yields ONNX Runtime's build (or what is wrong with it), its devices, and its telemetry."""
    from hushdoc.runtime import session
    from hushdoc.system import telemetry

    builds = session.installed_builds()
    if not builds:
        return
    installed = ", ".join(builds)
    try:
        session.refuse_both_builds()
        imported = session.import_onnxruntime()
    except HushdocError as problem:
        yield Check(name="onnxruntime", state="wrong", found=installed, advice=str(problem))
        return
    if str(imported.__version__) not in installed:
        yield Check(
            name="onnxruntime",
            state="wrong",
            found=f"{installed} is installed and {imported.__version__} is imported",
            advice="Another build has overwritten it. Uninstall both, then install one of "
            "'hushdoc[cpu]' and 'hushdoc[gpu]'.",
        )
        return
    yield Check(name="onnxruntime", state="fine", found=installed)
    devices = [
        device
        for device, provider in session.PROVIDERS.items()
        if provider in imported.get_available_providers()
    ]
    yield Check(name="devices", state="fine", found=", ".join(devices))
    yield Check(name="telemetry", state="fine", found=f"off, by {telemetry.VARIABLE}=1")


def offline(proof: Proof) -> Check:
    """Returns whether a watched run asked for the network."""
    from hushdoc.commands import doctor_proof

    return Check(
        name="offline",
        state="fine" if proof.is_clean else "wrong",
        found=doctor_proof.summary(proof),
        advice=doctor_proof.advice(proof),
    )


def _print(checks: Iterable[Check]) -> None:
    for check in checks:
        print(f"{check.state:<5}  {check.name}: {printable(check.found, limit=800)}")
        if check.advice:
            print(f"       {printable(check.advice, limit=800)}")
