"""Somebody who writes to an artifact at a fixed moment of the real reading, and what they do."""

from __future__ import annotations

import os
import time
from typing import Any

from hushdoc_corruption import Act, Scene

from hushdoc.artifact import attestation, folder
from hushdoc.artifact.directory_handle import DirectoryHandle
from hushdoc.artifact.signed_file import SignedFile
from hushdoc.certificate.subjects import Subject


def _around_opening(name: str, act: Act, *, after: bool) -> Act:
    def set_up(scene: Scene) -> None:
        honest = folder.open_signed

        def opened(directory: DirectoryHandle, subject: Subject) -> SignedFile:
            if subject.name == name and not after:
                act(scene)
            file = honest(directory, subject)
            if subject.name == name and after:
                act(scene)
            return file

        scene.patch.setattr(folder, "open_signed", opened)

    return set_up


def before_opening(name: str, act: Act) -> Act:
    """The certificate has been trusted; now the file is changed, then opened."""
    return _around_opening(name, act, after=False)


def after_opening(name: str, act: Act) -> Act:
    """The file is open and of the signed size; no byte of it has been read."""
    return _around_opening(name, act, after=True)


def after_certificate(act: Act) -> Act:
    """Signature, identity and time have been checked; no other file has been opened."""

    def set_up(scene: Scene) -> None:
        honest = attestation.read

        def read(*given: Any, **options: Any) -> attestation.Attestation:
            found = honest(*given, **options)
            act(scene)
            return found

        scene.patch.setattr(attestation, "read", read)

    return set_up


def before_handing_out(name: str, act: Act) -> Act:
    """All checks have passed; now the file that was left on disk is handed to the runtime."""

    def set_up(scene: Scene) -> None:
        honest = SignedFile.path

        def path(file: SignedFile) -> str:
            if file.subject.name == name:
                act(scene)
            return honest(file)

        scene.patch.setattr(SignedFile, "path", path)

    return set_up


def before_listing(act: Act) -> Act:
    """Every file has been read; now the folder is looked at for others."""

    def set_up(scene: Scene) -> None:
        honest = folder.require_listed

        def listed(*given: Any, **options: Any) -> None:
            act(scene)
            honest(*given, **options)

        scene.patch.setattr(folder, "require_listed", listed)

    return set_up


def write_in_place(name: str) -> Act:
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


def write_and_undo(name: str) -> Act:
    """The very bytes again: whoever read in between read others."""

    def act(scene: Scene) -> None:
        write_in_place(name)(scene)
        write_in_place(name)(scene)

    return act


def grow(name: str) -> Act:
    def act(scene: Scene) -> None:
        time.sleep(0.02)
        with (scene / name).open("ab") as stream:
            stream.write(b"x")

    return act


def shrink(name: str) -> Act:
    def act(scene: Scene) -> None:
        time.sleep(0.02)
        os.truncate(scene / name, 3)

    return act


def swap_by_rename(name: str) -> Act:
    """Another file of the same size under the same name."""

    def act(scene: Scene) -> None:
        time.sleep(0.02)
        evil = scene.outside / "evil"
        evil.write_bytes(b"\0" * (scene / name).stat().st_size)
        evil.rename(scene / name)

    return act
