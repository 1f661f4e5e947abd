"""Synthetic documents: sealed, opened only as signed, and drawn again from their specifications."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load, save

import hushdoc
from hushdoc import Policy, SyntheticDocuments, verify
from hushdoc.__main__ import main
from hushdoc.certificate import statement
from hushdoc.errors import (
    ArtifactError,
    CheckpointError,
    HushdocError,
    LimitExceededError,
    PolicyViolationError,
)
from hushdoc.reading import page_image
from hushdoc.synthetic_documents import ADVERSARY
from hushdoc_export import sealing, synthetic
from hushdoc_export.release import Release
from hushdoc_training import drawn_checkpoint, synthetic_checkpoint
from hushdoc_training.invented.random_draws import Draws
from hushdoc_training.invented.specification import draw
from hushdoc_training.recipes.synthesis.public_words import NO_WORDS, PublicWords
from hushdoc_training.recipes.synthesis.reproduction import require_reproduced
from hushdoc_training.synthetic_checkpoint import SyntheticCheckpoint

KEY = build.known_key(1)
RELEASE = Release(key=KEY, name="receipts", issuer="tests")
SPECIFICATIONS = tuple(
    draw(Draws(31, number), {"document_type": [0.0, 0.0, 1.0, 0.0]}) for number in range(3)
)


def policy(**change: Any) -> Policy:
    return build.policy(KEY, **({"adversary": ADVERSARY} | change))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    claim = build.claim(build.guarantee(adversary=ADVERSARY), releases=("synthetic-records",))
    folder = tmp_path_factory.mktemp("synthetic") / "run" / "checkpoint"
    made = SyntheticCheckpoint(specifications=SPECIFICATIONS, labels="sroie", claim=claim)
    synthetic_checkpoint.save(folder, made)
    return folder.parent


@pytest.fixture(scope="module")
def sealed(checkpoint: Path) -> Path:
    return synthetic.export(checkpoint, checkpoint.parent / "sealed", RELEASE)


@pytest.fixture
def copied(sealed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed, tmp_path / "copied"))


def sealed_anew(sealed: Path, out: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Returns the same set with other files, signed by the same key as an issuer might."""
    found = hushdoc.artifact.artifact.read_unverified(sealed)
    contents = {subject.name: (sealed / subject.name).read_bytes() for subject in found.subjects}
    change(contents)
    return sealing.seal(out, contents, found.certificate, labels=None, key=KEY)


def test_documents_are_opened_as_they_were_drawn(sealed: Path) -> None:
    assert verify(sealed, policy()).passed
    documents = SyntheticDocuments.open(sealed, policy=policy())
    assert [item.document.id for item in documents] == [one.id for one in SPECIFICATIONS]
    assert len(documents) == len(SPECIFICATIONS)
    first = next(iter(documents))
    assert {span.label for span in first.spans} <= {"company", "date", "address", "total"}
    image = page_image(first.document.pages[0])
    assert image.size == (first.document.pages[0].width, first.document.pages[0].height)
    require_reproduced(documents)
    card = (sealed / "README.md").read_text()
    assert "Documents to give away" in card
    assert "SyntheticDocuments.open" in card
    assert (sealed / synthetic.CONTACT_SHEET).read_bytes()[:4] == b"\x89PNG"


def test_a_set_is_inspected_and_verified_as_models_are(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(sealed)]) == 0
    shown = capsys.readouterr().out
    assert "synthetic-documents" in shown
    assert "documents-00000.jsonl" in shown


def test_the_same_specifications_give_the_same_files(checkpoint: Path) -> None:
    made = synthetic_checkpoint.load(checkpoint)
    assert made.specifications == SPECIFICATIONS
    first, again = (next(synthetic._of_specifications(made).items) for _ in range(2))
    assert first == again


def test_a_policy_for_models_and_no_policy_open_nothing(sealed: Path) -> None:
    with pytest.raises(PolicyViolationError, match="NO_GUARANTEE_FOR_ADVERSARY"):
        SyntheticDocuments.open(sealed, policy=policy(adversary="model-recipient"))
    with pytest.raises(PolicyViolationError, match="EPSILON_TOO_LARGE"):
        SyntheticDocuments.open(sealed, policy=policy(max_epsilon=0.001))
    with pytest.raises(HushdocError, match="policy"):
        SyntheticDocuments.open(sealed, policy=None)  # type: ignore[arg-type]
    with pytest.raises(HushdocError, match="SyntheticDocuments"):
        hushdoc.load(sealed, policy=policy())


@pytest.mark.parametrize("name", ["documents-00000.jsonl", "images-00000.safetensors"])
def test_a_tampered_or_missing_shard_is_refused(name: str, copied: Path) -> None:
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[:-9] + b"X" + content[-8:])
    with pytest.raises(ArtifactError) as refused:
        SyntheticDocuments.open(copied, policy=policy())
    assert refused.value.code == "DIGEST_MISMATCH"
    (copied / name).unlink()
    with pytest.raises(ArtifactError) as refused:
        SyntheticDocuments.open(copied, policy=policy())
    assert refused.value.code == "MISSING_FILE"


def _lines(change: Callable[[list[Any]], Any]) -> Callable[[dict[str, bytes]], None]:
    def changed(contents: dict[str, bytes]) -> None:
        lines = [json.loads(line) for line in contents["documents-00000.jsonl"].splitlines()]
        lines = change(lines) or lines
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        contents["documents-00000.jsonl"] = text.encode()

    return changed


def _shards(contents: dict[str, bytes]) -> None:
    manifest = json.loads(contents["hushdoc.json"])
    (shard,) = manifest["preprocessing"]["shards"]
    manifest["preprocessing"]["shards"] = [shard, shard]
    contents["hushdoc.json"] = json.dumps(manifest).encode()


def _with_floats(contents: dict[str, bytes]) -> None:
    images = load(contents["images-00000.safetensors"])
    with_secret = {**images, "secret": np.frombuffer(b"SECRET WORDS", dtype=np.float32)}
    head = contents["images-00000.safetensors"]
    metadata = json.loads(head[8 : 8 + int.from_bytes(head[:8], "little")])["__metadata__"]
    contents["images-00000.safetensors"] = save(with_secret, metadata=metadata)


def _exchanged(contents: dict[str, bytes]) -> None:
    first, last = "images-00000.safetensors", "images-00002.safetensors"
    contents[first], contents[last] = contents[last], contents[first]


def _swapped(contents: dict[str, bytes]) -> None:
    manifest = json.loads(contents["hushdoc.json"])
    (shard,) = manifest["preprocessing"]["shards"]
    shard["documents"], shard["images"] = shard["images"], shard["documents"]
    contents["hushdoc.json"] = json.dumps(manifest).encode()


@pytest.mark.parametrize(
    "change",
    [
        _lines(lambda lines: lines[:2]),
        _lines(lambda lines: [lines[0], lines[0], lines[2]]),
        _lines(lambda lines: lines[0].pop("specification") and None),
        _lines(lambda lines: lines[0].update(specification=[])),
        _lines(lambda lines: lines[0].update(id="another")),
        _lines(lambda lines: lines[0]["pages"][0].update(width=7)),
        _lines(lambda lines: lines[0].update(pages=[])),
        _lines(lambda lines: lines[0].update(secret="x")),
        _lines(lambda lines: [None, *lines[1:]]),
        _shards,
        _swapped,
        _with_floats,
    ],
)
def test_signed_shards_that_do_not_hold_what_they_declare_are_refused(
    change: Callable[[dict[str, bytes]], None], sealed: Path, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError) as refused:
        SyntheticDocuments.open(sealed_anew(sealed, tmp_path / "new", change), policy=policy())
    assert refused.value.code in ("BAD_DOCUMENTS", "BAD_SAFETENSORS")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda lines: lines[0]["pages"][0]["words"][3].update(text="SECRET"), "words and boxes"),
        (lambda lines: lines[1].update(spans=[]), "labels"),
        (lambda lines: lines[2].update(provider="provider-00000"), "provider"),
        (
            lambda lines: lines[0]["specification"].update(content="0" * 16),
            "id, words and boxes",
        ),
    ],
)
def test_words_that_a_specification_does_not_give_are_found(
    change: Callable[[list[Any]], Any], found: str, sealed: Path, tmp_path: Path
) -> None:
    made = sealed_anew(sealed, tmp_path / "new", _lines(change))
    documents = SyntheticDocuments.open(made, policy=policy())
    with pytest.raises(ArtifactError, match=found) as refused:
        require_reproduced(documents)
    assert refused.value.code == "DOCUMENTS_NOT_REPRODUCED"


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.update(source={"reader": "pdf", "ocr": "SECRET", "ocr_pages": [0]}),
        lambda line: line["pages"][0].update(image="SECRET.png"),
        lambda line: line["pages"][0].update(frame=7),
        lambda line: line.update(specification=dict(reversed(line["specification"].items()))),
    ],
    ids=["source", "image", "frame", "order"],
)
def test_a_line_that_holds_more_than_is_drawn_is_found(
    change: Callable[[Any], Any], sealed: Path, tmp_path: Path
) -> None:
    """What no comparison of words, boxes and labels sees: the issuer's words would stand there."""

    def changed(contents: dict[str, bytes]) -> None:
        first, *others = contents["documents-00000.jsonl"].splitlines(keepends=True)
        line = json.loads(first)
        change(line)
        first = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        contents["documents-00000.jsonl"] = b"".join([first, *others])

    made = sealed_anew(sealed, tmp_path / "new", changed)
    documents = SyntheticDocuments.open(made, policy=policy())
    with pytest.raises(ArtifactError, match="holds more") as refused:
        require_reproduced(documents)
    assert refused.value.code == "DOCUMENTS_NOT_REPRODUCED"


def test_words_come_from_the_list_that_the_certificate_names(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("jalan\nkopi\n")
    (tmp_path / "other.txt").write_text("jalan\nkopi\nsecret\n")
    listed, other = (
        PublicWords.read(tmp_path / f"{name}.txt", overlap="none") for name in ("list", "other")
    )
    guarantee = build.guarantee(adversary=ADVERSARY)
    claim = build.claim(guarantee, releases=("synthetic-records",), public_data=listed.data)
    for number, words in enumerate((("kopi", "jalan"), ("secret",))):
        made = SyntheticCheckpoint(
            specifications=(replace(SPECIFICATIONS[0], words=words),), labels="sroie", claim=claim
        )
        synthetic_checkpoint.save(tmp_path / f"run{number}" / "checkpoint", made)
        out = synthetic.export(tmp_path / f"run{number}", tmp_path / f"set{number}", RELEASE)
        documents = SyntheticDocuments.open(out, policy=policy())
        if not number:
            require_reproduced(documents, words=listed)
        for wrong in (NO_WORDS, other, *([listed] if number else [])):
            with pytest.raises(ArtifactError, match="word") as refused:
                require_reproduced(documents, words=wrong)
            assert refused.value.code == "DOCUMENTS_NOT_REPRODUCED"


def test_pages_of_another_generator_are_not_compared(sealed: Path) -> None:
    documents = SyntheticDocuments.open(sealed, policy=policy())
    other = replace(documents, contents=replace(documents.contents, generator=99))
    with pytest.raises(ArtifactError, match="version 99"):
        require_reproduced(other)


def test_damaged_checkpoints_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    for name, content in (
        ("specifications.jsonl", "{}\n"),
        ("specifications.jsonl", ""),
        ("checkpoint.json", '{"formatVersion": 1, "task": "synthetic-documents"}'),
        ("checkpoint.json", '{"formatVersion": 1, "task": "kie"}'),
    ):
        folder = tmp_path / f"{len(content)}"
        shutil.copytree(checkpoint / "checkpoint", folder)
        (folder / name).write_text(content)
        with pytest.raises(CheckpointError):
            synthetic.export(folder, tmp_path / "out", RELEASE)
    assert not (tmp_path / "out").exists()


def test_full_shards_are_followed_by_others_and_too_many_are_refused(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "_FULL", 1)
    out = synthetic.export(checkpoint, tmp_path / "set", RELEASE)
    documents = SyntheticDocuments.open(out, policy=policy())
    assert [shard.count for shard in documents.contents.shards] == [1, 1, 1]
    assert [item.document.id for item in documents] == [one.id for one in SPECIFICATIONS]
    for name in ("documents-{}.jsonl", "images-{}.safetensors"):
        first, last = (out / name.format(number) for number in ("00000", "00002"))
        moved = first.read_bytes(), last.read_bytes()
        last.write_bytes(moved[0]), first.write_bytes(moved[1])
        with pytest.raises(ArtifactError) as refused:
            SyntheticDocuments.open(out, policy=policy())
        assert refused.value.code in ("SIZE_MISMATCH", "DIGEST_MISMATCH")
        first.write_bytes(moved[0]), last.write_bytes(moved[1])
    assert len(SyntheticDocuments.open(out, policy=policy())) == len(SPECIFICATIONS)
    exchanged = sealed_anew(out, tmp_path / "exchanged", _exchanged)
    with pytest.raises(ArtifactError) as refused:  # though its issuer signed it
        SyntheticDocuments.open(exchanged, policy=policy())
    assert refused.value.code == "BAD_DOCUMENTS"
    monkeypatch.setattr(synthetic, "MOST_BYTES", 1000)
    with pytest.raises(LimitExceededError, match="fewer documents"):
        synthetic.export(checkpoint, tmp_path / "other", RELEASE)
    assert not (tmp_path / "other").exists()


def test_a_statement_is_of_documents(sealed: Path) -> None:
    found = hushdoc.artifact.artifact.read_unverified(sealed)
    again, _ = statement.parse_statement(statement.statement(found.certificate, found.subjects))
    assert again.model.task == "synthetic-documents"
    (step,) = again.derivation
    assert step["step"] == "draw-documents"
    assert step["dataDependent"] is False


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """Returns a checkpoint of two pages that a model drew."""
    images = tmp_path / "images"
    images.mkdir()
    prompts = [{"label": label, "layout": 4, "seed": at} for at, label in enumerate(("a", None))]
    for number in range(len(prompts)):
        shades = Image.new("L", (32, 24), 100 * number)
        shades.save(drawn_checkpoint.image_path(images, number))
    claim = build.claim(build.guarantee(adversary=ADVERSARY), releases=("synthetic-records",))
    folder = tmp_path / "run" / "checkpoint"
    drawn_checkpoint.save(folder, prompts=prompts, images=images, claim=claim)
    return folder


def test_pages_that_a_model_drew_are_sealed_and_opened(drawn: Path) -> None:
    sealed = synthetic.export(drawn.parent, drawn.parent.parent / "sealed", RELEASE)
    documents = SyntheticDocuments.open(sealed, policy=policy())
    assert documents.contents.method == "diffusion"
    assert [item.document_type for item in documents] == ["a", None]
    for number, item in enumerate(documents.documents):
        (page,) = item.labelled.document.pages
        assert (page.width, page.height, page.words) == (32, 24, ())
        image = page_image(page)
        assert image is not None
        assert image.convert("L").getextrema() == (100 * number, 100 * number)
        assert item.specification["seed"] == number
    assert (sealed / "contact-sheet.png").is_file()
    with pytest.raises(ArtifactError, match="model drew them"):
        require_reproduced(documents)
    with pytest.raises(PolicyViolationError):
        SyntheticDocuments.open(sealed, policy=policy(adversary="model-recipient"))


@pytest.mark.parametrize("damage", ["image", "prompt", "keys", "method"])
def test_a_damaged_checkpoint_of_drawn_pages_is_refused(damage: str, drawn: Path) -> None:
    prompts, head = drawn / "prompts.jsonl", drawn / "checkpoint.json"
    if damage == "image":
        drawn_checkpoint.image_path(drawn / "images", 1).unlink()
    elif damage == "prompt":
        prompts.write_text(prompts.read_text()[:-5])
    elif damage == "keys":
        prompts.write_text(prompts.read_text().replace("seed", "sand"))
    else:
        head.write_text(head.read_text().replace("diffusion", "evolution"))
    with pytest.raises(CheckpointError):
        synthetic.export(drawn, drawn.parent / "sealed", RELEASE)
