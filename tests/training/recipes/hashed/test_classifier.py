"""Tables of kinds of whole texts, and what their certificates may say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from hushdoc.errors import AnnotationError
from hushdoc_training.crf import linear, whole_texts
from hushdoc_training.crf.corpus import Corpus
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.hashed import classifier, private_runs, table_attacks
from hushdoc_training.recipes.hashed.crf import Trained
from hushdoc_training.recipes.hashed.settings import CRFSettings
from hushdoc_training.recipes.hashed.table_tasks import WholeTexts

OWN = classifier.scheme(8009)
NAMES = ("farm", "law", "sea")


@dataclass(frozen=True)
class Told:
    text: str
    label: str


def spelled(number: int) -> str:
    """Letters alone: attacks ask for words, not for numbers."""
    return "".join(chr(97 + int(digit)) for digit in str(number))


def texts(count: int, seed: int) -> list[Told]:
    """Texts of three sentences: 60 words of each kind, 400 of all, and one of each text alone."""
    chance = np.random.default_rng(seed)
    told = []
    for number in range(count):
        kind = NAMES[chance.integers(3)]
        own = [f"{kind}{spelled(word)}" for word in chance.integers(60, size=6)]
        rest = [f"all{spelled(word)}" for word in chance.integers(400, size=10)]
        alone = f"name{spelled(number)}of{kind}"
        told.append(Told(f"{' '.join(own)}.\n\n{' '.join(rest)}.\n\n{alone}", kind))
    return told


def corpus(count: int, seed: int, *, names: tuple[str, ...] = NAMES) -> Corpus:
    return whole_texts.class_corpus(texts(count, seed), names)


def filled(fill: str, made: Corpus) -> Trained:
    settings = CRFSettings(fill=fill)
    return classifier.fit_and_fill(made, OWN, settings, stream=SecretStream(key=bytes(32)))


def right(weights: np.ndarray, made: Corpus) -> float:
    found = whole_texts.whole(made.features(OWN), made)
    given = [weights[found.rows_of(item)].sum(axis=0).argmax() for item in range(found.num_items)]
    return float((np.array(given) == whole_texts.classes(made)).mean())


@pytest.mark.parametrize("names", [NAMES, NAMES[1:]])
def test_an_unfilled_table_answers_as_scikit_learn_does(names: tuple[str, ...]) -> None:
    train, test = corpus(300, 0, names=names), corpus(100, 1, names=names)
    matrices = [
        linear.counted(whole_texts.whole(made.features(OWN), made), OWN.rows)
        for made in (train, test)
    ]
    peer = linear.support_vectors(intercept=False)
    peer.fit(matrices[0], whole_texts.classes(train))
    features = whole_texts.whole(test.features(OWN), test)
    weights = filled("none", train).weights.astype(np.float64)
    scores = [weights[features.rows_of(item)].sum(axis=0) for item in range(features.num_items)]
    given, asked = np.array(scores).argmax(axis=1), peer.predict(matrices[1])
    top = np.sort(np.array(scores), axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-3
    assert clear.sum() > 0.9 * len(asked)
    assert np.array_equal(given[clear], asked[clear])


@pytest.mark.parametrize("fill", ["paper-fill", "noisy-fill"])
def test_filled_tables_still_know_and_attacks_tell_which_fill_it_was(
    fill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_attacks, "PUZZLES", 100)
    monkeypatch.setattr(table_attacks, "CANDIDATES", 40)
    trained = filled(fill, corpus(400, 0))
    assert trained.weights.any(axis=1).all()
    assert right(trained.weights, corpus(200, 1)) > 0.9
    found = {attack.method: attack for attack in classifier.attacks(trained)}
    assert any("terms of more than" in method for method in found)
    if fill == "paper-fill":
        assert found["classifier two-sample test"].auc > 0.8
    else:
        assert found["classifier two-sample test"].auc < 0.6
        assert 0.4 < found["candidate score, terms of at most 9 documents"].auc < 0.6


def test_emptying_a_term_changes_its_own_row_and_no_other() -> None:
    made = corpus(200, 0)
    term = "lawh"
    emptied = replace(
        made,
        sentences=tuple([token for token in tokens if token != term] for tokens in made.sentences),
    )
    tables = [WholeTexts(corpus=side, scheme=OWN).log_odds(1.0).weights for side in (made, emptied)]
    changed = np.flatnonzero((tables[0] != tables[1]).any(axis=1))
    assert len(changed) == 1


def test_emptying_a_term_that_is_all_of_some_texts_changes_its_own_row_alone() -> None:
    """Were such texts left out, all rows would change with the number of texts."""
    told = [*texts(200, 0), *(Told("unsubscribe", NAMES[0]) for _ in range(40))]
    emptied = [replace(one, text=one.text.replace("unsubscribe", "")) for one in told]
    tables = [
        WholeTexts(corpus=whole_texts.class_corpus(side, NAMES, wordless=True), scheme=OWN)
        .log_odds(1.0)
        .weights
        for side in (told, emptied)
    ]
    changed = np.flatnonzero((tables[0] != tables[1]).any(axis=1))
    assert len(changed) == 1


def test_terms_are_not_protected_in_a_corpus_that_leaves_out_what_they_were_all_of(
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match="wordless=True"):
        private_runs.protect_terms(
            WholeTexts(corpus=corpus(50, 0), scheme=OWN), epsilon=8.0, out=tmp_path, name="mail"
        )
    assert not list(tmp_path.iterdir())


def test_every_kind_must_have_a_text(tmp_path: Path) -> None:
    made = corpus(50, 0, names=(*NAMES, "moon"))
    with pytest.raises(AnnotationError, match="'moon'"):
        classifier.train_filled(made, OWN, CRFSettings(), out=tmp_path, name="mail")
