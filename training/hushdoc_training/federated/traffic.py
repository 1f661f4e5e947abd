"""Traffic: how many bytes rounds carry, by formula; coordinators log what was really sent."""

from __future__ import annotations

from hushdoc_training.federated.masks import KEY_BYTES
from hushdoc_training.federated.secret_sharing import SHARE_BYTES
from hushdoc_training.federated.secure_sum import (
    ALL_OR_NOTHING,
    SEALED_BYTES,
    SURVIVORS_BYTES,
    SumTerms,
)

GIB = 2**30


def model_bytes(*, numbers: int, clients_per_round: int, rounds: int, number_bytes: int = 4) -> int:
    """Returns the bytes of models and updates without a secure sum, as papers count them.

    Each client of a round is sent the model and sends one of the same size back.

    Example:
        VT5 of PFL-DocVQA, two of ten clients in each of ten rounds (GiB):

        >>> sent = model_bytes(numbers=299_682_048, clients_per_round=2, rounds=10)
        >>> round(sent / GIB, 2)
        44.66
    """
    return 2 * numbers * number_bytes * clients_per_round * rounds


def uplink_bytes(terms: SumTerms) -> int:
    """Returns the bytes of payload that a client sends in a round where nobody is silent.

    All-or-nothing counts a round whose keys were agreed on before. Each frame has some 500 bytes
    of header and signature besides.
    """
    if terms.mode == ALL_OR_NOTHING:
        return terms.vector_bytes
    clients = terms.clients_per_round
    keys, shares = 3 * KEY_BYTES, (clients - 1) * SEALED_BYTES
    return keys + shares + terms.vector_bytes + SURVIVORS_BYTES + clients * SHARE_BYTES
