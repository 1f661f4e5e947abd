"""`hushdoc synthesize selection`: from folders of images to chosen public ones; wrong usage."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from hushdoc import labelled_files
from hushdoc.__main__ import main
from hushdoc.certificate.claim import Claim
from hushdoc.errors import AnnotationError
from hushdoc_training import drawn_checkpoint, invented
from hushdoc_training.ledger.ledger import Ledger

EACH = ("--trained", "denoisers", "--steps", "1", "--pages", "2", "--sampling-steps", "1")
LABELS = ("--label", "letter", "--label", "note")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns private scans of two classes, and public ones of another."""
    folder = tmp_path_factory.mktemp("selection")
    rng = np.random.default_rng(0)
    for name in ("public/form", "private/letter", "private/note"):
        (folder / name).mkdir(parents=True)
        for number in range(3):
            shades = rng.integers(0, 255, (40, 32), dtype=np.uint8)
            Image.fromarray(shades).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def start(folder: Path) -> Path:
    """Returns a start of diffusion that learned from the public pages."""
    few = ["--size", "tiny", "--autoencoder-steps", "1", "--steps", "1", "--batch-size", "2"]
    told = ["--public", str(folder / "public"), "--condition", "none", "--public-overlap", "none"]
    out = folder / "start"
    assert main(["synthesize", "pretrain", *told, *few, "--quiet", "--out", str(out)]) == 0
    return out


def run(
    folder: Path, out: Path, *further: str, public: str = "public", data: Path | None = None
) -> int:
    where = ["--data", str((data or folder) / "private"), "--public", str(folder / public)]
    few = ["--pages", "4", "--copies", "1", "--side", "32", "--quiet"]
    try:
        return main(["synthesize", "selection", *where, "--out", str(out), *few, *further])
    except SystemExit as ended:
        return int(str(ended.code))


def test_scans_choose_public_pages_that_are_sealed_and_verified(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, sealed, key = tmp_path / "run", tmp_path / "sealed", tmp_path / "key"
    assert run(folder, out, *LABELS, "--epsilon", "2", "--public-overlap", "none") == 0
    made = drawn_checkpoint.load(out)
    assert made.claim.guarantees[0].hyperparameter_tuning == "none"
    assert [one["label"] for one in made.prompts] == ["letter", "note"] * 2
    assert str(folder) not in made.claim.to_json().decode()  # certificates name no folder
    assert main(["keygen", "--out", str(key)]) == 0
    export = ["export", str(out), "--out", str(sealed), "--key", f"{key}.key", "--name", "scans"]
    assert main(export) == 0
    limits = ["--max-epsilon", "2", "--max-delta", "1e-5", "--unit", "document"]
    trusted = ["--trust", f"{key}.trust.json", "--adversary", "synthetic-data-recipient"]
    assert main(["verify", str(sealed), *trusted, *limits]) == 5
    assert "comparison with the files of public pages" in capsys.readouterr().out
    trusted += ["--accept-treatment", "declared-public"]
    assert main(["verify", str(sealed), *trusted, *limits]) == 0
    capsys.readouterr()
    check = ["synthesize", "check", str(sealed), *trusted, *limits]
    assert main(check) == 4
    assert "--public" in capsys.readouterr().err
    assert main([*check, "--public", str(folder / "public")]) == 0
    assert "4 documents: each is the public page and copy" in capsys.readouterr().out
    assert main([*check, "--public", str(folder / "private")]) == 4
    assert "names other public documents" in capsys.readouterr().err
    stricter = ["--max-epsilon", "1", *limits[2:]]
    assert main(["verify", str(sealed), *trusted, *stricter]) == 5


def docmix(folder: Path) -> Path:
    """Writes two invented pages in the layout of docmix."""
    folder.mkdir()
    with (
        gzip.open(folder / "train.jsonl.gz", "wt") as lines,
        zipfile.ZipFile(folder / "train_images.zip", "w") as archive,
    ):
        for label in ("letter", "note"):
            stream, name = io.BytesIO(), f"{label}/1.webp"
            Image.new("L", (32, 40), 200).save(stream, format="WEBP")
            archive.writestr(name, stream.getvalue())
            page = {"file": name, "class": label, "source": "a", "size": [32, 40]}
            lines.write(json.dumps({**page, "boxes_1000": [[100, 100, 500, 200]]}) + "\n")
    return folder


@pytest.mark.parametrize(
    ("told", "tuning"), [((), "unaccounted"), (("--tuned-on", "none"), "none")]
)
def test_defaults_were_chosen_at_docmix(
    folder: Path, start: Path, tmp_path: Path, told: tuple[str, ...], tuning: str
) -> None:
    data = docmix(tmp_path / "private")
    assert run(folder, tmp_path / "chosen", *LABELS, *told, data=tmp_path) == 0
    drawn = ["synthesize", "diffusion", "--data", str(data), "--start", str(start), *LABELS, *EACH]
    assert main([*drawn, "--quiet", *told, "--out", str(tmp_path / "drawn")]) == 0
    for out in ("chosen", "drawn"):
        (guarantee,) = drawn_checkpoint.load(tmp_path / out).claim.guarantees
        assert guarantee.hyperparameter_tuning == tuning


def test_a_copy_of_the_private_folder_is_not_taken_for_public_pages(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(folder / "private", tmp_path / "elsewhere")
    assert run(folder, tmp_path / "run", *LABELS, public=str(copy)) == 5
    assert "PRIVATE_PAGE_IS_PUBLIC" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_set_of_images_is_compared_by_its_images(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Public pages of one set are private ones but for a pixel: every one is found."""
    rng = np.random.default_rng(1)
    for group in ("copies", "others", "held-out"):
        (tmp_path / group / "form").mkdir(parents=True)
        for number, path in enumerate(sorted((folder / "private").glob("*/*.png"))):
            shades = np.asarray(Image.open(path)).copy()
            if group != "copies":
                shades = rng.integers(0, 255, shades.shape, dtype=np.uint8)
            shades[0, 0] ^= 1
            Image.fromarray(shades).save(tmp_path / group / "form" / f"{number}.png")
    key = tmp_path / "key"
    assert main(["keygen", "--out", str(key)]) == 0
    shares = []
    for group in ("copies", "others"):
        out, sealed = tmp_path / f"run-{group}", tmp_path / f"sealed-{group}"
        assert run(tmp_path, out, *LABELS, "--copies", "0", data=folder, public=group) == 0
        export = ["export", str(out), "--out", str(sealed), "--key", f"{key}.key"]
        assert main([*export, "--name", "scans"]) == 0
        capsys.readouterr()
        audit = ["audit", "synthetic", str(sealed), "--private", str(folder / "private")]
        audit += ["--trust", f"{key}.trust.json", "--integrity-only"]
        told = [*audit, "--held-out", str(tmp_path / "held-out"), "--json"]
        assert main([*told, "--out", str(tmp_path / f"{group}.html")]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert (figures["compared"], figures["groups_of"]) == ("images", 6)
        shares.append(figures["nearer_to_private"])
    assert shares[0] == 1.0
    assert shares[1] < 1.0
    page = (tmp_path / "copies.html").read_text()
    assert page.count("data:image/png;base64,") == 12  # four pages, each beside two others
    assert main([*audit, "--held-out", str(folder / "private"), "--json"]) == 3
    assert "exactly as near" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("image", "shows another page"),
        ("copy", "the copy is 2"),
        ("label", "has another class"),
        ("alpha", "an image's file holds more"),
        ("text", "an image's file holds more"),
        ("end", "an image's file holds more"),
        ("side", "the side is 0; expected 1"),
        ("classes", "the classes are 5"),
    ],
)
def test_a_page_that_is_no_public_one_is_found(
    change: str, said: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its issuer changed a page, or what is declared of it, and sealed that."""
    out, key, sealed = tmp_path / "run", tmp_path / "key", tmp_path / "sealed"
    assert run(folder, out, *LABELS) == 0
    prompts = out / "checkpoint" / "prompts.jsonl"
    image = drawn_checkpoint.image_path(out / "checkpoint" / "images", 2)
    shades = np.asarray(Image.open(image)).copy()
    if change == "image":
        shades[0, 0] ^= 1
        Image.fromarray(shades).save(image)
    elif change == "alpha":
        Image.merge("LA", [Image.fromarray(shades), Image.fromarray(255 - shades)]).save(image)
    elif change == "text":
        told = PngInfo()
        told.add_text("name", "secret")
        Image.fromarray(shades).save(image, pnginfo=told)
    elif change == "end":
        image.write_bytes(image.read_bytes() + b"secret")
    elif change in ("side", "classes"):
        path = out / "checkpoint" / "claim.json"
        claim = Claim.from_json(path.read_bytes())
        wrong = {"side": 0, "classes": 5}[change]
        path.write_bytes(replace(claim, training={**claim.training, change: wrong}).to_json())
    else:
        first, *others = map(json.loads, prompts.read_text().splitlines())
        first[change] = 2 if change == "copy" else "other"
        prompts.write_text("".join(json.dumps(one) + "\n" for one in (first, *others)))
    head = out / "checkpoint" / "checkpoint.json"
    plain = {
        name: value for name, value in json.loads(head.read_text()).items() if name != "sha256"
    }
    head.write_text(json.dumps(plain))  # a dishonest issuer names no digest of what was written
    assert main(["keygen", "--out", str(key)]) == 0
    export = ["export", str(out), "--out", str(sealed), "--key", f"{key}.key", "--name", "scans"]
    assert main(export) == 0
    check = ["synthesize", "check", str(sealed), "--trust", f"{key}.trust.json"]
    assert main([*check, "--integrity-only", "--public", str(folder / "public")]) == 4
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("further", "public", "said"),
    [
        ((), "public", "--label"),
        (LABELS, "private", "the same documents"),
        ((*LABELS, "--pages", "1"), "public", "pages is 1; expected 2"),
        ((*LABELS, "--side", "40"), "public", "a multiple of 16"),
        ((*LABELS, "--pages", "7"), "public", "3 public pages with 1 copies each"),
        ((*LABELS, "--documents-changed"), "public", "needs --ledger"),
        ((*LABELS, "--delta", "1e-3", "--expected-records", "8"), "public", "DELTA_TOO_LARGE"),
    ],
)
def test_wrong_usage_is_refused_before_a_folder_is_taken(
    further: tuple[str, ...],
    public: str,
    said: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(folder, tmp_path / "run", *further, public=public) != 0
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["selection", "diffusion", "images"])
@pytest.mark.parametrize("how", ["cut", "dot", "cut in a file", "without a class"])
def test_private_pages_that_cannot_be_read_are_refused_before_a_charge(
    method: str, how: str, folder: Path, start: Path, tmp_path: Path
) -> None:
    data = Path(shutil.copytree(folder / "private", tmp_path / "data" / "private"))
    whole = (data / "note" / "0.png").read_bytes()
    (data / "note" / "9.png").write_bytes(whole[: len(whole) // 2])
    if how == "dot":
        Image.new("L", (1, 1)).save(data / "note" / "9.png")
    elif how != "cut":
        data = _labelled(data, cut=how == "cut in a file")
    ledger, out = tmp_path / "ledger", tmp_path / "run"
    Ledger.create(ledger, data="scans", unit="document", epsilon=4.0, delta=1e-6)
    before = Ledger.open(ledger).head()
    told = {
        "selection": [
            "synthesize",
            "selection",
            "--public",
            str(folder / "public"),
            "--pages",
            "4",
        ],
        "diffusion": ["synthesize", "diffusion", "--start", str(start), *EACH],
        "images": ["train", "images", "--architecture", "linear", "--steps", "1"],
    }[method]
    told += [*LABELS, "--data", str(data), "--out", str(out), "--epsilon", "1", "--quiet"]
    assert main([*told, "--ledger", str(ledger)]) == AnnotationError.exit_code
    assert not out.exists()
    assert Ledger.open(ledger).head() == before


def _labelled(data: Path, *, cut: bool) -> Path:
    """Returns a file of documents with words and images, of which one has no class or a cut one."""
    file = data.parent / "scans.jsonl"
    kind = invented.InventedConfig(document_types=("receipt",))
    names = ["letter/0.png", "note/0.png", "note/9.png" if cut else "note/1.png"]
    made = []
    for one, name in zip(invented.documents(seed=1, count=3, config=kind), names, strict=True):
        (page,) = one.document.pages
        page = replace(page, words=page.words[:1], image=data / name)
        document = replace(one.document, pages=(page,))
        label = None if name == "note/1.png" else name.split("/")[0]
        made.append(replace(one, document=document, spans=(), questions=(), document_type=label))
    labelled_files.write(file, made)
    return file
