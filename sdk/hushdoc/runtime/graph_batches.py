"""Windows and images through a graph, in batches that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from hushdoc.artifact.artifact import Artifact
from hushdoc.errors import ArtifactError, LimitExceededError
from hushdoc.runtime import windows
from hushdoc.runtime.encoding import PIXELS, EncodedPage, Encoder
from hushdoc.runtime.images import ImagePreprocessing, Pixels
from hushdoc.runtime.session import Array, Runtime, Session, require_finite, require_ports
from hushdoc.runtime.windows import Window

Item = TypeVar("Item")

MAX_BATCH_TOKENS = {"cpu": 512, "cuda": 2048}
"""Most tokens, padding and patches included, that one run of a graph gets: bounds the working
memory. On a CPU larger batches are slower, because they leave its caches."""

PATCH = 16
"""Side of the patches (pixels) that images are counted in where batches are made."""


def open_graph(
    artifact: Artifact,
    inputs: Collection[str],
    *,
    device: str,
    runtime: Runtime | None,
    image: ImagePreprocessing | None = None,
) -> Session:
    """Returns an artifact's graph, loaded; it has the manifest's ports and reads such images."""
    with artifact.source(artifact.manifest["entry"]) as graph:
        session = Session(graph, device=device, runtime=runtime)
    require_ports(session, artifact.manifest, inputs)
    if image is not None:
        require_image_size(session, image)
    return session


def require_image_size(session: Session, image: ImagePreprocessing) -> None:
    """Raises ArtifactError unless a graph reads images of the size that the settings make."""
    shape, size = session.inputs[PIXELS], [3, image.height, image.width]
    if len(shape) != 4 or shape[1:] != size:
        raise ArtifactError(
            f"The graph reads images of the shape {shape} and the manifest makes them {size} "
            "each. Export the artifact again."
        )


def output_width(
    session: Session, axes: Sequence[str], *, width: int | None = None, what: str
) -> int:
    """Returns how many numbers a graph answers along the last axis of its only output."""
    shapes = list(session.outputs.values())
    last = shapes[0][-1] if len(shapes) == 1 and len(shapes[0]) == len(axes) + 1 else None
    if not isinstance(last, int) or width not in (None, last):
        raise ArtifactError(
            f"The graph's outputs have the shapes {shapes}; {what} needs one of "
            f"[{', '.join(axes)}, {width or 'dimensions'}]. Export the artifact again."
        )
    return last


def window_outputs(
    session: Session,
    encoder: Encoder,
    pages: Sequence[EncodedPage],
    parts: Sequence[Window],
    drawn: Mapping[int, Pixels] | None = None,
) -> Iterator[tuple[Sequence[Window], Array]]:
    """Yields windows of some pages that were read together, and the graph's first output for them.

    `drawn` has the images of these pages, for a model that reads them.
    """
    names = session.inputs

    def inputs(batch: Sequence[Window]) -> Mapping[str, Array]:
        arrays = encoder.batch(
            [(pages[part.page], part.start, part.stop) for part in batch],
            pixel_values=None if drawn is None else [drawn[part.page] for part in batch],
        )
        return {name: arrays[name] for name in names}

    image = encoder.preprocessing.image
    patches = 0 if image is None else image.height * image.width // PATCH**2 + 1
    most = 0 if session.scaled_by_run else MAX_BATCH_TOKENS[session.device]
    for batch in windows.batches(parts, max_tokens=most, patches=patches):
        yield from in_halves(session, batch, inputs)


def in_halves(
    session: Session,
    batch: Sequence[Item],
    inputs: Callable[[Sequence[Item]], Mapping[str, Array]],
) -> Iterator[tuple[Sequence[Item], Array]]:
    """Yields a batch and its first output; see `all_in_halves`."""
    for some, outputs in all_in_halves(session, batch, inputs):
        yield some, outputs[0]


def all_in_halves(
    session: Session,
    batch: Sequence[Item],
    inputs: Callable[[Sequence[Item]], Mapping[str, Array]],
) -> Iterator[tuple[Sequence[Item], list[Array]]]:
    """Yields a batch and its outputs, or its halves with theirs where memory does not suffice."""
    try:
        outputs = session.run(inputs(batch))
    except LimitExceededError:
        if len(batch) == 1:
            raise
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            yield from all_in_halves(session, half, inputs)
        return
    for output in outputs:
        require_finite(output)
    yield batch, outputs
