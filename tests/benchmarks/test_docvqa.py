"""Answers without training, by the benchmark that the docs quote."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import hushdoc_tiny_models
import pytest
import torch

from hushdoc.document.document import Document
from hushdoc_training.data import dataset, providers
from hushdoc_training.docvqa_checkpoint import DocVQACheckpoint
from hushdoc_training.invented.settings import NUM_PROVIDERS
from hushdoc_training.models import pointer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GOALS = (
    "anls_nearest_label", "anls_pointer_nonprivate", "anls_vt5_nonprivate", "anls_provider_eps8",
    "retention_provider_eps8", "apk_accuracy_nonprivate", "apk_accuracy_eps8",
    "memorised_nonprivate", "memorised_eps8", "epsilon_lower_eps8",
)  # fmt: skip


def test_labels_stand_before_right_of_or_above_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_nearest

    words = ["Date:", "1/2/20", "Total", "due", "9.50", "EUR", "Buyer", "Ann", "Lee", "Cash", "8"]
    boxes = [(10, 10, 40, 20), (45, 10, 80, 20), (10, 30, 40, 40), (43, 30, 60, 40),
             (150, 31, 180, 41), (183, 31, 199, 41), (10, 60, 40, 70), (10, 72, 30, 82),
             (33, 72, 50, 82), (100, 100, 130, 110), (133, 100, 140, 110)]  # fmt: skip
    for segments in (None, [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5]):
        document = Document.from_words(words, boxes, width=200, height=200, segments=segments)
        found = list(docvqa_nearest.labels(document.pages[0]))
        pairs = [("Date", "1/2/20"), ("Total due", "9.50 EUR"), ("Buyer", "Ann Lee"), ("Cash", "8")]
        assert set(pairs) <= set(found)
        assert not any(label in ("9.50 EUR", "8", "1/2/20") for label, _ in found)


def test_figures_are_null_for_what_did_not_run_and_means_of_what_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_tables

    nothing = docvqa_tables.figures({}, {})
    assert set(nothing.values()) == {None}
    assert {*GOALS} <= nothing.keys()
    assert len(list(docvqa_tables.tables({}))) == 5

    def result(anls: float, apk: float, memorised: int, bound: float | None) -> dict[str, Any]:
        side = {"accuracy": 0.5, "anls": anls, "questions": 2}
        hidden = {name: {"all": side, "sure": None} for name in docvqa_tables.SIDES}
        row = {"method": "APK", "features": ["nls"], "least_questions": 0, "accuracy": apk,
               "accuracy_deviation": 0.0, "auc": apk, "tpr_at_fpr": {"0.1": 0.0}}  # fmt: skip
        return {
            "members": side, "others": side, "trained_loss": 0.1, "epsilon_lower": bound,
            "epsilon": None if bound is None else 8.0, "attacks": [row], "ablation": [row],
            "memorised": {"memorised": memorised, "twin_alone": 1},
            "hidden": {"email": hidden},
        }  # fmt: skip

    results = {
        "vt5_nonprivate": [result(0.6, 0.8, 3, None), result(0.4, 0.9, 4, None)],
        "vt5_provider_eps8": [result(0.25, 0.5, 0, 0.7), result(0.25, 0.5, 0, 0.2)],
    }
    found = docvqa_tables.figures({"invented": {"anls": 0.47}}, results)
    assert found["anls_nearest_label"] == 0.47
    assert found["anls_pointer_nonprivate"] is None
    assert (found["anls_vt5_nonprivate"], found["retention_provider_eps8"]) == (0.5, 0.5)
    assert (found["apk_accuracy_nonprivate"], found["apk_accuracy_eps8"]) == (0.85, 0.5)
    assert (found["memorised_nonprivate"], found["twin_alone_eps8"]) == (3.5, 1)
    assert found["epsilon_lower_eps8"] == 0.7  # the largest of all runs
    assert found["gain_kept_provider_eps8"] is None  # no start ran
    begun = {**results, "vt5_start": [result(0.2, 0.5, 0, None)]}
    found = docvqa_tables.figures({}, begun)
    assert found["anls_start"] == 0.2
    assert found["gain_kept_provider_eps8"] == pytest.approx((0.25 - 0.2) / (0.5 - 0.2), abs=1e-4)
    lost = {**results, "vt5_start": [result(0.6, 0.5, 0, None)]}
    assert docvqa_tables.figures({}, lost)["gain_kept_provider_eps8"] is None  # nothing to keep
    of_many = {**results["vt5_nonprivate"][0]["attacks"][0], "least_questions": 5}
    results["vt5_nonprivate"][0]["attacks"] = [of_many, *results["vt5_nonprivate"][0]["attacks"]]
    sent = [{**begun["vt5_start"][0], "communication_mb": mb} for mb in (2, 3)]
    lines = "\n".join(docvqa_tables.tables({**results, "vt5_federated_eps8": sent}))
    [told, *_] = (line for line in lines.splitlines() if line.startswith("vt5_federated_eps8"))
    assert told.endswith(" - | - | 0.200 +-0.000 | 0.500 +-0.000 | 2.50")
    assert "no bounds" in lines
    assert "1 features | 0 | 0.850" in lines
    (many,) = {line for line in lines.splitlines() if "1 features | 5" in line}
    assert many.endswith("1 of 2 seeds")  # the other has no provider of so many questions
    assert "vt5_nonprivate         0.100 +-0.000 | 0.500 +-0.000 | 0.500 +-0.141" in lines
    docvqa_tables.require_unrefuted(results)
    false = {"vt5_local_eps8": [result(0.2, 0.5, 0, 0.7), result(0.2, 0.5, 0, 8.1)]}
    with pytest.raises(SystemExit, match=r"at least, and 8\.000 is claimed"):
        docvqa_tables.require_unrefuted({**results, **false})
    assert docvqa_tables.figures({}, false)["epsilon_lower_eps8"] == 8.1


def test_what_is_kept_of_a_gain_stands_beside_what_is_kept_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_sets

    def result(anls: float) -> dict[str, Any]:
        return {
            "anls": anls,
            "anls_answerable": anls,
            "exact": anls / 2,
            "by_key": {"total": anls},
            "rate": 3.0,
        }

    which = docvqa_sets.forms(6, 2)
    assert {item.provider for item in which.train}.isdisjoint(item.provider for item in which.asked)
    inner = which.inner()
    inside = [item.document.id for part in (inner.train, inner.asked) for item in part]
    assert sorted(inside) == sorted(item.document.id for item in which.train)
    assert {item.provider for item in inner.train}.isdisjoint(item.provider for item in inner.asked)
    results = {
        "start": [result(0.5)],
        "nonprivate": [result(0.8)],
        "nonprivate_reader": [result(0.9), result(0.9)],
        "provider_eps8": [result(0.65), result(0.55)],
    }
    found = docvqa_sets.figures(which, results, 0.4)
    assert (found["anls_nearest_label"], found["anls_start"]) == (0.4, 0.5)
    assert found["anls_pointer_nonprivate"] == 0.9  # the better of both
    assert found["retention_provider_eps8"] == pytest.approx(0.6 / 0.9, abs=1e-4)
    assert found["gain_kept_provider_eps8"] == pytest.approx((0.6 - 0.5) / (0.9 - 0.5), abs=1e-4)
    assert found["spread"]["provider_eps8"] == pytest.approx(0.0707, abs=1e-4)
    assert found["seeds"] == {arm: len(each) for arm, each in results.items()}
    assert found["by_key"]["provider_eps8"] == {"total": 0.6}
    assert found["anls_document_eps1"] is found["retention_document_eps1"] is None
    lost = docvqa_sets.figures(which, {**results, "start": [result(0.95)]}, None)
    assert lost["gain_kept_provider_eps8"] is None  # nothing was gained without privacy


def test_states_are_computed_once_and_are_those_of_the_encoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_arms

    model = pointer.pointer_on(hushdoc_tiny_models.model("layoutlm")).eval()
    ids = torch.randint(4, 40, (2, 6), generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    boxes = torch.zeros(2, 6, 4, dtype=torch.int64)
    calls = []
    with torch.no_grad():
        expected = model.states(ids, boxes, mask) * mask[..., None]
    frozen = docvqa_arms.FrozenPointer.of(model, docvqa_arms.KeptStates())
    frozen.inner.register_forward_hook(lambda *_: calls.append(1))
    for reader in (frozen, copy.deepcopy(frozen)):
        with torch.inference_mode():
            found = reader.states(ids, boxes, mask)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert len(calls) == 2  # of each row one
    with torch.no_grad():
        assert not torch.allclose(frozen.states(ids, boxes + 100, mask), expected)
    assert frozen.states(ids, boxes, mask).requires_grad


@pytest.mark.slow
def test_the_quick_run_answers_more_than_chance(run: Any) -> None:
    result, output = run("docvqa", "--quick")
    of_arms = result["sets"].pop("arms_vt5")
    assert of_arms["anls"] == result["anls_nearest_label"] == of_arms["each"][0]
    assert result["sets"].keys() == {"invented", "other_wordings", "forms"}
    for found in result["sets"].values():
        assert 0 < found["answerable"] < found["questions"]
        assert found["anls"] < found["anls_answerable"]
        assert found["anls_answerable"] > 0.25
    invented = result["sets"]["invented"]
    assert result["anls_nearest_label_answerable"] == invented["anls_answerable"]
    assert {*GOALS} <= result.keys()
    assert result["anls_pointer_nonprivate"] is None
    assert result["anls_vt5_nonprivate"] is not None
    assert 0 <= result["epsilon_lower_eps8"] <= 8
    assert "no bounds" in output


def test_halves_of_given_documents_share_no_provider_and_ask_about_none_trained_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_arms

    where = "invented:receipt,questions=keyed,providers=0:12"
    documents = dataset.read(dataset.Source(location=where, documents=30))
    found = docvqa_arms.Data.parted(documents, seed=1)
    halves = [[*train, *asked] for train, asked in zip(found.train, found.asked, strict=True)]
    own = [set(providers.grouped(half)) for half in halves]
    assert own[0]
    assert own[1]
    assert own[0].isdisjoint(own[1])
    kept = sorted(item.document.id for half in halves for item in half)
    assert kept == sorted(item.document.id for item in documents)
    sizes = providers.grouped(documents)
    for train, asked in zip(found.train, found.asked, strict=True):
        trained = providers.grouped(train)
        assert all(0 < len(trained[name]) < len(sizes[name]) for name in providers.grouped(asked))
        assert {name for name in trained if len(sizes[name]) > 1} == set(providers.grouped(asked))
    other = docvqa_arms.Data.parted(documents, seed=0)
    assert set(providers.grouped(other.train[0])) != set(providers.grouped(found.train[0]))


def test_providers_of_three_seeds_are_apart_and_can_be_invented(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_arms

    for many in (5, 1000, 4149):  # the last as many as those of Tito et al.
        scale = docvqa_arms.SCALES["pointer"].of(many)
        ends = [
            (begin, begin + many + scale.known)
            for seed in (1, 2, 3)
            if (begin := scale.first + 2 * many * seed)
        ]
        assert ends[0][0] >= docvqa_arms.PUBLIC_TO
        assert ends[-1][1] <= NUM_PROVIDERS
        assert all(one[1] <= next_one[0] for one, next_one in itertools.pairwise(ends))


@pytest.mark.slow
def test_pointers_are_trained_from_a_public_run_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_arms
    import docvqa_tables

    own = docvqa_arms.Arms(tmp_path / "own", docvqa_arms.QUICK, {})
    begun = own.start("pointer")
    public = str(tmp_path / "own" / "pointer-public")
    arms = docvqa_arms.Arms(tmp_path / "arms", docvqa_arms.QUICK, {"pointer": public})
    names = (
        "pointer_start",
        "pointer_nonprivate",
        "pointer_provider_eps8",
        "pointer_federated_eps8",
    )
    results = {name: [arms.result(name, 1)] for name in names}
    assert not (tmp_path / "arms" / "pointer-public").exists()
    found = docvqa_tables.figures({}, results)
    assert found["anls_pointer_nonprivate"] is not None
    sent = {name: each[0]["communication_mb"] for name, each in results.items()}
    assert sent.pop("pointer_federated_eps8") > 0
    assert {*sent.values()} == {None}
    begins = results["pointer_start"][0]["others"]["anls"]
    assert found["anls_start"] == pytest.approx(begins, abs=1e-4)
    assert 0 <= found["epsilon_lower_eps8"] <= results["pointer_provider_eps8"][0]["epsilon"] <= 8
    claim = DocVQACheckpoint.load(tmp_path / "arms" / "pointer_provider_eps8-1-0").claim
    assert (claim.training["scaling"], claim.training["trained"]) == ("public", "output")
    assert claim.audits
    encoder = begun.model.inner.state_dict()
    for run in (tmp_path / "arms").glob("pointer_*-1-0"):
        learned = docvqa_arms.start_from(str(run)).model.inner.state_dict()
        assert all(learned[name].equal(value) for name, value in encoder.items())


@pytest.mark.slow
def test_private_arms_of_a_set_move_the_last_layer_alone_and_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import docvqa_arms
    import docvqa_sets

    begun = docvqa_arms.Arms(tmp_path / "own", docvqa_arms.QUICK, {}).start("pointer")
    public = str(tmp_path / "own" / "pointer-public")
    made = docvqa_sets.Pointers(public, docvqa_sets.forms(6, 2), tmp_path / "sets")
    arms = ("start", "nonprivate", "nonprivate_reader", "provider_eps8", "document_eps8")
    found = {arm: made.result(arm, 1) for arm in arms}
    assert found["start"] == made.result("start", 1)
    assert all(0 <= one["anls"] <= 1 for one in found.values())
    assert made.kept() == {arm: [one] for arm, one in found.items()}
    before = begun.model.state_dict()
    for arm in arms[1:]:
        after = docvqa_sets.start_from(str(tmp_path / "sets" / f"forms-{arm}-1")).model.state_dict()
        moved = {name for name, value in after.items() if not value.equal(before[name])}
        assert moved
        if arm.endswith("eps8"):
            assert moved <= {"reader.ends.weight", "reader.ends.bias"}
        if arm == "nonprivate_reader":
            assert all(name.startswith("reader.") for name in moved)
