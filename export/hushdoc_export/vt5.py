"""A VT5 as what is released: its graphs, and how close to it they must be to be sealed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushdoc.errors import CheckpointError
from hushdoc.labels import LabelledDocument
from hushdoc.runtime import images
from hushdoc.runtime.encoding import in_order, laid_out
from hushdoc.runtime.generation import AHEAD
from hushdoc.runtime.images import Pixels
from hushdoc.runtime.questions import QuestionEncoder, QuestionRow
from hushdoc.runtime.writing import DECODER, ENCODER, MASK, TOKENS, VISION, WORDS, Writer
from hushdoc_export import probes, question_agreement, seq2seq
from hushdoc_export.probes import Inputs
from hushdoc_export.release import Sessions

if TYPE_CHECKING:
    from hushdoc_training.models.vt5 import VT5


def require_settings(model: VT5, encoder: QuestionEncoder) -> None:
    """Raises CheckpointError unless images and tokens are those that the model was made for."""
    asking, config = encoder.asking, model.t5.config
    sizes = [
        None if image is None else (image.height, image.width)
        for image in (model.image_preprocessing(), asking.image)
    ]
    if sizes[0] != sizes[1]:
        raise CheckpointError(
            f"The model reads images of the size {sizes[0]}, and its settings make them "
            f"{sizes[1]}. Train again, or restore the folder."
        )
    found = (config.decoder_start_token_id, config.pad_token_id, config.eos_token_id)
    ids = (asking.pad_id, asking.pad_id, asking.eos_id)
    if found != ids or encoder.num_tokens > config.vocab_size:
        raise CheckpointError(
            f"The model starts, pads and ends answers by the ids {found} of {config.vocab_size}; "
            f"its settings say {ids}, of {encoder.num_tokens}. Train again, or restore the folder."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Writing:
    """A VT5 with the settings that it is asked with; a `release.Product`."""

    model: VT5
    encoder: QuestionEncoder
    entry: str = ENCODER

    def traced(self, *, fused: bool) -> dict[str, Any]:
        """Returns the onnx.ModelProto of each graph; the decoder's attention is no operator."""
        made = seq2seq.parts(self.model, max_tokens=self.encoder.asking.max_tokens)
        return {name: part.traced(fused=fused) for name, part in made.items()}

    def compared(self, graphs: Sessions, *, tolerance: float | None) -> dict[str, Any]:
        """Returns how far forced tokens differ and, within a tolerance, that free ones do not."""
        found: dict[str, Any] = {
            "maxDifference": max(
                seq2seq.compare(self.model, graphs, probe, targets, tolerance=tolerance)
                for probe, targets in self._probes()
            ),
            "tolerance": tolerance,
            "inputs": "forced tokens on invented tokens and boxes",
        }
        return found if tolerance is None else {**found, "sameTokens": self._same_tokens(graphs)}

    def example(self, name: str) -> Inputs:
        """Returns an input of each kind that is no float32."""
        number = np.zeros(1, dtype=np.int64)
        names = (TOKENS, MASK) if name == DECODER else (MASK, *WORDS)
        return {} if name == VISION else dict.fromkeys(names, number)

    def _probes(self) -> list[tuple[Inputs, Any]]:
        """Returns inputs of several shapes, each with answers of several lengths."""
        asking, config = self.encoder.asking, self.model.t5.config
        made = probes.of_text(
            self.model,
            replace(asking.of_pages, max_tokens=asking.max_tokens, overlap=0),
            vocab_size=config.vocab_size,
            output="logits",
            boxes=True,
        )
        return [(probe, _answers(probe, config)) for probe in made.probes]

    def _same_tokens(self, graphs: Sessions) -> int:
        """Returns to how many questions the graphs write what transformers does; or ParityError."""
        with question_agreement.invented_questions(self.encoder) as documents:
            return sum(self._same_of(item, Writer(self.encoder, graphs)) for item in documents)

    def _same_of(self, item: LabelledDocument, writer: Writer) -> int:
        """Returns how many questions a document has, whose answers have the same tokens."""
        rows, pixels = self._rows(item)
        images_of_row = None if pixels is None else [pixels]
        for row, (best, *_), null_score in writer.written(rows, grounded=False, pixels=pixels):
            inputs = self.encoder.batch([row], pixel_values=images_of_row)
            expected = seq2seq.generated(
                self.model, inputs, max_answer=self.encoder.asking.max_answer
            )
            none = not expected and best.score <= null_score
            seq2seq.require_same_tokens(self.model, inputs, expected, () if none else best.tokens)
        return len(rows)

    def _rows(self, item: LabelledDocument) -> tuple[list[QuestionRow], Pixels | None]:
        """Returns each question with the first window of the first page, and that page's image."""
        asking = self.encoder.asking
        document, _ = laid_out(item.document, asking.of_pages)
        document, _ = in_order(document, asking.of_pages)
        page = self.encoder.page(document.pages[0])
        rows = []
        for question in item.questions:
            tokens = self.encoder.question(question.text)
            window = self.encoder.windows([page], tokens)[0]
            rows.append(
                QuestionRow(question=tokens, page=page, start=window.start, stop=window.stop)
            )
        image = asking.image
        return rows, None if image is None else images.pixels_of_page(document, 0, image)


def _answers(probe: Inputs, config: Any) -> Any:
    """Returns invented answers to the rows of a probe, each one token longer than the last.

    All are longer than what the decoder is given at once.
    """
    from hushdoc_training.models.vt5 import IGNORED

    rows = len(probe["input_ids"])
    generator = np.random.default_rng(rows)
    shortest = AHEAD + 2
    targets = generator.integers(0, config.vocab_size, (rows, rows + shortest), dtype=np.int64)
    for row in range(rows):
        targets[row, row + shortest] = config.eos_token_id
        targets[row, row + shortest + 1 :] = IGNORED
    return targets
