"""A table becomes an artifact: complete, rounded within bounds, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hushdoc_tiny as tiny
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from hushdoc.artifact.artifact import open_artifact
from hushdoc.errors import (
    CertificateError,
    CheckpointError,
    OutputExistsError,
    PolicyViolationError,
)
from hushdoc.hashing import Clusters, FeatureScheme
from hushdoc.policy.policy import Policy
from hushdoc_export.table import differences, rounded, seal_table
from hushdoc_training.crf import claims
from hushdoc_training.table_checkpoint import TableCheckpoint

SCHEME = FeatureScheme(rows=300, level="token", clusters=4)


def parts(**change: Any) -> dict[str, Any]:
    return {
        "weights": np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32),
        "transitions": np.random.default_rng(2).normal(size=(3, 3)),
        "tags": ("O", "I-party", "B-party"),
        "scheme": SCHEME,
        "clusters": Clusters.of([("law", 3), ("court", 3), ("cat", 0)], SCHEME),
        "claim": tiny.claim(),
        **change,
    }


def sealed(out: Path, *, dtype: str = "float16", **change: Any) -> Path:
    table = TableCheckpoint(**parts(**change))
    return seal_table(out, table, tiny.release(name="tiny-table"), dtype=dtype)


@pytest.mark.parametrize(("dtype", "kind"), [("float16", "F16"), ("int8", "U8")])
def test_an_artifact_says_what_it_holds(tmp_path: Path, dtype: str, kind: str) -> None:
    folder = sealed(tmp_path / "a", dtype=dtype)
    artifact = open_artifact(folder, tiny.policy())
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "clusters.safetensors",
        "hushdoc.json",
        "labels.json",
        "privacy.intoto.jsonl",
        "table.safetensors",
    }
    assert json.loads((folder / "labels.json").read_text()) == {
        "fields": ["party"],
        "tags": ["O", "I-party", "B-party"],
    }
    preprocessing = artifact.manifest["preprocessing"]
    assert preprocessing["hashTable"] == {
        "tensor": "weights",
        "rows": 300,
        "columns": 3,
        "reference": 0,
    }
    assert FeatureScheme.from_dict(preprocessing["features"]) == SCHEME
    assert preprocessing["weights"] == dtype
    (step,) = artifact.certificate.derivation
    assert step["step"] == "round-table"
    assert step["dataDependent"] is False
    assert step["weights"] == dtype
    assert step["leftOut"] == "O"
    with safe_open(folder / "table.safetensors", "numpy") as tensors:
        assert tensors.get_slice("weights").get_dtype() == kind
        assert tensors.metadata()["hushdoc.certificate_id"] == artifact.certificate.certificate_id
        assert "dp epsilon=" in tensors.metadata()["hushdoc.summary"]
        back = tensors.get_tensor("weights").astype(np.float64)
        if dtype == "int8":
            back = (back - 128) * tensors.get_tensor("scale")
        exceeds = parts()["weights"][:, 1:] - parts()["weights"][:, :1]
        assert np.abs(back - exceeds).max() <= step["largestError"] * 1.0001
        assert tensors.get_tensor("transitions") == pytest.approx(parts()["transitions"])


def test_what_training_wrote_is_no_artifact_until_it_is_exported(tmp_path: Path) -> None:
    checkpoint = tiny.save_table(tmp_path / "run" / "checkpoint", **parts())
    for folder in (checkpoint, checkpoint.parent):
        with pytest.raises(CertificateError, match="`hushdoc export FOLDER") as told:
            open_artifact(folder, tiny.policy())
        assert told.value.code == "MISSING_CERTIFICATE"


TABLES = st.integers(0, 2**32).map(
    lambda seed: np.random.default_rng(seed).standard_t(1.5, (40, 2)).astype(np.float32)
)


@given(TABLES, st.sampled_from([1.0, 1e-9, 100.0]))
def test_bytes_are_off_by_half_a_scale_at_most(weights: Any, size: float) -> None:
    weights = np.clip(weights * np.float32(size), -60_000, 60_000)
    made = rounded(weights, "int8")
    assert made.weights.dtype == np.uint8
    whole = made.weights.astype(int) - 128
    assert np.abs(whole).max(axis=0).tolist() == [127, 127]
    assert made.weights.min() >= 1
    errors = np.abs(whole * made.scale.astype(np.float64) - weights)
    assert made.largest_error == pytest.approx(float(errors.max()), rel=1e-4, abs=1e-12)
    assert (errors <= made.scale.astype(np.float64) * 0.5001).all()
    assert made.raised_rows == 0


@given(TABLES, st.sampled_from([1.0, 1e-9, 100.0]))
def test_halves_are_bounded_and_leave_no_row_empty(weights: Any, size: float) -> None:
    weights = np.clip(weights * np.float32(size), -60_000, 60_000)
    made = rounded(weights, "float16")
    assert made.scale is None
    assert made.weights.any(axis=1).all()
    step, slack = float(np.finfo(np.float16).smallest_subnormal), np.abs(weights) * 2.0**-11
    errors = np.abs(made.weights.astype(np.float64) - weights)
    assert made.largest_error == pytest.approx(float(errors.max()), rel=1e-3, abs=1e-12)
    # Half a step each; a raised weight moves by a whole one at most, and only one of its row.
    moved = errors > (step / 2 + slack) * 1.001
    assert (errors <= (step + slack) * 1.001).all()
    assert moved.sum() <= made.raised_rows
    assert (moved.sum(axis=1) <= 1).all()


@given(TABLES, st.permutations(["O", "B-a"]))
def test_differences_answer_as_the_weights_do(weights: Any, tags: list[str]) -> None:
    lean, reference = differences(weights, tags)
    assert tags[reference or 0] == "O"
    assert lean.shape == (40, 1)
    (other,) = {0, 1} - {reference}
    assert (lean[:, 0] == weights[:, other] - weights[:, reference]).all()


def test_some_label_is_left_out_unless_it_is_the_only_one() -> None:
    weights = np.array([[1, 5, 3], [2, 2, 2]], np.float32)
    lean, reference = differences(weights, ["I-a", "B-a", "I-b"])
    assert (lean.tolist(), reference) == ([[4, 2], [0, 0]], 0)
    assert differences(weights[:, :1], ["O"])[1] is None
    # Labels that nothing tells apart still leave no row that looks as if nothing stood there.
    assert rounded(lean, "int8").weights.any(axis=1).all()


def test_raised_weights_keep_their_sign_and_speak_for_no_label_if_they_have_none() -> None:
    tiny = np.finfo(np.float16).smallest_subnormal
    made = rounded(np.array([[1e-12, -3e-12], [0, 0], [1, 0]], dtype=np.float32), "float16")
    assert made.weights.tolist() == [[0, -tiny], [-tiny, 0], [1, 0]]
    assert made.raised_rows == 2


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        ((5, 1), np.nan, "missing or infinite"),
        ((5, 1), -np.inf, "missing or infinite"),
        ((5, 1), 1e6, "1e\\+06"),
        (5, 0.0, "1 of 300 rows"),
        (slice(7, 10), -0.0, "3 of 300 rows"),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_table_that_is_not_complete_is_not_sealed(
    tmp_path: Path, place: Any, value: float, found: str, dtype: str
) -> None:
    weights = parts()["weights"]
    weights[place] = value
    with pytest.raises(CheckpointError, match=found):
        sealed(tmp_path / "a", dtype=dtype, weights=weights)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_table_with_empty_rows_is_sealed_where_no_guarantee_is_declared(
    tmp_path: Path, dtype: str
) -> None:
    weights = parts()["weights"]
    weights[5] = 0.0
    made = claims.FilledTable(name="docs", fill="none", rows=300, columns=3, settings={})
    folder = sealed(tmp_path / "a", dtype=dtype, weights=weights, claim=claims.claim(made))
    with pytest.raises(PolicyViolationError):
        open_artifact(folder, tiny.policy())
    found = open_artifact(folder, Policy.integrity_only(trust=tiny.TRUST))
    assert [one.kind for one in found.certificate.claim.guarantees] == ["none"]
    weights[6, 0] = np.nan
    with pytest.raises(CheckpointError, match="missing or infinite|NaN"):
        sealed(tmp_path / "b", dtype=dtype, weights=weights, claim=claims.claim(made))


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ("O", "B-party")},
        {"scheme": FeatureScheme(rows=301, level="token", clusters=4)},
        {"transitions": np.zeros((3, 2))},
        {"transitions": np.full((3, 3), np.nan)},
        {"clusters": None},
        {"scheme": FeatureScheme(rows=300, level="token")},
    ],
)
def test_parts_that_do_not_fit_are_not_sealed(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError):
        sealed(tmp_path / "a", **change)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    sealed(tmp_path / "a")
    with pytest.raises(OutputExistsError):
        sealed(tmp_path / "a")
    with pytest.raises(ValueError, match="dtype"):
        sealed(tmp_path / "b", dtype="int4")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
