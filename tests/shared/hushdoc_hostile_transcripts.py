"""Certificates whose transcripts make work, and models of any structure: honest in form alone."""

from __future__ import annotations

import json
from typing import Any

import hushdoc_builders as build
from hushdoc_damage import Random

from hushdoc.accounting.mechanism import ADJACENCIES

DEEPEST = 5


def statement(sound: bytes, dice: Random) -> bytes:
    """Returns a statement with other transcripts, deltas and profiles, of any size."""
    data = json.loads(sound)
    predicate = data["predicate"]
    event = _event(dice, DEEPEST)
    predicate["transcripts"] = {"training": event}
    for promise in predicate["guarantees"]:
        promise["epsilon"] = dice.choice((8.0, 8.0, 7.9, 1.0, 1e-3, 9.0))
        promise["delta"] = dice.choice((1e-5, 1e-5, 1e-5, 1e-9, 1e-30, 1e-300, 0.0))
        promise["adjacency"] = dice.choice(("add-remove",) * 9 + ADJACENCIES)
        promise["samplingAsImplemented"] = _sampling(event)
        points = dice.choice((0, 0, 1, 31))
        promise["profile"] = [[9.0 + point, 1e-6 / (1 + point)] for point in range(points)]
    predicate["guarantees"] *= dice.choice((1, 1, 1, 8))
    return json.dumps(data).encode()


def _sampling(event: dict[str, Any]) -> str:
    """Returns the word for how a transcript's records are drawn, where it draws them in one way."""
    text = json.dumps(event)
    if "without-replacement" in text:
        return "fixed-size"
    return "poisson" if "poisson-sampled" in text else "full-batch"


def _spread(dice: Random, low: float, high: float) -> float:
    """Returns a number whose size is as likely to be anything in between."""
    return float(10 ** dice.uniform(low, high))


def _event(dice: Random, depth: int) -> dict[str, Any]:
    if depth == 0 or dice.random() < 0.15:
        return {"type": "gaussian", "noiseMultiplier": _spread(dice, -3, 6)}
    inner = _event(dice, depth - 1)
    match dice.randrange(9):
        case 0 | 1 | 2:
            return {"type": "composed", "event": inner, "count": int(_spread(dice, 0, 15))}
        case 3 | 4:
            rate = _spread(dice, -9, 0)
            return {"type": "poisson-sampled", "event": inner, "samplingRate": rate}
        case 5:
            more = [_event(dice, min(1, depth - 1)) for _ in range(dice.choice((2, 30, 300)))]
            return {"type": "sequence", "events": [inner, *more]}
        case 6:
            more = [_event(dice, depth - 1) for _ in range(dice.choice((1, 5)))]
            return {"type": "parallel", "events": [inner, *more]}
        case 7:
            return {"type": "group", "event": inner, "size": int(_spread(dice, 0, 6))}
        case _:
            population = int(_spread(dice, 0, 12))
            return {
                "type": "without-replacement",
                "event": inner,
                "population": population,
                "sampleSize": dice.randrange(population + 1),
            }


def model(_: bytes, dice: Random) -> bytes:
    """Returns a protobuf message of an ONNX model's outer form with anything inside."""
    return build.onnx(*(_message(dice, dice.choice((1, 3, 40, 400))) for _ in range(3)))


def _message(dice: Random, depth: int) -> bytes:
    """Returns a message inside messages, each with some others beside it."""
    content = b"\0" * dice.choice((0, 1, 9))
    for _ in range(depth):
        beside = build.number(dice.choice((1, 2, 3, 4, 14, 20)), dice.getrandbits(40))
        text = build.message(dice.choice((1, 2, 3, 4, 8, 13)), "x" * dice.choice((0, 1, 20)))
        content = build.message(
            dice.choice((1, 5, 6, 7, 10, 11, 12, 20)),
            content,
            beside * dice.choice((0, 1, 9)),
            text,
        )
        if len(content) > 2**17:
            break
    return content * dice.choice((1, 1, 50))
