"""Folders: where links may lead, what may stand there, and what happens if it is swapped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushdoc.artifact import folder
from hushdoc.certificate.subjects import ENVELOPE_FILE, Subject
from hushdoc.errors import ArtifactError

pytestmark = pytest.mark.usefixtures("how")

CONTENTS = {"labels.json": b"labels", "onnx/model.onnx": b"model", ENVELOPE_FILE: b"envelope"}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read(path: Path, name: str, content: bytes | None = None) -> bytes:
    """Returns a file of a folder that was signed with its content."""
    content = CONTENTS[name] if content is None else content
    subject = Subject(name=name, sha256=digest(content), size=len(content))
    with folder.opened(path) as descriptor, folder.open_signed(descriptor, subject) as file:
        file.require_signed()
        return file.read()


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(ArtifactError) as caught:
        action()
    return caught.value.code


def require_listed(path: Path) -> None:
    names = [name for name in CONTENTS if name != ENVELOPE_FILE]
    with folder.opened(path) as descriptor:
        folder.require_listed(descriptor, names)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Returns a folder with plain files."""
    for name, content in CONTENTS.items():
        path = tmp_path / "artifact" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "artifact"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Returns the folder of a revision as the Hugging Face cache lays it out."""
    cache = tmp_path / "hub" / "models--org--name"
    (cache / "blobs").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc")
    found = cache / "snapshots" / "abc"
    for name, content in {**CONTENTS, "README.md": b"card", ".gitattributes": b"x"}.items():
        blob = cache / "blobs" / digest(content)
        blob.write_bytes(content)
        path = found / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(blob, path.parent))
    return found


def relink(path: Path, target: str | Path) -> None:
    path.unlink()
    path.symlink_to(target)


def test_a_hub_cache_is_read_through_its_links(snapshot: Path) -> None:
    assert os.readlink(snapshot / "onnx" / "model.onnx").startswith("../../../blobs/")
    for name in ("labels.json", "onnx/model.onnx"):
        assert read(snapshot, name) == CONTENTS[name]
    with folder.opened(snapshot) as descriptor:
        assert folder.read_envelope_file(descriptor, 100) == b"envelope"
    require_listed(snapshot)


def test_the_hub_writes_such_links(tmp_path: Path) -> None:
    """The layout is the library's own, not our idea of it."""
    file_download = pytest.importorskip("huggingface_hub.file_download")
    cache = tmp_path / "models--org--name"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots" / "abc" / "onnx").mkdir(parents=True)
    blob = cache / "blobs" / digest(b"model")
    blob.write_bytes(b"model")
    pointer = cache / "snapshots" / "abc" / "onnx" / "model.onnx"
    file_download._create_symlink(str(blob), str(pointer), new_blob=False)
    assert pointer.is_symlink()
    assert read(cache / "snapshots" / "abc", "onnx/model.onnx") == b"model"


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("../../blobs/none", "MISSING_FILE"),
        ("../../blobs/link", "SYMLINK"),
        ("../../blobs/folder", "NOT_REGULAR_FILE"),
        ("../../blobs/pipe", "NOT_REGULAR_FILE"),
        ("../../blobs", "PATH_ESCAPE"),
        ("../../blobs/folder/deep", "PATH_ESCAPE"),
        ("../../blobs/../refs/main", "PATH_ESCAPE"),
        ("../../refs/main", "PATH_ESCAPE"),
        ("../../../models--other--name/blobs/secret", "PATH_ESCAPE"),
        ("../../../../secret", "PATH_ESCAPE"),
        ("../def/labels.json", "PATH_ESCAPE"),
        ("/etc/passwd", "PATH_ESCAPE"),
        ("..", "PATH_ESCAPE"),
        (".", "SYMLINK"),
        ("labels.json", "SYMLINK"),
        ("onnx", "NOT_REGULAR_FILE"),
        ("onnx/../onnx", "NOT_REGULAR_FILE"),
        ("none", "MISSING_FILE"),
    ],
)
def test_links_that_lead_elsewhere_are_refused(snapshot: Path, target: str, code: str) -> None:
    cache = snapshot.parent.parent
    (cache.parent.parent / "secret").write_bytes(CONTENTS["labels.json"])
    (cache / "blobs" / "link").symlink_to(digest(CONTENTS["labels.json"]))
    (cache / "blobs" / "folder").mkdir()
    (cache / "blobs" / "folder" / "deep").write_bytes(CONTENTS["labels.json"])
    os.mkfifo(cache / "blobs" / "pipe")
    relink(snapshot / "labels.json", target)
    assert code_of(lambda: read(snapshot, "labels.json")) == code


def test_an_absolute_link_into_the_cache_is_refused_too(snapshot: Path) -> None:
    blob = snapshot.parent.parent / "blobs" / digest(CONTENTS["labels.json"])
    relink(snapshot / "labels.json", blob)
    assert code_of(lambda: read(snapshot, "labels.json")) == "PATH_ESCAPE"


def test_a_folder_of_blobs_beside_no_cache_is_refused(plain: Path) -> None:
    """Two levels up stands `blobs`, but the artifact is in no folder `snapshots` beside it."""
    inner = plain.parent / "cache" / "other" / "artifact"
    inner.parent.mkdir(parents=True)
    plain.rename(inner)
    (inner.parent.parent / "blobs").mkdir()
    (inner.parent.parent / "blobs" / "x").write_bytes(CONTENTS["labels.json"])
    relink(inner / "labels.json", "../../blobs/x")
    assert code_of(lambda: read(inner, "labels.json")) == "SYMLINK"
    (inner.parent.parent / "snapshots").symlink_to("other")
    assert code_of(lambda: read(inner, "labels.json")) == "SYMLINK"


def test_a_linked_store_of_files_is_refused(snapshot: Path) -> None:
    cache = snapshot.parent.parent
    (cache / "blobs").rename(cache.parent / "outside")
    (cache / "blobs").symlink_to("../outside")
    assert code_of(lambda: read(snapshot, "labels.json")) == "SYMLINK"


def test_links_inside_the_artifact_are_followed_a_few_times(plain: Path) -> None:
    content = CONTENTS["onnx/model.onnx"]
    (plain / "onnx" / "a").symlink_to("../onnx/./model.onnx")
    (plain / "b").symlink_to("onnx/a")
    assert read(plain, "b", content) == content
    for number in range(folder.MAX_LINKS):
        (plain / f"c{number + 1}").symlink_to(f"c{number}")
    (plain / "c0").symlink_to("b")
    assert code_of(lambda: read(plain, f"c{folder.MAX_LINKS}", content)) == "SYMLINK"
    (plain / "x").symlink_to("y")
    (plain / "y").symlink_to("x")
    assert code_of(lambda: read(plain, "x", content)) == "SYMLINK"


def test_linked_folders_are_refused(snapshot: Path) -> None:
    (snapshot / "onnx").rename(snapshot / "real")
    (snapshot / "onnx").symlink_to("real")
    assert code_of(lambda: read(snapshot, "onnx/model.onnx")) == "SYMLINK"
    assert code_of(lambda: require_listed(snapshot)) == "SYMLINK"


def test_a_file_in_a_folders_place_is_refused(plain: Path) -> None:
    for replace, code in (
        (Path.touch, "MISSING_FILE"),
        (os.mkfifo, "NOT_REGULAR_FILE"),
        (lambda path: path.symlink_to("loop"), "SYMLINK"),
    ):
        (plain / "onnx").rename(plain / "other")
        replace(plain / "onnx")  # type: ignore[no-untyped-call]
        assert code_of(lambda: read(plain, "onnx/model.onnx")) == code
        (plain / "onnx").unlink()
        (plain / "other").rename(plain / "onnx")


def test_a_file_that_may_not_be_read_is_refused(plain: Path) -> None:
    (plain / "labels.json").chmod(0)
    if os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    assert code_of(lambda: read(plain, "labels.json")) == "BAD_ARTIFACT"


def test_hard_links_are_plain_files(plain: Path) -> None:
    (plain / "labels.json").rename(plain.parent / "store")
    os.link(plain.parent / "store", plain / "labels.json")
    assert read(plain, "labels.json") == CONTENTS["labels.json"]
    require_listed(plain)


def test_the_pinned_folder_stays_the_same_when_its_parents_are_swapped(
    plain: Path, tmp_path: Path, how: str
) -> None:
    if how == "path":
        pytest.skip("only a descriptor keeps a folder whose name is taken away")
    subject = Subject(name="labels.json", sha256=digest(b"labels"), size=6)
    with folder.opened(plain) as descriptor:
        plain.rename(tmp_path / "moved")
        plain.mkdir()
        (plain / "labels.json").write_bytes(b"planted")
        with folder.open_signed(descriptor, subject) as file:
            assert file.read() == b"labels"


@pytest.mark.parametrize(
    ("name", "target", "code"),
    [
        ("README.md", "/etc/passwd", "PATH_ESCAPE"),
        ("README.md", "../../../x", "PATH_ESCAPE"),
        ("evil.so", "labels.json", "SYMLINK"),
        ("evil.so", "../../blobs/x", "SYMLINK"),
        (".git", "onnx", "SYMLINK"),
        ("onnx/README.md", "../labels.json", "SYMLINK"),
    ],
)
def test_planted_links_are_refused(snapshot: Path, name: str, target: str, code: str) -> None:
    (snapshot / name).unlink(missing_ok=True)
    (snapshot / name).symlink_to(target)
    assert code_of(lambda: require_listed(snapshot)) == code


def test_what_nobody_signs_is_not_opened(plain: Path) -> None:
    (plain / "README.md").write_text("x")
    (plain / "README.md").chmod(0)
    (plain / ".git").mkdir()
    os.mkfifo(plain / ".git" / "pipe")
    require_listed(plain)


def test_no_more_entries_are_looked_at_than_may_be_there(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in folder.UNSIGNED_FILES:
        (plain / name).touch()
    (plain / ".git").mkdir()
    require_listed(plain)  # as many as may be there
    for number in range(500):
        (plain / f"a{number}").touch()
    listed: list[int] = []
    honest = sorted

    def counting(entries: Any) -> list[Any]:
        found = honest(entries)
        listed.append(len(found))
        return found

    monkeypatch.setattr(folder, "sorted", counting, raising=False)
    assert code_of(lambda: require_listed(plain)) == "UNLISTED_FILE"
    assert listed[0] < 15


def test_subjects_are_signed_from_plain_files_only(plain: Path, snapshot: Path) -> None:
    (plain / "README.md").touch()
    (plain / ".git").mkdir()
    (plain / ".git" / "HEAD").touch()
    assert [item.name for item in folder.subjects_of(plain)] == ["labels.json", "onnx/model.onnx"]
    assert folder.subjects_of(plain)[1].sha256 == digest(b"model")
    assert code_of(lambda: folder.subjects_of(snapshot)) == "SYMLINK"
    os.mkfifo(plain / "pipe")
    assert code_of(lambda: folder.subjects_of(plain)) == "NOT_REGULAR_FILE"
