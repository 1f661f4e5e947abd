"""What OpenAPI says of the routes: bodies, options, and examples made by the classes themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushdoc.document.page import Box
from hushdoc.errors import EmptyDocumentError
from hushdoc.runtime.answers import Answer, Answers
from hushdoc.runtime.extraction import Extraction, Field, Timings
from hushdoc.runtime.label_scores import Classification, LabelScore
from hushdoc.runtime.vectors import Embedding
from hushdoc.server.answers import ZIP, Operation
from hushdoc.server.problems import MEDIA_TYPE, problem_of
from hushdoc.server.uploads import MULTIPART, RAW

_BINARY = {"type": "string", "format": "binary"}
_LISTS = ("question", "label")

DOCUMENT = {
    "id": "invoice",
    "pages": [
        {
            "width": 595,
            "height": 842,
            "words": [
                {"text": "Total", "box": [40, 700, 80, 712]},
                {"text": "119.00", "box": [90, 700, 130, 712]},
            ],
        }
    ],
}
"""Words with their boxes, as `Document.to_dict` writes them."""


def request_of(operation: Operation) -> dict[str, Any]:
    """Returns the options and the body of a request."""

    def schema(option: str) -> dict[str, Any]:
        one = {"type": "string"}
        return {"type": "array", "items": one} if option in _LISTS else one

    files: dict[str, Any] = {"type": "array", "items": _BINARY}
    form = {option: schema(option) for option in operation.options} | {"file": files}
    content: dict[str, Any] = {kind: {"schema": _BINARY} for kind in RAW}
    content["application/json"] = {"schema": {"type": "object"}, "example": DOCUMENT}
    content[MULTIPART] = {"schema": {"type": "object", "properties": form, "required": ["file"]}}
    return {
        "parameters": [
            {"name": option, "in": "query", "description": words, "schema": schema(option)}
            for option, words in operation.options.items()
        ],
        "requestBody": {"required": True, "content": content},
    }


def responses(name: str) -> dict[int | str, dict[str, Any]]:
    """Returns an example of what is answered, and of a problem."""
    examples = _examples()
    body = {"application/json": {"example": examples[name]}} if name in examples else {ZIP: {}}
    error = EmptyDocumentError("The file is empty: it has 0 bytes. Check its origin.")
    return {
        200: {"description": "One document; of several {results: [...]}", "content": body},
        "default": {
            "description": "A problem (RFC 9457) with a code of docs/error-codes.md",
            "content": {MEDIA_TYPE: {"example": problem_of(error)}},
        },
    }


def _examples() -> dict[str, dict[str, Any]]:
    timings = Timings(encoding_seconds=0.001, model_seconds=0.004, decoding_seconds=0.001)
    common: dict[str, Any] = {"document_id": "invoice", "warnings": (), "timings": timings}
    box = Box(x0=90, y0=700, x1=130, y1=712)
    place: dict[str, Any] = {"text": "119.00", "score": 0.93, "page": 0, "word_ids": (1,)}
    field = Field(label="total", box=box, normalized=(151, 831, 218, 845), **place)
    best = Answer(
        boxes=(box,),
        normalized=((151, 831, 218, 845),),
        null_score=0.02,
        evidence="words",
        **place,
    )
    extraction = Extraction(fields=(field,), below_threshold=(), coverage=1.0, **common)
    answers = Answers(
        question="What is the total?", best=best, candidates=(best,), coverage=1.0, **common
    )
    scores = (LabelScore(label="invoice", score=0.97),)
    classification = Classification(scores=scores, below_threshold=False, coverage=1.0, **common)
    embedding = Embedding(
        level="page",
        vectors=np.array([[0.6, 0.8]], dtype=np.float32),
        pages=(0,),
        labels=(None,),
        coverage=(1.0,),
        num_windows=(1,),
        **common,
    )
    return {
        "extract": extraction.to_dict(),
        "ask": {"document_id": "invoice", "answers": [answers.to_dict()]},
        "classify": classification.to_dict(),
        "embed": embedding.to_dict(),
    }
