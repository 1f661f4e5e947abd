from __future__ import annotations

import pytest
from hushdoc_secure_sums import Parties, drawn, terms

from hushdoc_training.federated import traffic


def test_the_papers_traffic() -> None:
    sent = traffic.model_bytes(numbers=299_682_048, clients_per_round=2, rounds=10)
    assert sent == 299_682_048 * 4 * 40
    assert f"{sent / traffic.GIB:.2f}" == "44.66"


@pytest.mark.parametrize("mode", ["threshold", "all-or-nothing"])
@pytest.mark.parametrize(("clients", "bits"), [(2, 64), (5, 32)])
def test_what_a_client_sends_is_what_the_formula_says(mode: str, clients: int, bits: int) -> None:
    parties = Parties(terms(clients, mode=mode, ring_bits=bits))
    parties.round(0, drawn(parties.terms))
    parties.sent.clear()
    parties.round(1, drawn(parties.terms))
    for name in parties.clients:
        sent = [frame for frame in parties.sent if frame.sender == name]
        assert sum(len(frame.payload) for frame in sent) == traffic.uplink_bytes(parties.terms)
        assert all(len(frame.encoded) - len(frame.payload) < 600 for frame in sent)
