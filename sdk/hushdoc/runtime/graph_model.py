"""What all models share whose graph ONNX Runtime runs: how they are loaded and asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from hushdoc import arguments
from hushdoc.artifact.artifact import Artifact, open_artifact
from hushdoc.errors import LimitExceededError
from hushdoc.policy.policy import Policy
from hushdoc.runtime import windows
from hushdoc.runtime.session import Array, Runtime, Session, require_finite
from hushdoc.runtime.windows import Window

Item = TypeVar("Item")

MAX_BATCH_TOKENS = {"cpu": 512, "cuda": 2048}
"""Most tokens, padding and patches included, that one run of a graph gets: bounds the working
memory. On a CPU larger batches are slower, because they leave its caches."""


class GraphModel(ABC):
    """A verified model; there is one class for each task."""

    _session: Session

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        policy: Policy,
        device: str = "cpu",
        runtime: Runtime | None = None,
        low_memory: bool = False,
    ) -> Self:
        """Returns the model of an artifact that the policy accepts.

        Args:
            path: The artifact's folder.
            policy: What the application demands of the certificate.
            device: "cpu" or "cuda"; a device that is not there raises.
            runtime: Threads and memory; all usable cores by default.
            low_memory: Whether the weights are loaded from the file that was checked, rather than
                from a second copy in memory. Needs Linux.

        Raises:
            InputError: The path or the runtime is none.
            ArtifactError: The folder is not a sound artifact.
            CertificateError: The certificate is missing, malformed or not signed by a trusted key.
            PolicyViolationError: The policy refuses the certificate.
            TaskMismatchError: The artifact was built for another task.
            DeviceUnavailableError: The device is not there.
        """
        folder = arguments.place(path, what="The artifact's folder")
        with open_artifact(folder, policy, low_memory=low_memory) as checked:
            return cls.from_artifact(checked, device=device, runtime=runtime)

    @classmethod
    @abstractmethod
    def from_artifact(
        cls, artifact: Artifact, *, device: str = "cpu", runtime: Runtime | None = None
    ) -> Self:
        """Returns the model of an artifact that was opened, and thereby checked, already."""

    def _outputs(
        self,
        parts: Sequence[Window],
        inputs: Callable[[Sequence[Window]], Mapping[str, Array]],
        *,
        patches: int = 0,
    ) -> Iterator[tuple[Sequence[Window], Array]]:
        """Yields windows that were read together, and the graph's first output for them.

        Args:
            parts: All windows, in any order.
            inputs: Returns the graph's inputs for some of them.
            patches: What the model reads with each of them besides its tokens.

        Raises:
            ArtifactError: The graph fails, or answers numbers that are not finite.
            LimitExceededError: One window alone needs more memory than the limit.
        """
        session = self._session
        most = 0 if session.scaled_by_run else MAX_BATCH_TOKENS[session.device]
        for batch in windows.batches(parts, max_tokens=most, patches=patches):
            yield from in_halves(session, batch, inputs)


def in_halves(
    session: Session,
    batch: Sequence[Item],
    inputs: Callable[[Sequence[Item]], Mapping[str, Array]],
) -> Iterator[tuple[Sequence[Item], Array]]:
    """Yields a batch and its output; where memory does not suffice for it, its halves with theirs.

    Raises:
        ArtifactError: The graph fails, or answers numbers that are not finite.
        LimitExceededError: One item alone needs more memory than the limit.
    """
    try:
        output = session.run(inputs(batch))[0]
    except LimitExceededError:
        if len(batch) == 1:
            raise
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            yield from in_halves(session, half, inputs)
        return
    require_finite(output)
    yield batch, output
