from __future__ import annotations

import numpy as np
import pytest

from hushdoc.errors import AnnotationError
from hushdoc.hashing import FeatureScheme
from hushdoc_training.crf import corpus
from hushdoc_training.labelled_texts import Contract, Sentence

TEXT = "This is Acme Corp. The law of Utah governs it. It ends soon. No more follows here."


def contract(text: str, *spans: tuple[str, int, int]) -> Contract:
    return Contract(name="one", group="one", text=text, spans=spans)


def marked(label: str, part: str, text: str = TEXT) -> tuple[str, int, int]:
    start = text.index(part)
    return label, start, start + len(part)


def sentence_labels(text: str, *spans: tuple[str, int, int]) -> list[int]:
    found = corpus.sentence_corpus([contract(text, *spans)], ("law", "term"))
    assert found.names == ("O", "law", "term")
    return found.labels.tolist()


class TestSentences:
    def test_a_span_marks_the_sentences_it_covers(self) -> None:
        assert sentence_labels(TEXT) == [0, 0, 0, 0]
        assert sentence_labels(TEXT, marked("law", "The law of Utah governs it.")) == [0, 1, 0, 0]
        both = marked("law", "The law of Utah governs it. It ends soon.")
        assert sentence_labels(TEXT, both) == [0, 1, 1, 0]

    def test_a_part_of_a_long_sentence_marks_it(self) -> None:
        assert sentence_labels(TEXT, marked("law", "Utah")) == [0, 1, 0, 0]

    def test_a_sentence_that_is_only_grazed_stays_outside(self) -> None:
        grazing = marked("law", "it. It ends soon. No")
        assert sentence_labels(TEXT, grazing) == [0, 0, 1, 0]

    def test_exactly_half_is_not_more_than_half(self) -> None:
        text = "Abcdefg hij. Klmnopq rst."
        assert sentence_labels(text, ("law", 6, 19)) == [0, 0]
        assert sentence_labels(text, ("law", 5, 19)) == [1, 0]

    def test_of_several_labels_the_longer_one_holds(self) -> None:
        spans = marked("law", "ends"), marked("term", "It ends soon.")
        assert sentence_labels(TEXT, *spans) == [0, 0, 2, 0]

    def test_parts_of_one_label_add_up(self) -> None:
        spans = marked("term", "It ends"), marked("law", "soon."), marked("law", "It en")
        assert sentence_labels(TEXT, *spans) == [0, 0, 1, 0]

    def test_other_labels_are_left_outside(self) -> None:
        assert sentence_labels(TEXT, marked("price", "It ends soon.")) == [0, 0, 0, 0]

    def test_documents_are_sequences(self) -> None:
        texts = [contract(TEXT), contract(""), contract("One more. And more.")]
        found = corpus.sentence_corpus(texts, ("law",))
        assert found.documents.tolist() == [0, 4, 4, 6]
        assert found.owners.tolist() == [0, 1, 2]
        assert list(found.sentences[4]) == ["One", "more", "."]
        features = found.features(FeatureScheme(rows=1000))
        assert features.num_items == 6

    @pytest.mark.parametrize("place", [(-1, 3), (3, 3), (5, 2), (0, len(TEXT) + 1)])
    def test_spans_that_leave_their_text_are_refused(self, place: tuple[int, int]) -> None:
        with pytest.raises(AnnotationError, match="correct the span"):
            sentence_labels(TEXT, ("law", *place))

    def test_many_spans_take_no_longer_than_they_must(self) -> None:
        text = "A b. " * 4000
        spans = [("law", start, start + 4) for start in range(0, len(text), 10)]
        assert sum(sentence_labels(text, *spans)) == len(spans)


class TestTokens:
    def test_spans_become_tags(self) -> None:
        spans = marked("company", "Acme Corp."), marked("place", "Utah")
        found = corpus.token_corpus([contract(TEXT, *spans)], ("company", "place"))
        assert found.names == ("O", "B-company", "I-company", "B-place", "I-place")
        tags = [found.names[label] for label in found.labels]
        words = [word for sentence in found.sentences for word in sentence]
        assert [(word, tag) for word, tag in zip(words, tags, strict=True) if tag != "O"] == [
            ("Acme", "B-company"),
            ("Corp", "I-company"),
            (".", "I-company"),
            ("Utah", "B-place"),
        ]
        assert len(found.documents) == 5
        assert found.owners.tolist() == [0, 0, 0, 0]

    def test_neighbours_of_one_label_begin_anew(self) -> None:
        text = "Acme Beta met."
        spans = marked("company", "Acme", text), marked("company", "Beta", text)
        found = corpus.token_corpus([contract(text, *spans)], ("company",))
        assert [found.names[label] for label in found.labels][:2] == ["B-company"] * 2

    def test_half_a_token_is_not_in_a_span(self) -> None:
        found = corpus.token_corpus([contract("Acme met.", ("company", 0, 2))], ("company",))
        assert found.labels.tolist() == [0, 0, 0]

    def test_overlapping_spans_are_refused(self) -> None:
        spans = marked("company", "Acme Corp."), marked("place", "Acme")
        with pytest.raises(AnnotationError, match="overlap"):
            corpus.token_corpus([contract(TEXT, *spans)], ("company", "place"))


def tagged(*pairs: tuple[str, str], document: int = 0) -> Sentence:
    tokens, tags = zip(*pairs, strict=True)
    return Sentence(tokens=tokens, tags=tags, document=document)


class TestTagged:
    def test_an_inside_that_opens_becomes_a_begin(self) -> None:
        sentences = [
            tagged(("Bo", "I-PER"), ("Li", "I-PER"), ("Acme", "I-ORG"), ("x", "B-MISC")),
            tagged(("Bo", "I-PER"), document=3),
        ]
        found = corpus.tagged_corpus(sentences, ("ORG", "PER"))
        tags = [found.names[label] for label in found.labels]
        assert tags == ["B-PER", "I-PER", "B-ORG", "O", "B-PER"]
        assert found.owners.tolist() == [0, 3]

    def test_what_is_no_tag_is_refused(self) -> None:
        with pytest.raises(AnnotationError, match="PER"):
            corpus.tagged_corpus([tagged(("Bo", "PER"))], ("PER",))
        with pytest.raises(AnnotationError, match="one tag for each"):
            corpus.tagged_corpus([Sentence(tokens=("a", "b"), tags=("O",), document=0)], ())

    def test_a_scheme_of_another_level_is_refused(self) -> None:
        found = corpus.tagged_corpus([tagged(("Bo", "I-PER"))], ("PER",))
        with pytest.raises(ValueError, match="sentences"):
            found.features(FeatureScheme(level="sentence"))


class TestSplit:
    def test_groups_are_never_on_both_sides(self) -> None:
        items = list(range(100))
        groups = [item // 4 for item in items]
        left, right = corpus.split(items, groups, held_out=0.2, seed=3)
        assert sorted(left + right) == items
        assert len(right) == 20
        assert not {groups[item] for item in left} & {groups[item] for item in right}
        assert corpus.split(items, groups, held_out=0.2, seed=3) == (left, right)
        assert corpus.split(items, groups, held_out=0.2, seed=4) != (left, right)

    def test_a_single_group_is_trained_on(self) -> None:
        assert corpus.split([1, 2], ["a", "a"], held_out=0.5) == ([1, 2], [])


def test_labels_are_numbers_of_columns() -> None:
    found = corpus.sentence_corpus([contract(TEXT, marked("term", "It ends soon."))], ("term",))
    assert found.labels.dtype == np.int64
    assert [found.names[label] for label in found.labels] == ["O", "O", "term", "O"]


def test_one_group_more_moves_no_other_to_the_held_out_side() -> None:
    """Drawn at random, the sides of all others changed with it: many records, not one."""
    names = [f"company {number}" for number in range(200)]
    sides = {name: corpus.is_held_out(name, 0.3) for name in names}
    assert 30 < sum(sides.values()) < 90
    more = {name: corpus.is_held_out(name, 0.3) for name in [*names, "one more"]}
    assert {name: more[name] for name in names} == sides
    before = {*corpus.split(names, names, held_out=0.3)[1]}
    after = {*corpus.split([*names, "one more"], [*names, "one more"], held_out=0.3)[1]}
    assert len(before ^ after) > 5  # why no command that protects documents uses it
