"""Answers that a VT5 writes about windows, by its graphs: of images, an encoder, and a decoder.

vision    pixel_values -> visual
encoder   input_ids, bbox, attention_mask, visual -> encoder_mask, cross.{i}.key, cross.{i}.value
decoder   tokens, encoder_mask, past.{i}.key|value, cross.{i}.key|value
          -> logits, present.{i}.key|value

The encoder makes the keys and values of the decoder's attention to it once, and a past of length 0
begins an answer, so that one decoder serves for all tokens, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from hushdoc.artifact.artifact import Artifact
from hushdoc.artifact.manifest import GRAPHS_KEY
from hushdoc.errors import ArtifactError
from hushdoc.runtime import generation, windows
from hushdoc.runtime.answers import Candidate, Reading
from hushdoc.runtime.encoding import PIXELS, IntArray
from hushdoc.runtime.generation import Ground, Past, Step, Written
from hushdoc.runtime.graph_batches import MAX_BATCH_TOKENS, all_in_halves, require_image_size
from hushdoc.runtime.images import Pixels
from hushdoc.runtime.questions import Asking, QuestionEncoder, QuestionRow
from hushdoc.runtime.scoring import settings_errors
from hushdoc.runtime.session import Array, Runtime, Session, require_finite, require_ports

VISION, ENCODER, DECODER = "vision", "encoder", "decoder"
GRAPHS = GRAPHS_KEY
"""Key of a manifest's preprocessing: by its name, each graph beside the entry, which is ENCODER."""

WORDS = ("input_ids", "bbox", "attention_mask")
VISUAL, MASK, TOKENS, LOGITS = "visual", "encoder_mask", "tokens", "logits"
PAST, PRESENT, CROSS = "past.", "present.", "cross."

Sessions = Mapping[str, Session]


def asking_of(manifest: Mapping[str, Any]) -> Asking:
    """Returns the settings in a manifest, which describes further graphs beside those of a VT5."""
    settings = dict(manifest["preprocessing"])
    if settings.get("kind") == "vt5":
        settings.pop(GRAPHS, None)
    return Asking.from_dict(settings)


class Writer:
    """The graphs of a VT5, which write what each row's window answers."""

    def __init__(self, encoder: QuestionEncoder, sessions: Sessions) -> None:
        """Keeps loaded graphs; raises ArtifactError unless they fit each other and the settings."""
        self._encoder = encoder
        self._sessions = sessions
        require_fitting(sessions, encoder)

    def read(
        self,
        rows: Sequence[QuestionRow],
        *,
        count: int,
        grounded: bool = True,
        pixels: Pixels | None = None,
    ) -> dict[QuestionRow, Reading]:
        """Returns what each row's window answers, by as many beams as candidates are wanted.

        `pixels` are the image of the one page that all rows are of, for a model that reads images.
        """
        readings = {}
        for row, found, null_score in self.written(
            rows, beams=count, grounded=grounded, pixels=pixels
        ):
            candidates = (self._candidate(item) for item in found)
            kept = tuple(item for item in candidates if item is not None)
            readings[row] = Reading(candidates=kept, null_score=null_score)
        return readings

    def written(
        self,
        rows: Sequence[QuestionRow],
        *,
        beams: int = 1,
        grounded: bool = True,
        pixels: Pixels | None = None,
    ) -> Iterator[tuple[QuestionRow, tuple[Written, ...], float]]:
        """Yields each row with the answers to it as tokens, and the probability of none."""
        asking = self._encoder.asking
        for row, encoded in self._encoded(rows, pixels):
            found, null_score = generation.written(
                self._step(encoded),
                self._nothing_yet(),
                begin=asking.pad_id,
                end=int(asking.eos_id or 0),
                max_answer=asking.max_answer,
                ground=Ground(page=row.page, start=row.start, stop=row.stop),
                grounded=grounded,
                beams=beams,
            )
            yield row, found, null_score

    def _encoded(
        self, rows: Sequence[QuestionRow], pixels: Pixels | None
    ) -> Iterator[tuple[QuestionRow, list[Array]]]:
        """Yields each row with what the encoder answers for it, in arrays of one row."""
        session = self._sessions[ENCODER]
        visual = None if pixels is None else self._visual(pixels)

        def inputs(batch: Sequence[QuestionRow]) -> Mapping[str, Array]:
            made: dict[str, Array] = dict(self._encoder.batch(batch))
            if visual is not None:
                made[VISUAL] = np.repeat(visual, len(batch), axis=0)
            return made

        most = 0 if session.scaled_by_run else MAX_BATCH_TOKENS[session.device]
        patches = 0 if visual is None else visual.shape[1]
        for some in windows.batches(rows, max_tokens=most, patches=patches):
            for batch, outputs in all_in_halves(session, some, inputs):
                for number, row in enumerate(batch):
                    yield row, [array[number : number + 1] for array in outputs]

    def _visual(self, pixels: Pixels) -> Array:
        (visual,) = self._sessions[VISION].run({PIXELS: pixels[None]})
        require_finite(visual)
        return visual

    def _candidate(self, found: Written) -> Candidate | None:
        """Returns an answer that was written; None for one of no word."""
        if found.words:
            words = range(*found.words[0])
            return Candidate(score=found.score, words=words, ended=found.ended)
        text = " ".join(self._encoder.text(found.tokens).split())
        if not text:
            return None
        return Candidate(score=found.score, words=range(0), text=text, ended=found.ended)

    def _nothing_yet(self) -> Past:
        """Returns the past of one beam before the first token."""
        shapes = self._sessions[DECODER].inputs
        return {
            name: np.zeros((1, _size(shape, 1), 0, _size(shape, 3)), dtype=np.float32)
            for name, shape in shapes.items()
            if name.startswith(PAST)
        }

    def _step(self, encoded: Sequence[Array]) -> Step:
        """Returns the decoder for a window whose encoder answered this for one row."""
        decoder, scoring = self._sessions[DECODER], self._encoder.asking.scores
        temperature = 1.0 if scoring is None else scoring.temperature
        names = list(decoder.outputs)
        of_page = dict(zip(self._sessions[ENCODER].outputs, encoded, strict=True))

        def step(tokens: IntArray, past: Past) -> tuple[Any, Past]:
            nonlocal of_page
            if len(of_page[MASK]) != len(tokens):
                of_page = {n: np.repeat(a[:1], len(tokens), axis=0) for n, a in of_page.items()}
            answered = dict(
                zip(names, decoder.run({TOKENS: tokens, **past, **of_page}), strict=True)
            )
            logits = answered.pop(LOGITS)
            require_finite(logits)
            remembered = {PAST + n.removeprefix(PRESENT): array for n, array in answered.items()}
            return logits / temperature, remembered

        return step


def open_graphs(
    artifact: Artifact, asking: Asking, *, device: str, runtime: Runtime | None
) -> dict[str, Session]:
    """Returns the graphs of an artifact's VT5, loaded; they share one memory limit.

    Raises:
        ArtifactError: The manifest does not describe the graphs that these settings need, or one of
            them has other ports.
    """
    manifest = artifact.manifest
    wanted = [ENCODER, DECODER] + ([] if asking.image is None else [VISION])
    with settings_errors("The description of the graphs"):
        described = {ENCODER: manifest, **manifest["preprocessing"][GRAPHS]}
        if sorted(described) != sorted(wanted):
            raise ValueError(f"it has {sorted(described)}, and such a model {sorted(wanted)}")
        ports = {name: {**described[name], "task": manifest["task"]} for name in wanted}
        entries = [str(ports[name]["entry"]) for name in wanted]
        for name in wanted:
            if not all(isinstance(ports[name][side], list) for side in ("inputs", "outputs")):
                raise TypeError(f"inputs and outputs of {name} must be lists")
    with ExitStack() as stack:
        models = [stack.enter_context(artifact.source(entry)) for entry in entries]
        loaded = Session.together(models, device=device, runtime=runtime)
    sessions = dict(zip(wanted, loaded, strict=True))
    inputs = {
        VISION: [PIXELS],
        ENCODER: [*WORDS, *([] if asking.image is None else [VISUAL])],
        DECODER: list(sessions[DECODER].inputs),
    }
    for name, session in sessions.items():
        require_ports(session, ports[name], inputs[name])
    return sessions


def require_fitting(sessions: Sessions, encoder: QuestionEncoder) -> None:
    """Raises ArtifactError unless the graphs of a VT5 fit each other, the tokens and the images."""
    made, read = sessions[ENCODER], sessions[DECODER]
    handed = {MASK, *(name for name in read.inputs if name.startswith(CROSS))}
    past = [name for name in read.inputs if name.startswith(PAST)]
    present = [PRESENT + name.removeprefix(PAST) for name in past]
    expected = {TOKENS, *handed, *past}
    fits = (
        set(made.outputs) == handed
        and set(read.inputs) == expected
        and len(handed) == len(past) + 1 > 1
        and list(read.outputs) == [LOGITS, *present]
        and _sizes(read.inputs, TOKENS) == [(None, None)]
        and [sizes[:-1] for sizes in _sizes(read.outputs, LOGITS)] == [(None, None)]
        and _sizes(made.outputs, CROSS) == _sizes(read.inputs, CROSS)
        and _sizes(read.inputs, PAST) == _sizes(read.outputs, PRESENT)
        and all(_has_past(shape) for shape in _sizes(read.inputs, PAST))
    )
    if not fits:
        raise ArtifactError(
            f"The decoder reads {_shapes(read.inputs)} and answers {_shapes(read.outputs)}; the "
            f"encoder answers {_shapes(made.outputs)}. Expected a decoder that reads all of it, "
            "and what it answers itself. Export the artifact again."
        )
    width = read.outputs[LOGITS][-1]
    if not isinstance(width, int) or width < encoder.num_tokens:
        raise ArtifactError(
            f"The decoder knows {width} tokens and the tokenizer {encoder.num_tokens}. Expected "
            "logits for each of them. Export the artifact again."
        )
    image = encoder.asking.image
    if image is not None:
        require_image_size(sessions[VISION], image)
        seen, wanted = sessions[VISION].outputs, made.inputs[VISUAL]
        if list(seen) != [VISUAL] or seen[VISUAL][1:] != wanted[1:]:
            raise ArtifactError(
                f"The graph of images answers {_shapes(seen)} and the encoder reads "
                f"{_shapes({VISUAL: wanted})}. Export the artifact again."
            )


def _sizes(shapes: Mapping[str, Sequence[Any]], kind: str) -> list[tuple[int | None, ...]]:
    """Returns the sizes of the keys and values of a kind, in order; None for one that varies."""
    found = [shape for name, shape in shapes.items() if name.startswith(kind)]
    return [tuple(size if isinstance(size, int) else None for size in shape) for shape in found]


def _has_past(sizes: Sequence[int | None]) -> bool:
    """Returns whether it is [batch, heads, tokens, width] with any number of tokens."""
    return len(sizes) == 4 and None not in (sizes[1], sizes[3]) and sizes[2] is None


def _size(shape: Sequence[Any], axis: int) -> int:
    return int(shape[axis])


def _shapes(shapes: Mapping[str, Sequence[Any]]) -> str:
    """Returns names and shapes for messages, the first few of many."""
    shown = [f"{name} {list(shape)}" for name, shape in list(shapes.items())[:4]]
    return ", ".join(shown + (["..."] if len(shapes) > 4 else []))
