"""Somebody who writes to the artifact while it is being read.

The attacker acts at a fixed moment of the real reading: before a file is opened, between its
opening and its first byte, or after its last. Nothing is accepted but what was hashed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hushdoc_corruption import (
    ENVELOPE,
    MODEL,
    Case,
    Scene,
    attacks,
    case,
    require_accepted,
    require_refused,
    watch_the_door,
)

from hushdoc import artifact, attestation, folder
from hushdoc.errors import ArtifactError
from hushdoc.runtime import loading
from hushdoc.signed_file import SignedFile
from hushdoc.subjects import Subject

LABELS = "labels.json"

Act = Callable[[Scene], object]


def _before_opening(name: str, act: Act) -> Act:
    """The certificate has been believed; now the file is changed, then opened."""

    def set_up(scene: Scene) -> None:
        honest = folder.open_signed

        def opened(descriptor: int, subject: Subject) -> SignedFile:
            if subject.name == name:
                act(scene)
            return honest(descriptor, subject)

        scene.patch.setattr(folder, "open_signed", opened)

    return set_up


def _after_opening(name: str, act: Act) -> Act:
    """The file is open and of the signed size; no byte of it has been read."""

    def set_up(scene: Scene) -> None:
        honest = folder.open_signed

        def opened(descriptor: int, subject: Subject) -> SignedFile:
            file = honest(descriptor, subject)
            if subject.name == name:
                act(scene)
            return file

        scene.patch.setattr(folder, "open_signed", opened)

    return set_up


def _after_certificate(act: Act) -> Act:
    """Signature and policy have been checked; no other file has been opened."""

    def set_up(scene: Scene) -> None:
        honest = attestation.read

        def read(*given: Any, **options: Any) -> attestation.Attestation:
            found = honest(*given, **options)
            act(scene)
            return found

        scene.patch.setattr(attestation, "read", read)

    return set_up


def _before_handing_out(name: str, act: Act) -> Act:
    """All checks have passed; now the file that was left on disk is handed to the runtime."""

    def set_up(scene: Scene) -> None:
        honest = SignedFile.path

        def path(file: SignedFile) -> str:
            if file.subject.name == name:
                act(scene)
            return honest(file)

        scene.patch.setattr(SignedFile, "path", path)

    return set_up


def _before_listing(act: Act) -> Act:
    """Every file has been read; now the folder is looked at for others."""

    def set_up(scene: Scene) -> None:
        honest = folder.require_listed

        def listed(*given: Any, **options: Any) -> None:
            act(scene)
            honest(*given, **options)

        scene.patch.setattr(folder, "require_listed", listed)

    return set_up


def _write_in_place(name: str) -> Act:
    """Changes a byte of the file and sets its times back: only ctime tells."""

    def act(scene: Scene) -> None:
        # Times of older kernels tick every few milliseconds; this is not the attack under test.
        time.sleep(0.02)
        path = scene / name
        found = path.stat()
        content = path.read_bytes()
        with path.open("r+b") as stream:
            stream.write(bytes([content[0] ^ 1]))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert path.stat().st_mtime_ns == found.st_mtime_ns

    return act


def _write_and_undo(name: str) -> Act:
    """The very bytes again: whoever read in between read others."""

    def act(scene: Scene) -> None:
        _write_in_place(name)(scene)
        _write_in_place(name)(scene)

    return act


def _grow(name: str) -> Act:
    def act(scene: Scene) -> None:
        time.sleep(0.02)
        with (scene / name).open("ab") as stream:
            stream.write(b"x")

    return act


def _shrink(name: str) -> Act:
    def act(scene: Scene) -> None:
        time.sleep(0.02)
        os.truncate(scene / name, 3)

    return act


def _swap_by_rename(name: str) -> Act:
    """Another file of the same size under the same name."""

    def act(scene: Scene) -> None:
        time.sleep(0.02)
        evil = scene.outside / "evil"
        evil.write_bytes(b"\0" * (scene / name).stat().st_size)
        evil.rename(scene / name)

    return act


def _become(name: str, make: Callable[[Path], object]) -> Act:
    def act(scene: Scene) -> None:
        (scene / name).unlink()
        make(scene / name)

    return act


def _write_through_hard_link(scene: Scene) -> None:
    """The artifact's folder may be out of reach, and the file still has another name."""
    time.sleep(0.02)
    other = scene.outside / "hard-link"
    if not other.exists():
        os.link(scene / LABELS, other)
    content = other.read_bytes()
    with other.open("r+b") as stream:
        stream.write(bytes([content[0] ^ 1]))


def _swap_folder_for_link(scene: Scene) -> None:
    (scene / "onnx").rename(scene.outside / "onnx")
    (scene / "onnx").symlink_to(scene.outside / "onnx")


def _swap_folder(scene: Scene) -> None:
    """The folder is a real one again, with another file of the same size."""
    size = (scene / MODEL).stat().st_size
    (scene / "onnx").rename(scene.outside / "onnx")
    (scene / "onnx").mkdir()
    (scene / MODEL).write_bytes(b"\0" * size)


def _plant(scene: Scene) -> None:
    (scene / "libevil.so").write_bytes(b"x")


def _retarget_cache(scene: Scene) -> None:
    """Sets up a cache whose link is turned to another file of the cache in the last moment."""
    cache = scene.outside / "models--org--x"
    snapshot = cache / "snapshots" / "revision"
    (cache / "blobs").mkdir(parents=True)
    snapshot.parent.mkdir()
    scene.folder.rename(snapshot)
    scene.folder = snapshot
    path = snapshot / LABELS
    path.rename(cache / "blobs" / "good")
    (cache / "blobs" / "evil").write_bytes(b"\0" * (cache / "blobs" / "good").stat().st_size)
    path.symlink_to("../../blobs/good")

    def turn(_: Scene) -> None:
        path.unlink()
        path.symlink_to("../../blobs/evil")

    _before_opening(LABELS, turn)(scene)


CHANGED = "CHANGED_DURING_LOAD"
CASES: tuple[Case, ...] = (
    case(
        "races/written-in-place-before-opening",
        _before_opening(LABELS, _write_in_place(LABELS)),
        "DIGEST_MISMATCH",
    ),
    *(
        case(
            f"races/written-in-place-after-opening-{name}",
            _after_opening(name, _write_in_place(name)),
            CHANGED,
        )
        for name in (LABELS, MODEL, "hushdoc.json")
    ),
    case(
        "races/written-and-undone-after-opening",
        _after_opening(LABELS, _write_and_undo(LABELS)),
        CHANGED,
    ),
    case("races/grown-after-opening", _after_opening(LABELS, _grow(LABELS)), CHANGED),
    case("races/grown-model-after-opening", _after_opening(MODEL, _grow(MODEL)), CHANGED),
    case("races/shrunk-after-opening", _after_opening(LABELS, _shrink(LABELS)), CHANGED),
    case("races/shrunk-model-after-opening", _after_opening(MODEL, _shrink(MODEL)), CHANGED),
    case(
        "races/swapped-before-opening",
        _before_opening(LABELS, _swap_by_rename(LABELS)),
        "DIGEST_MISMATCH",
    ),
    case(
        "races/deleted-before-opening",
        _before_opening(LABELS, lambda s: (s / LABELS).unlink()),
        "MISSING_FILE",
    ),
    case(
        "races/becomes-a-link-out",
        _before_opening(LABELS, _become(LABELS, lambda path: path.symlink_to("/etc/passwd"))),
        "PATH_ESCAPE",
    ),
    case(
        "races/becomes-a-fifo",
        _before_opening(LABELS, _become(LABELS, os.mkfifo)),
        "NOT_REGULAR_FILE",
    ),
    case(
        "races/becomes-a-folder",
        _before_opening(LABELS, _become(LABELS, Path.mkdir)),
        "NOT_REGULAR_FILE",
    ),
    case(
        "races/hard-link-written-before-opening",
        _before_opening(LABELS, _write_through_hard_link),
        "DIGEST_MISMATCH",
    ),
    case(
        "races/hard-link-written-after-opening",
        _after_opening(LABELS, _write_through_hard_link),
        CHANGED,
    ),
    case("races/folder-becomes-a-link", _after_certificate(_swap_folder_for_link), "SYMLINK"),
    case("races/folder-swapped", _after_certificate(_swap_folder), "DIGEST_MISMATCH"),
    case("races/link-of-the-cache-turned", _retarget_cache, "DIGEST_MISMATCH"),
    case("races/planted-before-listing", _before_listing(_plant), "UNLISTED_FILE"),
    case(
        "races/link-planted-before-listing",
        _before_listing(lambda s: (s / "x").symlink_to("/")),
        "SYMLINK",
    ),
    # Only where files are left on disk is there a moment between hashing and loading.
    *(
        case(
            f"races/{name}-between-hash-and-load",
            _before_handing_out(MODEL, act),
            CHANGED,
            ways=("open-low-memory",),
        )
        for name, act in (
            ("written-in-place", _write_in_place(MODEL)),
            ("written-and-undone", _write_and_undo(MODEL)),
            ("grown", _grow(MODEL)),
            ("shrunk", _shrink(MODEL)),
        )
    ),
)


@pytest.mark.parametrize("attack", attacks(CASES))
def test_is_refused(attack: Case, make_scene: Callable[[], Scene]) -> None:
    require_refused(attack, make_scene)


def _opened(scene: Scene, *, low_memory: bool) -> artifact.Artifact:
    return artifact.open_artifact(scene.folder, scene.policy, now=scene.now, low_memory=low_memory)


@pytest.mark.parametrize("low_memory", [False, True])
def test_a_folder_that_is_swapped_for_another_is_not_looked_at(
    make_scene: Callable[[], Scene], low_memory: bool
) -> None:
    scene = make_scene()
    sound = (scene / MODEL).read_bytes()

    def swap(scene: Scene) -> None:
        scene.folder.rename(scene.outside / "away")
        shutil.copytree(scene.outside / "away", scene.folder)
        (scene / MODEL).write_bytes(b"evil")

    _after_certificate(swap)(scene)
    with _opened(scene, low_memory=low_memory) as found:
        assert (scene / MODEL).read_bytes() == b"evil"
        assert found.read(MODEL) == sound


@pytest.mark.parametrize("low_memory", [False, True])
def test_an_envelope_is_read_once(make_scene: Callable[[], Scene], low_memory: bool) -> None:
    scene = make_scene()
    _after_certificate(lambda scene: (scene / ENVELOPE).write_bytes(b"{}"))(scene)
    with _opened(scene, low_memory=low_memory) as found:
        assert [key.name for key in found.signers] == ["key 0"]


def test_what_was_read_into_memory_stays(make_scene: Callable[[], Scene]) -> None:
    scene = make_scene()
    sound = (scene / MODEL).read_bytes()
    found = _opened(scene, low_memory=False)
    _write_in_place(MODEL)(scene)
    with found.source(MODEL) as content:
        assert content == sound
    assert found.read(MODEL) == bytes(found.view(MODEL)) == sound


def test_what_was_left_on_disk_is_checked_at_every_reading(make_scene: Callable[[], Scene]) -> None:
    scene = make_scene()
    with _opened(scene, low_memory=True) as found:
        assert bytes(found.view(MODEL)) == (scene / MODEL).read_bytes()
        _write_in_place(MODEL)(scene)
        for reading in (found.read, found.view):
            with pytest.raises(ArtifactError) as caught:
                reading(MODEL)
            assert caught.value.code == CHANGED
        with pytest.raises(ArtifactError) as caught, found.source(MODEL):
            pass
        assert caught.value.code == CHANGED


def test_a_name_that_is_given_to_another_file_opens_the_signed_one(
    make_scene: Callable[[], Scene],
) -> None:
    """The runtime is handed a path to the open file, not to whatever bears its name now."""
    scene = make_scene()
    sound = (scene / MODEL).read_bytes()
    with _opened(scene, low_memory=True) as found:
        source = found.source(MODEL)
        path = source.__enter__()
        _swap_by_rename(MODEL)(scene)
        assert (scene / MODEL).read_bytes() != sound
        assert Path(str(path)).read_bytes() == sound
        with pytest.raises(ArtifactError) as caught:
            source.__exit__(None, None, None)
        # That it lost its name is a change as well, of a file that nobody else may touch.
        assert caught.value.code == CHANGED


def test_loading_in_low_memory_uses_no_session_of_a_changed_file(
    make_scene: Callable[[], Scene],
) -> None:
    """The session is made from the changed file, and still no model is handed out."""
    scene = make_scene()
    reached = watch_the_door(scene.patch)
    made: list[object] = []

    class Recorded:
        def __init__(self, model: str, **_: object) -> None:
            _write_in_place(MODEL)(scene)
            made.append(Path(model).read_bytes())

    scene.patch.setattr("hushdoc.runtime.kie.Session", Recorded)
    scene.patch.setattr(artifact, "open_artifact", partial(artifact.open_artifact, now=scene.now))
    with pytest.raises(ArtifactError) as caught:
        loading.load(scene.folder, policy=scene.policy, low_memory=True)
    assert caught.value.code == CHANGED
    assert len(made) == 1
    assert not reached


def test_reading_while_nobody_writes_comes_as_far_as_the_door(
    make_scene: Callable[[], Scene],
) -> None:
    require_accepted(_after_opening(MODEL, lambda scene: None), make_scene)
    require_accepted(_before_handing_out(MODEL, lambda scene: None), make_scene)
