"""The subcommand `bench`: time and memory that an artifact takes on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.commands import answering
from hushdoc.commands.policy_options import policy_from, policy_options

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.document.document import Document

WORDS = (50, 200, 1000)
CALLS = 5

_SPELLED = ("total", "amount", "due", "invoice", "date", "12.50", "EUR", "2026-11-21", "street")
_PAGE = 1000
_LINE, _COLUMNS = 12, 10


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Wall-clock and processor time for a document of so many words; medians of CALLS calls."""

    words: int
    seconds: float
    cpu_seconds: float


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc bench`; numpy and onnxruntime are imported only when it runs."""
    parser = subcommands.add_parser(
        "bench",
        help="measure time and memory of an artifact: checks, loading, documents",
        description="Checks an artifact against a policy, loads it, and times invented documents "
        "of several lengths. The words are meaningless, so quality is not measured.",
    )
    answering.model_options(parser)
    parser.add_argument(
        "--words",
        type=int,
        action="append",
        metavar="N",
        help=f"length of a document; may be given again (default: {', '.join(map(str, WORDS))})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    policy_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints what was measured."""
    lengths = sorted(set(options.words or WORDS))
    if lengths[0] < 1:
        options.refuse_usage("--words must be at least 1")
    policy = policy_from(options)
    runtime = answering.runtime_from(options)
    import hushdoc

    checking, _ = _timed(lambda: hushdoc.verify(options.artifact, policy))
    before = resident_mb()
    loading, model = _timed(
        lambda: hushdoc.load(
            options.artifact, policy=policy, device=options.device, runtime=runtime
        )
    )
    loaded = resident_mb()
    with tempfile.TemporaryDirectory(prefix="hushdoc-bench-") as home:
        speeds = [_speed(_asking(model, Path(home)), words) for words in lengths]
    result = {
        "checkSeconds": checking,
        "loadSeconds": loading,
        "loadedMegabytes": None if before is None or loaded is None else loaded - before,
        "megabytes": resident_mb(),
        "threads": runtime.num_threads,
        "documents": [asdict(speed) for speed in speeds],
    }
    if options.json:
        print(json.dumps(result))
    else:
        print("\n".join(_lines(result, speeds)))
    return 0


def _asking(model: Any, home: Path) -> Callable[[int], object]:
    """Returns a function that runs a model on a document of a number of words."""
    from hushdoc import Document, DocVQAModel, HashedCRFModel

    if isinstance(model, HashedCRFModel):
        return lambda words: model.extract(Document.from_text(" ".join(_texts(words))))
    if isinstance(model, DocVQAModel):
        return lambda words: model.ask(_page(words, home), "What is the total?")
    for name in ("extract", "classify", "embed"):
        method = getattr(model, name, None)
        if method is not None:
            break
    else:
        raise TypeError(f"{type(model).__name__} has no method that this subcommand knows.")
    return lambda words: method(_page(words, home))


def _page(words: int, home: Path) -> Document:
    from hushdoc.document.document import Document

    places = [(index % _COLUMNS, index // _COLUMNS) for index in range(words)]
    width, height = _PAGE // _COLUMNS, max(_PAGE, _LINE * (words // _COLUMNS + 1))
    boxes = [
        (column * width, row * _LINE, (column + 1) * width - 5, (row + 1) * _LINE - 2)
        for column, row in places
    ]
    image = _plain_image(home, width=_PAGE, height=height)
    return Document.from_words(_texts(words), boxes, width=_PAGE, height=height, image=image)


def _plain_image(folder: Path, *, width: int, height: int) -> Path | None:
    """The file of a white image, in pixels, or None where pillow is not installed."""
    path = folder / f"{width}x{height}.png"
    if not path.exists():
        if importlib.util.find_spec("PIL") is None:
            return None
        from PIL import Image

        Image.new("L", (width, height), "white").save(path)
    return path


def _texts(words: int) -> list[str]:
    return [_SPELLED[index % len(_SPELLED)] for index in range(words)]


def _speed(ask: Callable[[int], object], words: int) -> Speed:
    ask(words)
    clock, cpu = [], []
    for _ in range(CALLS):
        spent = time.process_time()
        seconds, _ = _timed(lambda: ask(words))
        clock.append(seconds)
        cpu.append(time.process_time() - spent)
    return Speed(words=words, seconds=statistics.median(clock), cpu_seconds=statistics.median(cpu))


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def resident_mb() -> float | None:
    """Returns the resident megabytes of this process; None where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        return None


def _lines(result: Mapping[str, Any], speeds: list[Speed]) -> Iterator[str]:
    yield (
        f"checked in {result['checkSeconds']:.2f} s, checked and loaded in "
        f"{result['loadSeconds']:.2f} s"
    )
    if result["loadedMegabytes"] is not None:
        yield (
            f"memory: {result['loadedMegabytes']:.0f} MB to load, {result['megabytes']:.0f} MB in "
            "all at the end"
        )
    yield f"threads: {result['threads']}"
    for speed in speeds:
        yield (
            f"{speed.words:>6} words: {1000 * speed.seconds:8.1f} ms, "
            f"{1000 * speed.cpu_seconds:8.1f} ms of CPU, {speed.words / speed.seconds:,.0f} words/s"
        )
