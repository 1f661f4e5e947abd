"""Artifacts of a model hub: from its cache, by a pinned revision, checked as any folder."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub", reason="the extra [hub] is not installed")

import hushdoc
from hushdoc.commands import sample
from hushdoc.errors import ArtifactError, InputError

SAMPLE = Path(sample.__file__).parents[1] / "sample"
REVISION = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache as huggingface_hub lays it out, and no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--acme--invoices"
    snapshot = root / "snapshots" / REVISION
    (root / "blobs").mkdir(parents=True)
    for path in (SAMPLE / "model").rglob("*"):
        if path.is_file():
            blob = root / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
            shutil.copy(path, blob)
            link = snapshot / path.relative_to(SAMPLE / "model")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def policy() -> hushdoc.Policy:
    return hushdoc.Policy.from_toml(SAMPLE / "policy.toml")


def test_a_pinned_revision_is_verified_and_loaded_from_the_cache(cache: Path) -> None:
    name = f"hf://acme/invoices@{REVISION}"
    assert hushdoc.verify(name, policy=policy()).passed
    pytest.importorskip("onnxruntime", reason="runs the sample's graph")
    model = hushdoc.load(name, policy=policy())
    assert model.certificate == hushdoc.load(cache, policy=policy()).certificate


def test_what_the_hub_sent_is_checked_by_its_certificate(cache: Path) -> None:
    blob = (cache / "labels.json").resolve()
    blob.write_bytes(blob.read_bytes().replace(b"total", b"other"))
    with pytest.raises(ArtifactError) as refused:
        hushdoc.verify(f"hf://acme/invoices@{REVISION}", policy=policy())
    assert refused.value.code == "DIGEST_MISMATCH"


@pytest.mark.parametrize(
    "name",
    ["hf://acme/invoices", "hf://acme/invoices@main", f"hf://acme@{REVISION}", "hf://a/../b@0"],
)
def test_a_name_without_a_pinned_revision_is_refused(name: str) -> None:
    with pytest.raises(ArtifactError) as refused:
        hushdoc.load(name, policy=policy())
    assert refused.value.code == "HUB_NAME"


def test_what_is_not_there_is_one_typed_error(cache: Path) -> None:
    with pytest.raises(ArtifactError) as refused:
        hushdoc.verify(f"hf://acme/invoices@{REVISION[::-1]}", policy=policy())
    assert refused.value.code == "HUB_FAILED"
    with pytest.raises(InputError):
        hushdoc.verify(7, policy=policy())  # type: ignore[arg-type]
