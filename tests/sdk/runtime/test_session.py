"""The one door to ONNX Runtime, with the real package and real limits."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hushdoc_graphs
import numpy as np
import pytest
from hushdoc_processes import in_python

from hushdoc.errors import (
    ArtifactError,
    DeviceUnavailableError,
    LimitExceededError,
)
from hushdoc.runtime.graph_batches import in_halves
from hushdoc.runtime.session import Runtime, Session, import_onnxruntime


def graph(size: int = 8, *, weight_rows: int = 1) -> bytes:
    """Returns x @ x @ x plus a weight, with free rows, and a note in its metadata."""
    return hushdoc_graphs.model(
        [
            hushdoc_graphs.node("MatMul", ["x", "x"], "a"),
            hushdoc_graphs.node("MatMul", ["a", "x"], "b"),
            hushdoc_graphs.node("ReduceSum", ["w"], "s", keepdims=0),
            hushdoc_graphs.node("Add", ["b", "s"], "y"),
        ],
        {"x": ["n", "n"]},
        {"y": ["n", "n"]},
        {"w": np.ones((weight_rows, 1))},
        {"hushdoc.certificate_id": "ab" * 16},
    )


def square(size: int) -> dict[str, np.ndarray]:
    return {"x": np.full((size, size), 0.01, np.float32)}


def test_runs_and_tells_its_metadata() -> None:
    session = Session(graph())
    (found,) = session.run(square(4))
    assert found == pytest.approx(np.full((4, 4), 16 * 0.01**3 + 1), rel=1e-5)
    assert session.metadata == {"hushdoc.certificate_id": "ab" * 16}
    assert session.inputs == {"x": ["n", "n"]}
    assert session.outputs == {"y": ["n", "n"]}


@pytest.mark.parametrize("by_path", [False, True])
def test_products_of_bytes_are_exact_on_every_processor(tmp_path: Path, by_path: bool) -> None:
    """By itself ONNX Runtime cuts sums of two to 16 bits where there is no VNNI."""
    chance = np.random.default_rng(0)
    weights = chance.integers(-127, 128, (768, 5)).astype(np.int8)
    nodes = [
        node
        for name in "xy"
        for node in (
            hushdoc_graphs.node("Cast", [name], f"{name}_bytes", to=2),
            hushdoc_graphs.node("MatMulInteger", [f"{name}_bytes", "w", "", "z"], f"{name}_w"),
            hushdoc_graphs.node("Cast", [f"{name}_w"], f"{name}_product", to=1),
        )
    ]
    graph = hushdoc_graphs.model(
        nodes,
        {"x": ["n", 768], "y": ["n", 768]},
        {"x_product": ["n", 5], "y_product": ["n", 5]},
        {"w": weights, "z": np.zeros(5, np.int8)},
    )
    path = tmp_path / "graph.onnx"
    path.write_bytes(graph)
    x, y = chance.integers(0, 256, (2, 3, 768))
    found = Session(str(path) if by_path else graph).run(
        {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    )
    assert np.array_equal(found, [x @ weights.astype(np.int64), y @ weights.astype(np.int64)])


def test_no_slow_fusion_is_made_of_a_graph_on_a_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = hushdoc_graphs.model(
        [
            hushdoc_graphs.node("Add", ["x", "x"], "sum"),
            hushdoc_graphs.node("LayerNormalization", ["sum", "w", "w"], "y"),
        ],
        {"x": [1, 3, 8]},
        {"y": [1, 3, 8]},
        {"w": np.ones(8)},
        {},
    )
    options_of = Session._options

    def saving(session: Session, runtime: Runtime) -> object:
        options = options_of(session, runtime)
        options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
        return options

    monkeypatch.setattr(Session, "_options", saving)
    Session(graph)
    loaded = (tmp_path / "loaded.onnx").read_bytes()
    assert b"LayerNormalization" in loaded
    assert b"SkipLayerNormalization" not in loaded


def test_garbage_is_an_artifact_error() -> None:
    with pytest.raises(ArtifactError, match="can't read the graph"):
        Session(b"not a graph")


def test_input_that_does_not_fit_is_an_artifact_error_and_the_next_call_works(
    capfd: pytest.CaptureFixture[str],
) -> None:
    session = Session(graph())
    with pytest.raises(ArtifactError, match=r"shapes \{'x': \(2, 3\)\}"):
        session.run({"x": np.ones((2, 3), np.float32)})
    with pytest.raises(ArtifactError):
        session.run({"y": np.ones((2, 2), np.float32)})
    assert session.run(square(2))[0].shape == (2, 2)
    assert capfd.readouterr() == ("", "")


def test_a_missing_device_is_never_replaced_and_an_unknown_one_the_callers_mistake() -> None:
    with pytest.raises(DeviceUnavailableError, match="'cuda' was asked for"):
        Session(graph(), device="cuda")
    with pytest.raises(ValueError, match="expected one of"):
        Session(graph(), device="tpu")


def test_memory_limit_holds_and_the_session_survives(capfd: pytest.CaptureFixture[str]) -> None:
    session = Session(graph(), runtime=Runtime(memory_limit="16MB"))
    assert session.run(square(500))[0].shape == (500, 500)
    with pytest.raises(LimitExceededError, match="16000000 bytes"):
        session.run(square(2000))
    assert session.run(square(500))[0].shape == (500, 500)
    unbounded = Session(graph())
    assert unbounded.run(square(2000))[0].shape == (2000, 2000)
    assert capfd.readouterr() == ("", "")


def test_a_run_that_fits_the_memory_limit_fits_beside_others() -> None:
    session = Session(graph(), runtime=Runtime(threads=1, memory_limit="16MB"))

    def shape(size: int) -> tuple[int, ...]:
        found: tuple[int, ...] = session.run(square(size))[0].shape
        return found

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(shape, [1000] * 12)) == {(1000, 1000)}
        with pytest.raises(LimitExceededError, match="16000000 bytes"):
            list(pool.map(shape, [500, 2000, 500]))
    assert shape(500) == (500, 500)


def test_limits_of_two_sessions_do_not_mix() -> None:
    small = Session(graph(), runtime=Runtime(memory_limit="16MB"))
    large = Session(graph(), runtime=Runtime(memory_limit="200MB"))
    assert large.run(square(2000))[0].shape == (2000, 2000)
    with pytest.raises(LimitExceededError):
        small.run(square(2000))


def test_graphs_of_one_model_share_an_arena_and_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime, register = import_onnxruntime(), []
    create = onnxruntime.create_and_register_allocator

    def counted(*settings: Any) -> None:
        register.append(settings)
        create(*settings)

    monkeypatch.setattr(onnxruntime, "create_and_register_allocator", counted)
    model = graph(weight_rows=500_000)
    limit = Runtime(memory_limit=len(model) + 2**20)
    with pytest.raises(LimitExceededError, match=f"holds {2 * len(model)} bytes"):
        Session.together([model, model], runtime=limit)
    Session(model, runtime=limit)
    register.clear()
    sessions = Session.together([graph(), graph(), graph()], runtime=Runtime(memory_limit="16MB"))
    assert len(register) == 1
    for session in sessions:
        assert session.run(square(4))[0] == pytest.approx(16 * 0.01**3 + 1, rel=1e-5)
        with pytest.raises(LimitExceededError, match="memory_limit allows"):
            session.run(square(2000))
    Session(graph())
    assert len(register) == 2


def test_several_graphs_have_no_limit_on_cuda() -> None:
    with pytest.raises(DeviceUnavailableError, match="2 graphs"):
        Session.together([graph()] * 2, device="cuda", runtime=Runtime(memory_limit="1GB"))


def test_weights_above_the_limit_are_refused_before_they_are_loaded() -> None:
    model = graph(weight_rows=1_000_000)
    with pytest.raises(LimitExceededError, match="memory_limit allows 3000000"):
        Session(model, runtime=Runtime(memory_limit="3MB"))
    tight = Session(model, runtime=Runtime(memory_limit=len(model) + 8_000_000))
    tight.run(square(100))
    with pytest.raises(LimitExceededError):
        tight.run(square(2000))


def test_the_arena_gives_back_what_a_large_run_needed() -> None:
    code = """
import numpy as np
from hushdoc.runtime.session import Runtime, Session, import_onnxruntime
from pathlib import Path
import sys
def resident():
    words = [l.split() for l in Path('/proc/self/status').read_text().splitlines()]
    return [int(w[1]) // 1024 for w in words if w[0] == 'VmRSS:'][0]
session = Session(bytes.fromhex(sys.stdin.read()), runtime=Runtime(threads=1))
session.run({'x': np.ones((100, 100), np.float32)})
before = resident()
session.run({'x': np.ones((2500, 2500), np.float32)})
session.run({'x': np.ones((100, 100), np.float32)})
print(resident() - before)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    done = in_python(code, input=graph().hex())
    # The large run needed 75 MB. Its output still stood in the arena when it ended, so the
    # next run, however small, is what gives the last of it back.
    assert int(done.stdout) < 20


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(None, None), (5, 5), ("400MB", 400_000_000), ("1.5 GiB", 3 * 2**29), ("7", 7), ("2kb", 2000)],
)
def test_memory_limits_are_read(limit: int | str | None, expected: int | None) -> None:
    assert Runtime(memory_limit=limit).memory_limit_bytes == expected


@pytest.mark.parametrize(
    "limit", [0, -1, "many", "0MB", "5XB", "ib", "1e3", 2**63, "9" * 18 + "GB", "9" * 400]
)
def test_bad_memory_limits_are_the_callers_mistake(limit: int | str) -> None:
    with pytest.raises(ValueError, match="memory_limit is"):
        Runtime(memory_limit=limit)


@pytest.mark.parametrize("threads", [0, -1, "many", 1.5, True, 1025])
def test_bad_threads_are_the_callers_mistake(threads: object) -> None:
    with pytest.raises(ValueError, match="threads is"):
        Runtime(threads=threads)  # type: ignore[arg-type]


def test_cores_follow_affinity() -> None:
    done = in_python(
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from hushdoc.runtime.session import Runtime; print(Runtime().num_threads)"
    )
    assert done.stdout == "1\n"


def test_telemetry_is_off_before_the_package_is_imported() -> None:
    done = in_python(
        "import os\nfrom hushdoc.runtime import session\n"
        "assert 'ORT_DISABLE_TELEMETRY' not in os.environ\n"
        "session.import_onnxruntime(); session.import_onnxruntime()\n"
        "print(os.environ['ORT_DISABLE_TELEMETRY'])",
        drop=("ORT_DISABLE_TELEMETRY",),
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


HOST_FIRST = """
import os
from hushdoc.system import telemetry
{before}
# The import itself happens with telemetry off: a test must not send any.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime
onnxruntime.__version__ = "1.31.1"
{after}
from hushdoc.errors import HushdocError
from hushdoc.runtime import session
try:
    session.import_onnxruntime()
    print("fine")
except HushdocError as error:
    print(error.code)
"""


@pytest.mark.parametrize(
    ("before", "after", "started_with", "expected"),
    [
        # What stands there now may have been set too late.
        ("", "", None, "TELEMETRY_ACTIVE"),
        ("", "", "0", "TELEMETRY_ACTIVE"),
        ("", "os.environ['ORT_DISABLE_TELEMETRY'] = '0'", "1", "TELEMETRY_ACTIVE"),
        ("", "", "1", "fine"),
        ("telemetry.keep_off()", "", None, "fine"),
        ("telemetry.keep_off()", "del os.environ[telemetry.VARIABLE]", None, "TELEMETRY_ACTIVE"),
        ("", "onnxruntime.__version__ = '1.28.3'", None, "fine"),
        ("", "onnxruntime.__version__ = '2.0.0'", None, "TELEMETRY_ACTIVE"),
        ("", "del onnxruntime.__version__", None, "TELEMETRY_ACTIVE"),
    ],
)
def test_a_host_that_imported_it_first_with_telemetry_is_refused(
    before: str, after: str, started_with: str | None, expected: str
) -> None:
    started = {} if started_with is None else {"ORT_DISABLE_TELEMETRY": started_with}
    code = HOST_FIRST.format(before=before, after=after)
    done = in_python(code, drop=("ORT_DISABLE_TELEMETRY",), environment=started)
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_a_batch_that_is_too_large_is_read_in_halves() -> None:
    session = Session(graph(), runtime=Runtime(memory_limit="16MB"))

    def inputs(batch: Sequence[int]) -> dict[str, np.ndarray]:
        return square(sum(batch))

    with pytest.raises(LimitExceededError):
        session.run(inputs([500] * 4))
    found = list(in_halves(session, [500] * 4, inputs))
    assert [(list(batch), output.shape) for batch, output in found] in (
        [([500], (500, 500))] * 4,
        [([500, 500], (1000, 1000))] * 2,
    )
    with pytest.raises(LimitExceededError):
        list(in_halves(session, [500, 2000], inputs))


def test_both_builds_at_once_are_refused(tmp_path: Path) -> None:
    for name in ("onnxruntime", "onnxruntime_gpu"):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n"
        )
    done = in_python(
        "from hushdoc.errors import HushdocError\n"
        "from hushdoc.runtime import session\n"
        "try:\n    session.import_onnxruntime()\n"
        "except HushdocError as error:\n    print(error.code, error)",
        drop=("ORT_DISABLE_TELEMETRY",),
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout.startswith("ONNXRUNTIME_CONFLICT onnxruntime 1.0 and onnxruntime-gpu 1.0")


def chain(count: int) -> bytes:
    """Returns a chain of products with weights of 400 kB, as networks have them."""
    products = [
        hushdoc_graphs.node("MatMul", [f"x{index}", f"w{index}"], f"x{index + 1}")
        for index in range(count)
    ]
    weights = {f"w{index}": np.full((316, 316), float(index)) for index in range(count)}
    shape = ("n", 316)
    return hushdoc_graphs.model(products, {"x0": shape}, {f"x{count}": shape}, weights)


def test_what_parsing_needed_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(chain(200))
    code = (
        "import sys\n"
        "from hushdoc.runtime import session\n"
        "def resident():\n"
        "    status = open('/proc/self/status').read()\n"
        "    return int(status.partition('VmRSS:')[2].split()[0]) / 1024\n"
        "session.import_onnxruntime()\n"
        "before = resident()\n"
        "made = session.Session(open(sys.argv[1], 'rb').read(), "
        "runtime=session.Runtime(threads=1))\n"
        "print(resident() - before)"
    )
    done = in_python(code, path)
    # Of 76 MiB of weights; what parsing freed would be as much again.
    assert 76 < float(done.stdout) < 105
