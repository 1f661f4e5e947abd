from __future__ import annotations

from hushdoc.hashing import segmentation
from hushdoc_training.crf import corpus
from hushdoc_training.invented import clause_contracts as invented


def test_contracts_are_functions_of_seed_and_index() -> None:
    assert invented.contracts(3, seed=2) == invented.contracts(5, seed=2)[:3]
    texts = {contract.text for seed in (0, 1) for contract in invented.contracts(50, seed=seed)}
    assert len(texts) == 100
    groups = [contract.group for contract in invented.contracts(6)]
    assert len(set(groups)) == 3


def test_every_clause_is_a_sentence_of_its_own() -> None:
    for contract in invented.contracts(50):
        marked = [label for label, _, _ in contract.spans]
        assert len(marked) == len(set(marked))
        assert set(marked) <= set(invented.CLAUSES)
        for _, start, stop in contract.spans:
            [around] = [
                place
                for place in segmentation.sentences(contract.text)
                if place[0] <= start and stop <= place[1]
            ]
            # The number of the clause belongs to its sentence.
            assert contract.text[slice(*around)].endswith(contract.text[start:stop])
    labels = corpus.sentence_corpus(invented.contracts(50), [*invented.CLAUSES]).labels
    assert set(labels.tolist()) == set(range(5))


def test_names_mean_nothing_and_differ() -> None:
    names = invented.names(1000)
    assert len(set(names)) == 1000
    assert all(name.isalpha() and name[0].isupper() for name in names)
    assert names != invented.names(1000, seed=1)
