"""The one door to ONNX Runtime: threads, memory, devices, and its telemetry kept off.

Contract: nothing else in hushdoc imports onnxruntime, and here it is imported only after
`telemetry.keep_off`.
"""

from __future__ import annotations

import functools
import itertools
import mmap
import os
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hushdoc import arguments
from hushdoc.errors import (
    ArtifactError,
    DeviceUnavailableError,
    HushdocError,
    LimitExceededError,
    needs_extra,
)
from hushdoc.runtime import unsigned_weights
from hushdoc.system import forking, telemetry
from hushdoc.system.cores import usable_cores

Array = npt.NDArray[Any]

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
TRIM_SECONDS = 0.25
"""While it runs, a session gives freed memory back this often, which takes about a millisecond."""

SCALED_BY_RUN = "hushdoc.scaled_by_run"
"""Key of a graph's metadata that says what `Session.scaled_by_run` is."""

FATAL = 4
"""ONNX Runtime's log severity that prints nothing; every failure reaches us as an exception."""

SLOW_FUSIONS = ("SkipLayerNormFusion",)
"""Fusions that are not made for processors: in onnxruntime 1.31 a sum with its normalisation takes
several times as long as one operator as it does as two."""

_FOUR_PRODUCTS = (
    b'\x08\x08:X\n\x18\n\x01a\n\x01b\x12\x01y"\rMatMulInteger\x12\x01g*\x0f\x08\x04\x08\x01\x10\x03'
    b"B\x01bJ\x04\x7f\x7f\x7f\x7fZ\x13\n\x01a\x12\x0e\n\x0c\x08\x02\x12\x08\n\x02\x08\x01\n\x02\x08\x04"
    b"b\x13\n\x01y\x12\x0e\n\x0c\x08\x06\x12\x08\n\x02\x08\x01\n\x02\x08\x01B\x04\n\x00\x10\r"
)
"""A graph that multiplies a row of four bytes, uint8, by a column of four 127, int8."""

_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}
_door = forking.Lock()

MOST_THREADS = 1024
"""More than any machine has cores; ONNX Runtime would start as many as it is asked for."""

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """How much of the machine one model may use.

    Attributes:
        threads: Threads for one model, or "auto" for the cores this process may really use: its
            affinity and its container's quota, not the host's cores.
        memory_limit: Most bytes for a model's weights and working memory, as a number or text
            such as "400MB" or "1GiB"; None for no limit. Not counted are the interpreter, and
            while loading the file itself and its parsed copy.

    Example:
        >>> Runtime(threads=2, memory_limit="400MB").memory_limit_bytes
        400000000
    """

    threads: int | Literal["auto"] = "auto"
    memory_limit: int | str | None = None

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        most = MOST_THREADS
        if self.threads != "auto" and not (type(self.threads) is int and 1 <= self.threads <= most):
            raise ValueError(f'threads is {self.threads!r}; expected "auto" or 1 to {most}.')
        limit = self.memory_limit_bytes
        if limit is not None and not 1 <= limit < 2**63:
            raise ValueError(
                f"memory_limit is {self.memory_limit!r}; expected from one byte to 2**63 - 1."
            )

    @property
    def num_threads(self) -> int:
        """How many threads a session gets."""
        return usable_cores() if self.threads == "auto" else self.threads

    @property
    def memory_limit_bytes(self) -> int | None:
        """The memory limit as a number of bytes."""
        if self.memory_limit is None or type(self.memory_limit) is int:
            return self.memory_limit
        found = re.fullmatch(
            r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([KMG]?I?)B?\s*", str(self.memory_limit).upper()
        )
        if found is None or found[2] not in _UNITS:
            raise ValueError(
                f"memory_limit is {self.memory_limit!r}; expected a number of bytes or text such "
                'as "400MB" or "1GiB".'
            )
        return int(float(found[1]) * _UNITS[found[2]])


class Session:
    """One loaded graph; many threads may run it at once.

    `scaled_by_run` is whether activations are rounded by one scale for all rows of a run, as in
    int8 graphs. A row's answer then depends on the rows beside it: each is run alone.
    """

    def __init__(
        self,
        model: bytes | str,
        *,
        device: str = "cpu",
        runtime: Runtime | None = None,
        beside: Session | None = None,
    ) -> None:
        """Loads a graph that was already checked; its device is never silently replaced.

        `model` is an ONNX file with its weights inside: its bytes, or what `Artifact.source` yields
        with `low_memory`, a path that opens the very file that was checked. Only `together` names
        the session `beside` which it is loaded, whose arena and memory limit it shares.
        """
        runtime = runtime or Runtime()
        self.device = device
        self._limit = runtime.memory_limit_bytes
        self._onnxruntime = import_onnxruntime()
        require_device(device, self._onnxruntime.get_available_providers())
        own_bytes = len(model) if isinstance(model, bytes) else os.stat(model).st_size
        self._num_bytes: int = own_bytes + (0 if beside is None else beside._num_bytes)
        if self._limit is not None and self._num_bytes > self._limit:
            raise LimitExceededError(
                f"The model holds {self._num_bytes} bytes and memory_limit allows {self._limit}. "
                "Raise the limit, or use a smaller variant of the model."
            )
        self._session = self._create(model, runtime, fresh_arena=beside is None)
        # Of one arena alone, whose memory its runs share.
        own = f"model {next(_numbers)} of this process"
        self._name: str = own if beside is None else beside._name
        forking.keep(self)
        self.scaled_by_run = SCALED_BY_RUN in self.metadata
        self._trimmed_at = time.monotonic()
        if PROVIDERS[device] not in self._session.get_providers():
            raise _unavailable(device, self._session.get_providers())

    @classmethod
    def together(
        cls,
        models: Sequence[bytes | str],
        *,
        device: str = "cpu",
        runtime: Runtime | None = None,
    ) -> list[Session]:
        """Loads the graphs of one model, which share an arena: the memory limit is for all of them.

        On "cuda", where arenas are not shared, a limit is refused for more than one graph.
        """
        if device == "cuda" and len(models) > 1 and (runtime or Runtime()).memory_limit is not None:
            raise DeviceUnavailableError(
                f"The model has {len(models)} graphs, which can't share a memory limit on cuda. "
                'Pass device="cpu", or no memory_limit.'
            )
        loaded: list[Session] = []
        with _door:  # no other session may register an arena meanwhile
            for model in models:
                beside = loaded[-1] if loaded else None
                loaded.append(cls(model, device=device, runtime=runtime, beside=beside))
        return loaded

    def _create(self, model: bytes | str, runtime: Runtime, *, fresh_arena: bool) -> Any:
        options = self._options(runtime)
        provider: Any = PROVIDERS[self.device]
        if self.device == "cuda" and self._limit is not None:
            provider = (provider, {"gpu_mem_limit": str(self._limit)})
        try:
            with _door:
                if self.device == "cpu" or self._limit is not None:
                    if fresh_arena:
                        self._register_arena()
                    options.add_session_config_entry("session.use_env_allocators", "1")
                session = self._onnxruntime.InferenceSession(
                    self._exact(model),
                    sess_options=options,
                    providers=[provider],
                    disabled_optimizers=SLOW_FUSIONS if self.device == "cpu" else None,
                )
        except Exception as error:  # its exceptions share no base but Exception
            if self.device != "cpu" and "provider" in str(error).lower():
                raise _unavailable(self.device, [str(error)]) from error
            raise ArtifactError(
                f"ONNX Runtime can't read the graph: {_first_line(error)}. Expected one ONNX file "
                "that this version of onnxruntime supports; export the artifact again."
            ) from error
        session.disable_fallback()
        # The wrapper keeps the whole file for its fallback, which is off: release it.
        session._model_bytes = None
        give_back_freed_memory()
        return session

    def _options(self, runtime: Runtime) -> Any:
        options = self._onnxruntime.SessionOptions()
        options.log_severity_level = FATAL
        options.intra_op_num_threads = runtime.num_threads
        options.inter_op_num_threads = 1
        # One plan is kept for every shape ever seen; windows have many shapes.
        options.enable_mem_pattern = False
        # Weights outside the arena: it can then give back all that a large batch needed.
        options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
        return options

    def _exact(self, model: bytes | str) -> bytes | str:
        """Returns a graph whose products of bytes are exact on this processor."""
        if self.device != "cpu" or not clips_products():
            return model
        if isinstance(model, bytes):
            return unsigned_weights.of(model) or model
        with Path(model).open("rb") as file:  # whose weights need not all be in memory
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return unsigned_weights.of(content) or model

    def _register_arena(self) -> None:
        """Registers an arena of its own; a session keeps the one that was registered last."""
        runtime = self._onnxruntime
        # By default an arena doubles, and many threads make it double often. This one grows by
        # requests, in steps of a mebibyte; its first step is kept, so that small results do not
        # hold a large run's memory.
        settings = {"arena_extend_strategy": 0, "max_power_of_two_extend_bytes": 2**20}
        if self._limit is not None:
            settings["max_mem"] = self._limit
        runtime.create_and_register_allocator(
            runtime.OrtMemoryInfo(
                "Cpu",
                runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
                0,
                runtime.OrtMemType.DEFAULT,
            ),
            runtime.OrtArenaCfg(settings),
        )

    @property
    def metadata(self) -> dict[str, str]:
        """The graph's own metadata, such as the certificate id it carries."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    @property
    def inputs(self) -> dict[str, list[int | str | None]]:
        """Name and shape of every input; named dimensions are text."""
        return {found.name: list(found.shape) for found in self._session.get_inputs()}

    @property
    def outputs(self) -> dict[str, list[int | str | None]]:
        """Name and shape of every output."""
        return {found.name: list(found.shape) for found in self._session.get_outputs()}

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Returns every output, in the graph's order."""
        try:
            try:
                outputs = self._outputs(inputs)
            except Exception as error:
                if not self._is_short_of_memory(error):
                    raise
                # Other threads' runs may have had the memory; whether it is enough, it shows alone.
                outputs = self._outputs(inputs, alone=True)
        except HushdocError:
            raise
        except Exception as error:  # its exceptions share no base but Exception
            shapes = {name: np.shape(value) for name, value in inputs.items()}
            if self._is_short_of_memory(error):
                raise LimitExceededError(
                    f"Input of the shapes {shapes} needs more than the {self._limit} bytes that "
                    "memory_limit allows. Raise the limit or pass smaller batches."
                ) from error
            raise ArtifactError(
                f"The graph failed on inputs of the shapes {shapes}: {_first_line(error)}. "
                "Expected a graph that fits its manifest and tokenizer; export the artifact again."
            ) from error
        self._give_back_at_times()
        return [np.asarray(found) for found in outputs]

    def _outputs(self, inputs: Mapping[str, Array], *, alone: bool = False) -> Any:
        options = self._onnxruntime.RunOptions()
        options.log_severity_level = FATAL
        # Without this the arena keeps the largest run's memory forever.
        options.add_run_config_entry(
            "memory.enable_memory_arena_shrinkage", "cpu:0" if self.device == "cpu" else "gpu:0"
        )
        with forking.native(self._name, alone=alone):
            return self._session.run(None, dict(inputs), options)

    def _is_short_of_memory(self, error: Exception) -> bool:
        return self._limit is not None and "smaller than requested" in str(error)

    def _give_back_at_times(self) -> None:
        """Gives freed memory back now and then: many threads otherwise keep more and more."""
        now = time.monotonic()
        if now - self._trimmed_at > TRIM_SECONDS:
            # Two threads may both see the old time; once more does no harm.
            self._trimmed_at = now
            give_back_freed_memory()


@functools.cache
def clips_products() -> bool:
    """Whether sums of two products of bytes are cut to 16 bits here, as without VNNI they are.

    An int8 model would then give other answers than on the processor on which it was sealed.
    """
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = FATAL, 1
    session = onnxruntime.InferenceSession(_FOUR_PRODUCTS, options, providers=[PROVIDERS["cpu"]])
    [[[found]]] = session.run(None, {"a": np.full((1, 4), 255, np.uint8)})
    return int(found) != 4 * 255 * 127


def import_onnxruntime() -> Any:
    """Returns the package, imported with its telemetry off, or raises; see `telemetry.keep_off`."""
    with _door:
        telemetry.keep_off()
        if "onnxruntime" in sys.modules:
            return sys.modules["onnxruntime"]
        refuse_both_builds()
        with needs_extra("onnxruntime", "cpu"):
            import onnxruntime
        onnxruntime.set_default_logger_severity(FATAL)
        return onnxruntime


def refuse_both_builds() -> None:
    """Raises DeviceUnavailableError if the builds for cpu and gpu are both installed."""
    installed = installed_builds()
    if len(installed) > 1:
        raise DeviceUnavailableError(
            f"{' and '.join(installed)} are both installed; they share their files, and the last "
            "one installed has overwritten the other. Uninstall both, then install one: "
            "pip install 'hushdoc[cpu]' or 'hushdoc[gpu]'.",
            code="ONNXRUNTIME_CONFLICT",
        )


def installed_builds() -> list[str]:
    """Returns name and version of every build of onnxruntime; more than one is a conflict."""
    installed = []
    for name in ("onnxruntime", "onnxruntime-gpu"):
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return installed


def give_back_freed_memory() -> None:
    """Returns to the system what the C library freed and keeps for later.

    Parsing a graph frees as much as its weights take; glibc would keep most of it forever.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def require_device(device: str, available: Sequence[str]) -> None:
    """Raises unless a device is one we know and this build of onnxruntime has it."""
    arguments.choice(device, tuple(PROVIDERS), what="device")
    if PROVIDERS[device] not in available:
        raise _unavailable(device, available)


def _unavailable(device: str, found: Sequence[str]) -> DeviceUnavailableError:
    return DeviceUnavailableError(
        f"The device '{device}' was asked for, and onnxruntime offers {', '.join(found)}. Install "
        "'hushdoc[gpu]' in place of 'hushdoc[cpu]' with a matching CUDA, or pass device=\"cpu\"."
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def require_ports(session: Session, manifest: Mapping[str, Any], inputs: Collection[str]) -> None:
    """Raises unless the graph has the manifest's ports, and exactly these inputs."""
    for declared, real in (
        (manifest["inputs"], session.inputs),
        (manifest["outputs"], session.outputs),
    ):
        shapes = {item["name"]: item["shape"] for item in declared if _is_port(item)}
        if shapes != real:
            raise ArtifactError(
                f"The manifest declares {shapes}, the graph has {real}. Export the artifact again."
            )
    if sorted(session.inputs) != sorted(inputs):
        raise ArtifactError(
            f"The graph reads {sorted(session.inputs)}; a model for '{manifest['task']}' reads "
            f"{sorted(inputs)}. Export the artifact again."
        )


def require_finite(numbers: Array) -> None:
    """Raises ArtifactError if a graph answered with a number that is not finite."""
    if not np.isfinite(numbers).all():
        raise ArtifactError(
            "The model answered with numbers that are not finite. Its weights are damaged or "
            "overflow on this device; export the artifact again."
        )


def _is_port(item: Any) -> bool:
    return isinstance(item, dict) and {"name", "shape"} <= item.keys() and type(item["name"]) is str
