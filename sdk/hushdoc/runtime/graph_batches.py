"""Windows and images through a graph, in batches that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from hushdoc.artifact.artifact import Artifact
from hushdoc.errors import LimitExceededError
from hushdoc.runtime import windows
from hushdoc.runtime.session import Array, Runtime, Session, require_finite, require_ports
from hushdoc.runtime.windows import Window

Item = TypeVar("Item")

MAX_BATCH_TOKENS = {"cpu": 512, "cuda": 2048}
"""Most tokens, padding and patches included, that one run of a graph gets: bounds the working
memory. On a CPU larger batches are slower, because they leave its caches."""


def open_graph(
    artifact: Artifact, inputs: Collection[str], *, device: str, runtime: Runtime | None
) -> Session:
    """Returns an artifact's graph, loaded; it must have the manifest's ports and these inputs."""
    with artifact.source(artifact.manifest["entry"]) as graph:
        session = Session(graph, device=device, runtime=runtime)
    require_ports(session, artifact.manifest, inputs)
    return session


def window_outputs(
    session: Session,
    parts: Sequence[Window],
    inputs: Callable[[Sequence[Window]], Mapping[str, Array]],
    *,
    patches: int = 0,
) -> Iterator[tuple[Sequence[Window], Array]]:
    """Yields windows that were read together, and the graph's first output for them.

    Args:
        session: The graph.
        parts: All windows, in any order.
        inputs: Returns the graph's inputs for some of them.
        patches: What the model reads with each of them besides its tokens.

    Raises:
        ArtifactError: The graph fails, or answers numbers that are not finite.
        LimitExceededError: One window alone needs more memory than the limit.
    """
    most = 0 if session.scaled_by_run else MAX_BATCH_TOKENS[session.device]
    for batch in windows.batches(parts, max_tokens=most, patches=patches):
        yield from in_halves(session, batch, inputs)


def in_halves(
    session: Session,
    batch: Sequence[Item],
    inputs: Callable[[Sequence[Item]], Mapping[str, Array]],
) -> Iterator[tuple[Sequence[Item], Array]]:
    """Yields a batch and its output, or its halves with theirs where memory does not suffice."""
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
