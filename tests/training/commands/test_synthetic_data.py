"""Training on a sealed set of synthetic documents: what is inherited, added up, and refused."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest
from hushdoc_command_runs import write_policy
from hushdoc_javascript import require_accepted

from hushdoc import SyntheticDocuments, evaluation, labelled_files, verify
from hushdoc.__main__ import main
from hushdoc.accounting import pld
from hushdoc.accounting.mechanism import Sequence
from hushdoc.artifact.artifact import read_unverified
from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.certificate.recompute import reproduce
from hushdoc.errors import AnnotationError, PolicyViolationError
from hushdoc.policy.rules import check
from hushdoc.synthetic_documents import ADVERSARY
from hushdoc_export import kie as kie_export
from hushdoc_export import synthetic, table
from hushdoc_export.release import Release
from hushdoc_training import inherited_claims, invented, labelled_texts, table_checkpoint
from hushdoc_training.checkpoint import Checkpoint
from hushdoc_training.crf import corpus
from hushdoc_training.data import dataset, splits
from hushdoc_training.labelled_texts import contract_of
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes import starts
from hushdoc_training.recipes.synthesis.evolution import evolve
from hushdoc_training.recipes.synthesis.settings import EvolutionSettings
from hushdoc_training.runs import continued, document_units

KEY = build.known_key(1)
RELEASE = Release(key=KEY, name="receipts", issuer="tests")
EPSILON = 2.0
LIMITS: dict[str, Any] = {"max_epsilon": 8, "max_delta": 1e-5, "privacy_units": ["document"]}
RECEIPTS = invented.InventedConfig(document_types=("receipt",))
QUICK = ("--epochs", "1", "--max-tokens", "64", "--quiet")
TOKENS = ("--rows", "512", "--iterations", "2", "--min-document-frequency", "1")


def made(folder: Path, seed: int) -> Path:
    """Returns a sealed set that three documents voted for."""
    plan = PrivacyPlan.calibrated(
        epsilon=EPSILON, sampling_rate=1.0, steps=1, clipping_norm=1.0, expected_records=50
    )
    settings = EvolutionSettings(
        pool=4, nearest=1, documents=3, document_types=("receipt",), seed=seed
    )
    documents = list(invented.documents(seed=seed, count=3, config=RECEIPTS))
    evolve(documents, plan, settings, out=folder / "run", name="receipts", quiet=True)
    return synthetic.export(folder / "run", folder / "set", RELEASE)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sealed"), 1)


@pytest.fixture(scope="module")
def policy(sealed: Path) -> Path:
    path = write_policy(sealed.parent, build.trust(KEY))
    path.write_text(path.read_text() + f'adversary = "{ADVERSARY}"\n')
    return path


def opened(folder: Path) -> SyntheticDocuments:
    return SyntheticDocuments.open(folder, policy=build.policy(KEY, adversary=ADVERSARY))


def kie(out: Path, data: Path, *options: str | Path) -> int:
    try:
        plain = {"--public", "--not-private", "--synthetic"} & {*options}
        quick = QUICK if plain else QUICK[2:]  # passes are of training without privacy
        told = map(str, ("--data", data, "--out", out, *quick, *options))
        return main(["train", "kie", *told])
    except SystemExit as ended:
        return int(str(ended.code))


@pytest.fixture(scope="module")
def trained(sealed: Path, policy: Path) -> Path:
    """A run on the set."""
    out = sealed.parent / "trained"
    assert kie(out, sealed, "--synthetic", policy, "--start", "small") == 0
    return out


def test_a_model_inherits_all_that_its_set_guarantees(trained: Path, sealed: Path) -> None:
    of_set, claim = opened(sealed).certificate.claim, Checkpoint.load(trained).claim
    (before,), (guarantee,) = of_set.guarantees, claim.guarantees
    assert (before.adversary, guarantee.adversary) == (ADVERSARY, "model-recipient")
    assert (guarantee.epsilon, guarantee.delta, guarantee.unit, guarantee.kind) == (
        before.epsilon,
        before.delta,
        "document",
        "dp",
    )
    assert "post-processing" in guarantee.composition
    assert claim.transcripts == of_set.transcripts
    assert claim.protected_data == of_set.protected_data
    assert {*claim.data_accesses} == {*of_set.data_accesses}
    assert {*claim.caveats} >= {*of_set.caveats}
    assert claim.public_data == of_set.public_data == ()  # a set is never among them
    assert claim.releases == ("synthetic-records", "final-weights")


def test_what_was_done_to_a_set_after_its_claim_is_handed_on(sealed: Path) -> None:
    """A lax policy may accept it for training; whoever gets the model has a policy of his own."""
    documents = opened(sealed)
    certificate = documents.certificate
    for dependent in (False, True):
        done = {"step": "correct-by-hand", "dataDependent": dependent}
        derivation = (*certificate.derivation, done)
        read = replace(documents, certificate=replace(certificate, derivation=derivation))
        made = RELEASE.certificate(
            inherited_claims.claim_of(read, training={}), task="kie", format="onnx", entry="m.onnx"
        )
        (step,) = made.derivation
        assert step["dataDependent"] is dependent
        codes = [rule.code for rule in check(build.policy(KEY), made).failed]
        assert codes == ["UNACCOUNTED_ACCESS"] * dependent


def test_sets_of_which_a_set_was_made_are_named_too(sealed: Path) -> None:
    documents = opened(sealed)
    certificate = documents.certificate
    before = {"step": "take-layouts-of-synthetic-documents", "dataDependent": False}
    training = {
        **certificate.claim.training,
        inherited_claims.STARTED_FROM: {"syntheticDocuments": [before]},
    }
    claim = replace(certificate.claim, training=training)
    read = replace(documents, certificate=replace(certificate, claim=claim))
    made = inherited_claims.claim_of(read, training={})
    first, second = inherited_claims.steps_of(made.training)
    assert (first, second["certificate"]) == (before, certificate.certificate_id)


@pytest.mark.slow
def test_its_certificate_names_the_set_and_both_verifiers_accept_it(
    trained: Path, sealed: Path, tmp_path: Path
) -> None:
    model = kie_export.export(trained, tmp_path / "model", RELEASE)
    assert verify(model, build.policy(KEY, max_epsilon=EPSILON * 1.01)).passed
    with pytest.raises(PolicyViolationError, match="EPSILON_TOO_LARGE"):
        verify(model, build.policy(KEY, max_epsilon=EPSILON / 2))
    certificate = read_unverified(model).certificate
    step, *others = certificate.derivation
    assert step["step"] == "train-on-synthetic-documents"
    assert step["certificate"] == read_unverified(sealed).certificate.certificate_id
    digests = {subject.name: subject.sha256 for subject in read_unverified(sealed).subjects}
    assert step["manifest"] == f"sha256:{digests['hushdoc.json']}"
    assert [other["step"] for other in others] == ["export-onnx"]
    require_accepted(model, tmp_path, KEY, **LIMITS)


def test_private_documents_are_added_up_with_the_set(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "private.jsonl"
    labelled_files.write(data, invented.documents(seed=5, count=3, config=RECEIPTS))
    private = ("--start", trained, "--steps", "1", "--trained", "output", "--epsilon", "3")
    assert kie(tmp_path / "both", data, *private, "--declared-documents", "50") == 0
    claim = Checkpoint.load(tmp_path / "both").claim
    (guarantee,) = claim.guarantees
    transcript = claim.transcripts[str(guarantee.transcript)]
    assert isinstance(transcript, Sequence)
    assert len(transcript.events) == 2
    assert guarantee.delta is not None
    assert guarantee.epsilon == pytest.approx(pld.epsilon(transcript, guarantee.delta))
    assert 3.0 < (guarantee.epsilon or 0.0) < 5.0
    assert all(found.code is None for found in reproduce(claim))
    assert {data.name for data in claim.protected_data} == {"receipts", "private documents"}
    assert inherited_claims.steps_of(claim.training)
    assert claim.releases == ("synthetic-records", "final-weights")
    # What both spent can't be lost by training without noise.
    assert kie(tmp_path / "lost", data, "--not-private", "--start", tmp_path / "both") != 0
    assert "guarantee of kind dp" in capsys.readouterr().err
    windows = (*private, "--privacy-unit", "sequence", "--declared-documents", "50")
    assert kie(tmp_path / "lost", data, *windows) != 0
    assert not (tmp_path / "lost").exists()


def test_what_is_public_in_a_start_s_history_is_asked_anew_for_other_documents(
    trained: Path,
) -> None:
    """What was said of overlap is of the documents of that time, if there were any."""
    stored = Checkpoint.load(trained)
    pages, words = (
        PublicData(name=name, uses=("masks",), privacy_status="public", overlap_with_protected=how)
        for name, how in (("pages", "none"), ("words", "partial"))
    )
    begun = replace(stored, claim=replace(stored.claim, public_data=(pages, words)))
    for told, expected in (("none", ["none", "partial"]), ("unknown", ["unknown", "partial"])):
        found = starts.with_overlap(begun, told).claim.public_data
        assert [data.overlap_with_protected for data in found] == expected
    made_up = replace(pages, privacy_status="invented by a generator")
    public = replace(begun, claim=claims.public((pages, made_up), training={}))
    found = starts.with_overlap(public, "contained").claim.public_data
    assert [data.overlap_with_protected for data in found] == ["contained", "none"]


def test_what_a_public_run_left_unknown_is_declared_by_the_private_one(trained: Path) -> None:
    """It protected nothing that it could speak of; what is said of a set's own documents stays."""
    begun = Checkpoint.load(trained)
    read = [
        PublicData(name=how, uses=("words",), privacy_status="public", overlap_with_protected=how)
        for how in ("none", "unknown", "partial")
    ]
    of_nobody, of_a_set = (
        replace(begun, claim=claim)
        for claim in (
            claims.public(tuple(read), training={}),
            replace(begun.claim, public_data=tuple(read)),
        )
    )
    for start, expected in (
        (of_nobody, ["none", "none", "partial"]),
        (of_a_set, ["none", "unknown", "partial"]),
    ):
        found = starts.with_overlap(start, "none").claim.public_data
        assert [data.overlap_with_protected for data in found] == expected
    found = starts.with_overlap(of_nobody, "unknown").claim.public_data
    assert [data.overlap_with_protected for data in found] == ["unknown", "unknown", "partial"]


@pytest.mark.parametrize("task", ["kie", "docvqa", "images"])
def test_every_task_adds_a_set_up_with_private_documents(
    task: str, sealed: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "private.jsonl"
    labelled_files.write(data, invented.documents(seed=5, count=3, config=RECEIPTS))
    alone = document_units.ALONE
    smaller, more, unit = {
        "kie": (("--max-tokens", "64"), ("--start", "small"), "sequence"),
        "docvqa": (("--max-tokens", "64"), ("--start", "small"), "provider"),
        "images": (("--label", "receipt", "--label", "invoice"), (), None),
    }[task]
    train = ["train", task, "--quiet", *smaller]
    on_set = ["--data", str(sealed), "--synthetic", str(policy), "--epochs", "1", *more]
    assert main([*train, *on_set, "--out", str(tmp_path / "set")]) == 0
    private = ["--data", str(data) if task != "images" else "invented:receipt", "--epsilon", "3"]
    private += ["--documents", "3"] if task == "images" else []
    private += ["--start", str(tmp_path / "set"), "--steps", "1", "--duplicates", "keep"]
    private += ["--trained", "output"] if task != "docvqa" else []
    private += ["--privacy-unit", "document"] if unit else []
    assert main([*train, *private, "--out", str(tmp_path / "both")]) == 0
    written = json.loads((tmp_path / "both" / "checkpoint" / "claim.json").read_text())
    claim = Claim.from_dict(written, "claim")
    (guarantee,) = claim.guarantees
    assert guarantee.unit_definition == alone  # neither of what the two protect
    assert 3.0 < (guarantee.epsilon or 0.0) < EPSILON + 3.0
    assert all(found.code is None for found in reproduce(claim))
    assert len(claim.protected_data) == 2
    if unit:
        capsys.readouterr()
        private[private.index("document")] = unit
        assert main([*train, *private, "--out", str(tmp_path / "lost")]) != 0
        assert f"expected dp for each {unit}" in capsys.readouterr().err
        assert not (tmp_path / "lost").exists()


def test_one_set_counts_once_and_another_is_added(trained: Path, sealed: Path) -> None:
    before, documents = Checkpoint.load(trained).claim, opened(sealed)
    again = continued.without_privacy(inherited_claims.claim_of(documents, training={}), before)
    assert again.guarantees == before.guarantees
    assert inherited_claims.steps_of(again.training) == inherited_claims.steps_of(before.training)
    assert continued.carries(again, before)
    other = inherited_claims.claim_of(documents, training={})
    step = {**other.training[inherited_claims.SETS][0], "manifest": "sha256:" + "0" * 64}
    other = Claim.from_dict(
        {**other.to_dict(), "training": {inherited_claims.SETS: [step]}}, "claim"
    )
    both = continued.without_privacy(other, before)
    assert (both.guarantees[0].epsilon or 0) > 1.3 * EPSILON
    assert len(inherited_claims.steps_of(both.training)) == 2
    assert continued.carries(both, before)
    assert not continued.carries(other, both)  # which leaves the first out


def test_public_documents_leave_what_a_start_inherited(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "public"
    more = ("--public", "--start", trained, "--documents", "2", "--labels", "fields")
    assert kie(out, Path("invented:receipt"), *more, "--new-labels") == 0
    claim, before = Checkpoint.load(out).claim, Checkpoint.load(trained).claim
    assert claim.guarantees == before.guarantees
    assert [data.name for data in claim.public_data] == ["invented:receipt"]


def test_no_score_on_private_documents_stands_beside_what_a_start_inherited(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may be those that the guarantee is about, and the score has no noise."""
    tests = tmp_path / "tests.jsonl"
    labelled_files.write(tests, invented.documents(seed=5, count=2, config=RECEIPTS))
    more = ("--public", "--start", trained, "--documents", "2", "--labels", "fields")
    more = (*more, "--test", tests)
    out = tmp_path / "public"
    assert kie(out, Path("invented:receipt"), *more) == 2
    assert "may be the protected ones" in capsys.readouterr().err
    assert not out.exists()
    assert kie(out, Path("invented:receipt"), *more, "--public-test") == 0


def test_what_is_not_verified_is_not_learned_from(
    sealed: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(sealed, tmp_path / "copied"))
    lines = (copied / "documents-00000.jsonl").read_bytes().splitlines(keepends=True)
    (copied / "documents-00000.jsonl").write_bytes(b"".join(reversed(lines)))
    models = tmp_path / "models.toml"
    models.write_text(policy.read_text().replace(ADVERSARY, "model-recipient"))
    shutil.copy(policy.parent / "trust.json", tmp_path / "trust.json")
    out, start = tmp_path / "run", ("--start", "minilm")  # which is not reached
    for told, said in (
        ((copied, "--synthetic", policy), "DIGEST_MISMATCH"),
        ((sealed, "--synthetic", models), "NO_GUARANTEE_FOR_ADVERSARY"),
        ((sealed, "--public"), "--synthetic POLICY"),
        ((sealed, "--epsilon", "8"), "--synthetic POLICY"),
        ((sealed, "--public", "--synthetic", policy), "not allowed with"),
        ((sealed, "--synthetic", policy, "--ledger", tmp_path), "does not use --ledger"),
        ((sealed, "--synthetic", policy, "--name", "mine"), "--name and --documents"),
        ((sealed, "--synthetic", policy, "--test", policy), "--public-test"),
        ((sealed / "documents-00000.jsonl", "--public"), "--synthetic POLICY"),
    ):
        data, *further = told
        assert kie(out, Path(data), *start, *further) != 0
        assert said in capsys.readouterr().err
        assert not out.exists()
    with pytest.raises(AnnotationError, match="sealed artifact"):
        dataset.corpus_of(sealed)


def test_clauses_and_questions_take_a_set_too(
    sealed: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--data", str(sealed), "--synthetic", str(policy), "--out"]
    clauses = ["train", "clauses", "--level", "token", *TOKENS]
    assert main([*clauses, *told, str(tmp_path / "clauses")]) == 0
    trained = table_checkpoint.load(tmp_path / "clauses")
    assert trained.claim.guarantees[0].adversary == "model-recipient"
    assert trained.claim.releases == ("synthetic-records", "hash-table")
    released = table.seal_table(tmp_path / "table", trained, RELEASE)
    assert verify(released, build.policy(KEY)).passed
    require_accepted(released, tmp_path, KEY, **LIMITS)
    first = read_unverified(released).certificate.derivation[0]
    assert first["step"] == "train-on-synthetic-documents"
    with pytest.raises(SystemExit):
        main([*clauses, "--mode", "dp-sgd", *told, str(tmp_path / "no")])
    assert "--mode dp-sgd" in capsys.readouterr().err
    assert main([*clauses, "--data", str(sealed), "--out", str(tmp_path / "no")]) == 3
    assert "--synthetic POLICY" in capsys.readouterr().err
    questions = ["train", "docvqa", "--start", "small", "--max-tokens", "64", "--quiet"]
    assert main([*questions, *told, str(tmp_path / "docvqa")]) == 0
    written = json.loads((tmp_path / "docvqa" / "checkpoint" / "claim.json").read_text())
    assert written["guarantees"][0]["adversary"] == "model-recipient"


@pytest.mark.parametrize("task", ["kie", "clauses"])
def test_a_score_on_a_set_says_so(
    task: str,
    sealed: Path,
    policy: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = {"kie": ("--start", "small", *QUICK), "clauses": ("--level", "token", *TOKENS)}
    sides = iter((True, False, False))  # a set of three, each of which noise has a part in
    for module in (corpus, splits):
        monkeypatch.setattr(module, "is_held_out", lambda *_, **__: next(sides))
    told = ("--data", sealed, "--synthetic", policy, "--held-out", "0.4", "--out", tmp_path / "run")
    assert main(["train", task, *map(str, told), *chosen[task]]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^Held out: .*, all of a synthetic set(, by the weights|$)", printed, re.M)
    assert "invented" not in printed


def test_the_words_of_a_document_are_a_text_with_its_spans() -> None:
    (labelled,) = invented.documents(seed=3, count=1, config=RECEIPTS)
    contract = contract_of(labelled)
    (page,) = labelled.document.pages
    for span, (label, start, stop) in zip(labelled.spans, contract.spans, strict=True):
        words = [word.text for word in page.words[span.start : span.stop]]
        assert (label, contract.text[start:stop]) == (span.label, " ".join(words))
    assert isinstance(contract, labelled_texts.Contract)


def test_a_set_is_compared_with_private_and_held_out_documents(
    sealed: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("private", 5), ("others", 6)):
        made = invented.documents(seed=seed, count=3, config=RECEIPTS)
        labelled_files.write(tmp_path / f"{name}.jsonl", made)
    sources = ["--private", str(tmp_path / "private.jsonl")]
    sources += ["--held-out", str(tmp_path / "others.jsonl"), "--policy", str(policy)]
    page = tmp_path / "page.html"
    told = ["audit", "synthetic", str(sealed), *sources, "--out", str(page)]
    assert main([*told, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["documents"], figures["groups_of"]) == (3, 3)
    assert figures["private_documents"] == 3
    assert 0 <= figures["nearer_to_private"] <= 1
    nearest = figures["nearest"]
    assert [one["document"] for one in nearest] == [item.document.id for item in opened(sealed)]
    of = {labelled.document.id for labelled in invented.documents(seed=5, count=3, config=RECEIPTS)}
    assert {one["private"] for one in nearest} <= of
    for side in ("private", "held_out"):
        distances = [one[f"distance_to_{side}"] for one in nearest]
        mean = figures[f"mean_distance_to_{side}"]
        assert sum(distances) / len(distances) == pytest.approx(mean, abs=1e-4)
    shown = page.read_text()
    assert shown.count("<svg") == 9
    assert "This page shows private documents" in shown
    assert main(told) != 0  # the page stands there
    assert main([*told[:-2]]) == 0
    printed = capsys.readouterr().out
    assert "two groups of 3" in printed
    assert all(evaluation.NOTE in told_of for told_of in (figures["note"], shown, printed))


def test_a_copy_of_any_private_document_is_found_however_few_are_held_out(
    sealed: Path, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of private documents beyond the number of held-out ones nobody looked for copies."""
    others = list(invented.documents(seed=6, count=9, config=RECEIPTS))
    labelled_files.write(tmp_path / "private.jsonl", [*opened(sealed), *others[1:]])
    labelled_files.write(tmp_path / "others.jsonl", others[:1])
    told = ["audit", "synthetic", str(sealed), "--private", str(tmp_path / "private.jsonl")]
    told += ["--held-out", str(tmp_path / "others.jsonl"), "--policy", str(policy)]
    page = tmp_path / "page.html"
    assert main([*told, "--out", str(page), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["groups_of"], figures["private_documents"]) == (1, 11)
    for one in figures["nearest"]:
        assert (one["private"], one["distance_to_private"]) == (one["document"], 0.0)
    assert page.read_text().count(">private, at 0.000<") == 3
    assert main(told) == 0
    assert "1 of 11 private documents" in capsys.readouterr().out
    # What was held out of nothing hid the copies of it: both were at 0.
    labelled_files.write(tmp_path / "both.jsonl", [*opened(sealed), *others[:1]])
    told += ["--held-out", str(tmp_path / "both.jsonl")]
    assert main([*told, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again.pop("held_out_among_private"), figures.pop("held_out_among_private")) == (3, 0)
    assert again == figures
    assert main(told) == 0
    assert "3 of 4 held-out documents are among the private ones" in capsys.readouterr().out
