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

import pytest
from hushdoc_attacker import (
    after_certificate,
    after_opening,
    before_handing_out,
    before_listing,
    before_opening,
    grow,
    shrink,
    swap_by_rename,
    write_and_undo,
    write_in_place,
)
from hushdoc_corruption import (
    ENVELOPE,
    MODEL,
    Act,
    Refused,
    Scene,
    cases,
    refusals,
    require_accepted,
    watch_the_door,
)

from hushdoc.artifact import artifact
from hushdoc.errors import ArtifactError
from hushdoc.runtime import loading

LABELS = "labels.json"


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
    blobs, path = scene.move_into_cache(), scene / LABELS
    (blobs / "evil").write_bytes(b"\0" * path.stat().st_size)

    def turn(_: Scene) -> None:
        path.unlink()
        path.symlink_to("../../blobs/evil")

    before_opening(LABELS, turn)(scene)


CHANGED = "CHANGED_DURING_LOAD"
REFUSED: Refused = {
    "DIGEST_MISMATCH": {
        "written-in-place-before-opening": before_opening(LABELS, write_in_place(LABELS)),
        "swapped-before-opening": before_opening(LABELS, swap_by_rename(LABELS)),
        "hard-link-written-before-opening": before_opening(LABELS, _write_through_hard_link),
        "folder-swapped": after_certificate(_swap_folder),
        "link-of-the-cache-turned": _retarget_cache,
    },
    CHANGED: {
        **{
            f"written-in-place-after-opening-{name}": after_opening(name, write_in_place(name))
            for name in (LABELS, MODEL, "hushdoc.json")
        },
        "written-and-undone-after-opening": after_opening(LABELS, write_and_undo(LABELS)),
        "grown-after-opening": after_opening(LABELS, grow(LABELS)),
        "grown-model-after-opening": after_opening(MODEL, grow(MODEL)),
        "shrunk-after-opening": after_opening(LABELS, shrink(LABELS)),
        "shrunk-model-after-opening": after_opening(MODEL, shrink(MODEL)),
        "hard-link-written-after-opening": after_opening(LABELS, _write_through_hard_link),
    },
    "MISSING_FILE": {
        "deleted-before-opening": before_opening(LABELS, lambda s: (s / LABELS).unlink()),
    },
    "PATH_ESCAPE": {
        "becomes-a-link-out": before_opening(
            LABELS, _become(LABELS, lambda path: path.symlink_to("/etc/passwd"))
        ),
    },
    "NOT_REGULAR_FILE": {
        "becomes-a-fifo": before_opening(LABELS, _become(LABELS, os.mkfifo)),
        "becomes-a-folder": before_opening(LABELS, _become(LABELS, Path.mkdir)),
    },
    "SYMLINK": {
        "folder-becomes-a-link": after_certificate(_swap_folder_for_link),
        "link-planted-before-listing": before_listing(lambda s: (s / "x").symlink_to("/")),
    },
    "UNLISTED_FILE": {
        "planted-before-listing": before_listing(_plant),
    },
}

# Only where files are left on disk is there a moment between hashing and loading.
BETWEEN_HASH_AND_LOAD: dict[str, Act] = {
    "written-in-place": before_handing_out(MODEL, write_in_place(MODEL)),
    "written-and-undone": before_handing_out(MODEL, write_and_undo(MODEL)),
    "grown": before_handing_out(MODEL, grow(MODEL)),
    "shrunk": before_handing_out(MODEL, shrink(MODEL)),
}
CASES = (
    *cases("races/", REFUSED),
    *cases("races/on-disk-", {CHANGED: BETWEEN_HASH_AND_LOAD}, ways=("open-low-memory",)),
)


test_is_refused = refusals(CASES)


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

    after_certificate(swap)(scene)
    with _opened(scene, low_memory=low_memory) as found:
        assert (scene / MODEL).read_bytes() == b"evil"
        assert found.read(MODEL) == sound


@pytest.mark.parametrize("low_memory", [False, True])
def test_an_envelope_is_read_once(make_scene: Callable[[], Scene], low_memory: bool) -> None:
    scene = make_scene()
    after_certificate(lambda scene: (scene / ENVELOPE).write_bytes(b"{}"))(scene)
    with _opened(scene, low_memory=low_memory) as found:
        assert [key.name for key in found.signers] == ["key 0"]


def test_what_was_read_into_memory_stays(make_scene: Callable[[], Scene]) -> None:
    scene = make_scene()
    sound = (scene / MODEL).read_bytes()
    found = _opened(scene, low_memory=False)
    write_in_place(MODEL)(scene)
    with found.source(MODEL) as content:
        assert content == sound
    assert found.read(MODEL) == bytes(found.view(MODEL)) == sound


def test_what_was_left_on_disk_is_checked_at_every_reading(make_scene: Callable[[], Scene]) -> None:
    scene = make_scene()
    with _opened(scene, low_memory=True) as found:
        assert bytes(found.view(MODEL)) == (scene / MODEL).read_bytes()
        write_in_place(MODEL)(scene)
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
        swap_by_rename(MODEL)(scene)
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
            write_in_place(MODEL)(scene)
            made.append(Path(model).read_bytes())

    scene.patch.setattr("hushdoc.runtime.graph_batches.Session", Recorded)
    scene.patch.setattr(artifact, "open_artifact", partial(artifact.open_artifact, now=scene.now))
    with pytest.raises(ArtifactError) as caught:
        loading.load(scene.folder, policy=scene.policy, low_memory=True)
    assert caught.value.code == CHANGED
    assert len(made) == 1
    assert reached == ["model"]


def test_reading_while_nobody_writes_comes_as_far_as_the_door(
    make_scene: Callable[[], Scene],
) -> None:
    require_accepted(after_opening(MODEL, lambda scene: None), make_scene)
    require_accepted(before_handing_out(MODEL, lambda scene: None), make_scene)
