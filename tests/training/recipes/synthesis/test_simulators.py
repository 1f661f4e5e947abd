"""Public pages as a simulator: what votes choose of them, and what is refused before a charge."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import hushdoc_builders as build
import pytest
from PIL import Image

from hushdoc import SyntheticDocuments
from hushdoc.document.page import Word
from hushdoc.errors import (
    AnnotationError,
    ArtifactError,
    CheckpointError,
    InputError,
    PolicyViolationError,
    PrivacyError,
)
from hushdoc.labels import LabelledDocument
from hushdoc.synthetic_documents import ADVERSARY, digest_of
from hushdoc_export import synthetic
from hushdoc_export.release import Release
from hushdoc_training import chosen_checkpoint, invented
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.synthesis import reproduction, simulators
from hushdoc_training.recipes.synthesis.evolution import evolve
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings
from hushdoc_training.recipes.synthesis.simulators import PublicPages
from hushdoc_training.runs.loop import Outcome

KEY = build.known_key(1)
SMALL = EvolutionSettings(vote="moments", pool=8, nearest=2, fits=2, documents=4)


def _made(kind: str, seed: int, count: int) -> list[LabelledDocument]:
    """Returns documents with blank images."""
    config = invented.InventedConfig(document_types=(kind,))
    made = []
    for item in invented.documents(seed=seed, count=count, config=config):
        (page,) = item.document.pages
        stream = io.BytesIO()
        Image.new("L", (page.width, page.height), 255).save(stream, format="PNG")
        page = replace(page, image=stream.getvalue())
        made.append(replace(item, document=replace(item.document, pages=(page,))))
    return made


FORMS, RECEIPTS = _made("form", 1, 6), _made("receipt", 2, 6)
PRIVATE = _made("receipt", 3, 8)


def pages(
    documents: list[LabelledDocument] | None = None, settings: EvolutionSettings = SMALL
) -> PublicPages:
    given = [*FORMS, *RECEIPTS] if documents is None else documents
    return PublicPages.of(given, settings, name="public documents", overlap="none")


EVERY = pages()
PLAN = PrivacyPlan.calibrated(
    epsilon=8, sampling_rate=1.0, steps=1, clipping_norm=1.0, expected_records=8
)


def run(out: Path, settings: EvolutionSettings = SMALL, **further: object) -> Outcome:
    told = {"public_pages": EVERY, **further}
    documents = told.pop("documents", PRIVATE)
    return evolve(documents, PLAN, settings, out=out, name="r", quiet=True, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize("vote", ["pages", "moments"])
def test_votes_choose_public_pages_and_their_set_says_so(vote: str, tmp_path: Path) -> None:
    settings = replace(SMALL, vote=vote, nearest=1)
    assert run(tmp_path / "run", settings) == Outcome(charged=1, interrupted=False)
    made = chosen_checkpoint.load(tmp_path / "run")
    public = {chosen_checkpoint.content(one) for one in (*FORMS, *RECEIPTS)}
    assert {chosen_checkpoint.content(one) for one in made.documents} <= public
    assert len({one.document.id for one in made.documents}) == 4
    (data,) = made.claim.public_data
    assert data.digest == chosen_checkpoint.digest([*RECEIPTS, *FORMS])
    assert "released pages" in data.uses
    assert any("none of them" in caveat for caveat in made.claim.caveats)
    assert {*simulators.ASSUMES} <= {*made.claim.guarantees[0].assumes}
    sealed = synthetic.export(
        tmp_path / "run", tmp_path / "set", Release(key=KEY, name="r", issuer="tests")
    )
    with pytest.raises(PolicyViolationError, match="comparison with the public pages"):
        SyntheticDocuments.open(sealed, policy=build.policy(KEY, adversary=ADVERSARY))
    accepted = {"accounted", "not-released", "declared-public"}
    policy = build.policy(KEY, adversary=ADVERSARY, treatments=accepted)
    documents = SyntheticDocuments.open(sealed, policy=policy)
    assert documents.contents.method == "selection"
    assert [item.spans for item in documents] == [one.spans for one in made.documents]
    reproduction.require_public(documents, [*FORMS, *RECEIPTS])
    first, *others = documents.documents
    renamed = replace(first.labelled, document=replace(first.labelled.document, id="other"))
    for changed in (
        replace(first, specification={"public": True, "more": 1}),
        replace(first, labelled=renamed),
        replace(first, digest=digest_of(b'{"source": {"reader": "pdf", "ocr": "SECRET"}}')),
    ):
        with pytest.raises(ArtifactError, match="declares more|no public page|holds more"):
            reproduction.require_public(
                replace(documents, documents=(changed, *others)), [*FORMS, *RECEIPTS]
            )
    for wrong in (FORMS, PRIVATE):
        with pytest.raises(ArtifactError, match="other public documents"):
            reproduction.require_public(documents, wrong)
    with pytest.raises(ArtifactError, match="--public"):
        reproduction.require_reproduced(documents)


def test_what_many_documents_resemble_is_chosen(tmp_path: Path) -> None:
    many = [
        replace(one, document=replace(one.document, id=f"{one.document.id}-{copy}"))
        for one in PRIVATE
        for copy in range(40)
    ]
    run(tmp_path / "run", documents=many, copies="keep")
    chosen = chosen_checkpoint.load(tmp_path / "run").documents
    assert [one.document_type for one in chosen].count("receipt") >= 3


@pytest.mark.parametrize("changed", [0, 1])
def test_a_private_page_among_public_ones_is_refused_before_a_charge(
    changed: int, tmp_path: Path
) -> None:
    """The same page under another name, and one with another word."""
    ledger = Ledger.create(tmp_path / "ledger", data="r", epsilon=9, delta=1e-5)
    (page,) = PRIVATE[3].document.pages
    words = (*page.words[: -changed or None], *(Word(text="x", box=page.words[-1].box),) * changed)
    copy = replace(PRIVATE[3].document, id="public", pages=(replace(page, words=words),))
    public = pages([*FORMS, replace(PRIVATE[3], document=copy, spans=(), questions=())])
    with pytest.raises(PrivacyError, match="'public'.*its absence") as refused:
        run(tmp_path / "run", public_pages=public, ledger=ledger)
    assert refused.value.code == "PRIVATE_PAGE_IS_PUBLIC"
    assert not (tmp_path / "run").exists()
    assert ledger.runs() == ()


def test_public_documents_that_cannot_be_handed_on_are_refused() -> None:
    (page,) = FORMS[0].document.pages

    def changed(*others: object) -> list[LabelledDocument]:
        return [*FORMS, replace(FORMS[0], document=replace(FORMS[0].document, pages=others))]  # type: ignore[arg-type]

    for wrong in (
        changed(page, page),
        changed(replace(page, image=None)),
        changed(replace(page, words=())),
        FORMS[:3],
        FORMS[:1] * 9,
    ):
        with pytest.raises(AnnotationError, match="public"):
            pages(wrong)
    with pytest.raises(InputError):
        pages(changed(replace(page, image=b"no image", words=page.words[:-1])))
    with pytest.raises(ValueError, match="factors"):
        pages(settings=replace(SMALL, vote="factors"))


def test_other_public_pages_do_not_go_on_and_damaged_ones_are_not_sealed(tmp_path: Path) -> None:
    run(tmp_path / "run")
    with pytest.raises(CheckpointError, match="other settings"):
        run(tmp_path / "run", public_pages=pages([*FORMS, *RECEIPTS[1:]]), resume=True)
    lines = tmp_path / "run" / "checkpoint" / "documents.jsonl"
    lines.write_text(lines.read_text().replace('"spans": [', '"spans": [],"x": [', 1))
    with pytest.raises(CheckpointError):
        synthetic.export(
            tmp_path / "run", tmp_path / "set", Release(key=KEY, name="r", issuer="tests")
        )
