"""The witness testifies of honest recipes, and of others that they are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import hushdoc_witnessed
import pytest
import torch

from hushdoc.__main__ import main
from hushdoc.errors import InputError, PrivacyError
from hushdoc_training.ledger.ledger import Ledger
from hushdoc_training.randomness.secret_stream import SecretStream
from hushdoc_training.recipes.docvqa import public_inputs
from hushdoc_training.witness import canaries
from hushdoc_training.witness.entropy import Entropy, coins, just_above, just_below, key_with
from hushdoc_training.witness.federated_witness import released
from hushdoc_training.witness.findings import Witnessed
from hushdoc_training.witness.optimizer_spy import digest
from hushdoc_training.witness.whitening_spy import WhiteningSpy
from hushdoc_training.witness.witness import witness


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hushdoc_witnessed.public_start(tmp_path_factory.mktemp("start"))


def differing(found: Witnessed) -> list[str]:
    return [finding.what for finding in found.findings if not finding.agrees]


def test_a_private_training_of_forms_is_what_it_claims(start: Path) -> None:
    found = witness(hushdoc_witnessed.kie(start))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (18, 7)


@pytest.mark.slow
def test_an_output_layer_that_reads_several_layers_is_what_is_claimed(start: Path) -> None:
    how = ("--trained", "output", "--scaling", "public", "--read-layers", "2")
    found = witness((*hushdoc_witnessed.kie(start), *how))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (19, 7)


STARTS = [("words_start", "output"), ("layoutlmv3_start", "encoder"), ("images_start", "all")]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "trained"), STARTS)
def test_starts_that_read_words_alone_or_images_too_are_what_is_claimed(
    make: str, trained: str, tmp_path: Path
) -> None:
    start = getattr(hushdoc_witnessed, make)(tmp_path)
    found = witness((*hushdoc_witnessed.kie(start), "--trained", trained))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (18, 7)


QUESTIONS = [
    ("pointer_start", "provider", "encoder"),
    ("pointer_start", "document", "output"),
    ("vt5_start", "provider", "encoder"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "unit", "trained"), QUESTIONS)
def test_a_private_training_on_questions_is_what_it_claims(
    make: str, unit: str, trained: str, tmp_path: Path
) -> None:
    start = getattr(hushdoc_witnessed, make)(tmp_path)
    how = ("--privacy-unit", unit, "--trained", trained)
    found = witness(hushdoc_witnessed.docvqa(start, *how))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (18, 7)
    what = {"provider": "3 documents", "document": "3 questions"}[unit]
    assert any(f"{what}, unit {unit}, moves" in finding.what for finding in found.findings)


def questions_of_letters(folder: Path) -> Path:
    """Writes public questions of letters: the tiny start knows no other words."""
    canaries.questions(folder, 6, length=10, documents=1, last=False)
    return folder


@pytest.mark.slow
def test_a_last_layer_scaled_by_public_questions_is_what_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_inputs, "SOURCE", str(questions_of_letters(tmp_path / "public")))
    start = hushdoc_witnessed.pointer_start(tmp_path / "start")
    how = ("--trained", "output", "--scaling", "public", "--algorithm", "dp-sgd")
    found = witness(hushdoc_witnessed.docvqa(start, *how))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (19, 7)


CHANGES = [hushdoc_witnessed.docvqa, hushdoc_witnessed.federated_docvqa]


@pytest.mark.slow
@pytest.mark.parametrize("command", CHANGES)
def test_changes_that_providers_of_questions_make_are_what_is_claimed(
    command: Callable[..., tuple[str, ...]], tmp_path: Path
) -> None:
    how = ("--algorithm", "fl-provider-dp", "--learning-rate", "0.01")
    found = witness(command(hushdoc_witnessed.pointer_start(tmp_path), *how))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (11, 6)


SUMS = [
    (("--algorithm", "feam-dp", "--privacy-unit", "provider"), 15),
    (("--algorithm", "feam-dp", "--trained", "output", "--scaling", "public"), 16),
    (("--algorithm", "fedavg-dp", "--local-steps", "2"), 18),
]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "findings"), SUMS)
def test_sums_of_gradients_of_clients_questions_are_what_is_claimed(
    how: tuple[str, ...], findings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_inputs, "SOURCE", str(questions_of_letters(tmp_path / "public")))
    start = hushdoc_witnessed.pointer_start(tmp_path / "start")
    found = witness(hushdoc_witnessed.federated_docvqa(start, *how))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (findings, 7)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["small", "linear"])
def test_a_private_training_on_images_is_what_it_claims(architecture: str) -> None:
    found = witness(hushdoc_witnessed.images("--architecture", architecture))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (16, 7)
    assert any("3 pages, unit document, moves" in finding.what for finding in found.findings)


@pytest.mark.slow
def test_private_votes_are_what_they_claim() -> None:
    few = ("--pool", "12", "--nearest", "3", "--rounds", "2", "--quiet")
    found = witness(("synthesize", "evolution", "--vote", "moments", *few))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (8, 3)


@pytest.mark.slow
def test_private_votes_of_images_are_what_they_claim() -> None:
    public = ("--public", "invented:receipt", "--public-documents", "10", "--pages", "4")
    classes = ("--label", "a", "--label", "b")
    found = witness(("synthesize", "selection", *classes, *public, "--rounds", "2", "--quiet"))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (8, 3)


ALONE = ("--algorithm", "fedavg-dp", "--local-steps", "2")
FEDERATED = [
    (("--algorithm", "feam-dp"), 15, 7),
    (ALONE, 18, 7),
    (("--algorithm", "fl-provider-dp", "--learning-rate", "0.01"), 11, 6),
    (("--trained", "output", "--scaling", "public"), 16, 7),
    ((*ALONE, "--trained", "output", "--scaling", "public", "--learning-rate", "0.01"), 19, 7),
]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "findings", "runs"), FEDERATED)
def test_a_federated_training_of_forms_is_what_it_claims(
    how: tuple[str, ...], findings: int, runs: int, start: Path
) -> None:
    found = witness(hushdoc_witnessed.federated(start, *how))
    assert differing(found) == []
    assert (len(found.findings), found.runs) == (findings, runs)


@pytest.mark.parametrize("known", [True, False])
def test_weights_that_no_optimizer_left_are_seen_whatever_is_known_of_the_start(
    known: bool,
) -> None:
    kept, trained = torch.arange(3.0), torch.tensor([[0.5, -0.5], [2.0, 1.0]])
    before = {"kept": kept, "trained": torch.zeros(2, 2)} if known else {}
    spy = WhiteningSpy(digest=digest)
    row = trained.ravel()
    assert released(row, spy, before, {"kept": kept, "trained": trained})
    for moved in (trained + 2e-6, trained * 2):
        assert not released(row, spy, before, {"kept": kept, "trained": moved})


def test_providers_whose_changes_are_multiplied_are_not_witnessed(start: Path) -> None:
    how = ("--algorithm", "fl-provider-dp", "--trained", "lora:2")
    with pytest.raises(InputError, match="lora:2 is merged"):
        witness(hushdoc_witnessed.federated(start, *how))


def test_dropout_is_refused(start: Path) -> None:
    with pytest.raises(InputError, match="--dropout is 0.1: .* masks are independent"):
        witness(hushdoc_witnessed.kie(start, "--dropout", "0.1"))


def test_training_without_privacy_has_no_witness(start: Path) -> None:
    with pytest.raises(InputError, match="--algorithm fl-provider-dp"):
        witness(hushdoc_witnessed.federated(start, "--algorithm", "fedavg"))


def test_a_table_with_noise_for_terms_is_what_it_claims(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["train", "classifier", "--mode", "term-dp", "--rows", "16384"]
    assert main(["audit", "witness", "--json", *command]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agrees"] is True
    assert found["command"] == command
    assert {"what", "expected", "seen", "agrees"} == found["findings"][0].keys()


def test_coins_that_do_not_follow_the_operating_system_are_seen(
    start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hushdoc_training.privacy.draws.poisson_sample", lambda count, rate, stream: [0, 2]
    )
    found = witness(hushdoc_witnessed.kie(start, "--steps", "1"))
    assert "a coin at most 0.0003 below the sampling rate" in differing(found)


def test_a_training_by_windows_claims_windows(start: Path) -> None:
    found = witness(hushdoc_witnessed.kie(start, "--privacy-unit", "sequence", "--steps", "1"))
    assert differing(found) == []
    [moved] = [finding for finding in found.findings if "unit sequence" in finding.what]
    # Three windows, each as far as the clipping norm lets it, and none of them orthogonal.
    assert float(moved.seen) > 0.6 * float(moved.expected.split()[-1])


@pytest.mark.parametrize("task", ["clauses", "classifier"])
def test_a_table_trained_by_dp_sgd_is_what_it_claims(task: str) -> None:
    few = ("--steps", "3", "--expected-records", "30", "--rows", "65536")
    assert differing(witness(("train", task, "--mode", "dp-sgd", *few))) == []


@pytest.mark.parametrize("option", ["--data", "--out", "--ledger=l", "--resume", "--participation"])
def test_what_the_witness_gives_itself_is_refused(option: str) -> None:
    with pytest.raises(InputError, match=option.partition("=")[0]):
        witness(["train", "kie", option, "x"])


@pytest.mark.parametrize(
    "line", ['ledger = "budget"', "documents = 9", "canaries = 40", 'data = "x"\nresume = true']
)
def test_a_configuration_gives_the_witness_no_ledger_either(tmp_path: Path, line: str) -> None:
    """Canaries were charged to the budget of the protected documents, which it was bound to."""
    ledger = Ledger.create(
        tmp_path / "budget", data="receipts", unit="provider", epsilon=8.0, delta=1e-5
    )
    (tmp_path / "own.toml").write_text(line.replace("budget", str(ledger.path)) + "\n")
    option = line.splitlines()[-1].split()[0]
    command = ["train", "docvqa", "--config", str(tmp_path / "own.toml"), "--start", "minilm"]
    with pytest.raises(InputError, match=rf"own.toml' gives --{option};"):
        witness(command)
    assert ledger.runs() == ()


def test_a_command_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="train clauses --mode paper-fill"):
        witness(["hushdoc", "train", "clauses", "--mode", "paper-fill"])


def test_a_command_that_fails_is_refused(start: Path) -> None:
    command = [*hushdoc_witnessed.kie(start), "--delta", "1e-300", "--epsilon", "1e-9"]
    with pytest.raises((PrivacyError, SystemExit)):
        witness(command)


def test_wrong_usage_that_shows_only_when_it_runs_is_told(
    start: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 came without a word."""
    command = [*hushdoc_witnessed.kie(start), "--not-private"]
    assert main(["audit", "witness", *command]) == 5
    assert "training without privacy does not use" in capsys.readouterr().err


def test_the_witness_derives_coins_as_the_stream_does() -> None:
    key = bytes(range(32))
    assert coins(key, 7).tolist() == SecretStream(key=key).uniforms(7).tolist()


def test_a_key_is_found_whose_coin_is_as_near_the_rate_as_asked() -> None:
    below = key_with(3, lambda found: just_below(0.3, found[2]), what="one below")
    above = key_with(3, lambda found: just_above(0.3, found[2]), what="one above")
    assert 0.2997 <= coins(below, 3)[2] <= 0.3 < coins(above, 3)[2] <= 0.3003
    with pytest.raises(PrivacyError, match="none has a coin of 2"):
        key_with(1, lambda found: False, what="a coin of 2", most=100)


def test_entropy_gives_its_keys_and_then_what_its_seed_says() -> None:
    one, other = Entropy(1, {0: b"k" * 32}), Entropy(1, {0: b"k" * 32})
    asked = [(one(count), other(count)) for count in (8, 32, 32, 2496)]
    assert all(mine == theirs for mine, theirs in asked)
    assert asked[1][0] == b"k" * 32 != asked[2][0]
    assert [len(mine) for mine, _ in asked] == [8, 32, 32, 2496]


def test_the_shrunk_canary_leaves_every_row_read(tmp_path: Path) -> None:
    def words(name: str, *, shrunk: bool) -> Iterator[str]:
        canaries.messages(tmp_path / name, 6, 40, shrunk=shrunk)
        for line in (tmp_path / name).read_text().splitlines():
            yield from json.loads(line)["text"].replace(".", "").split()

    assert {*words("all", shrunk=False)} == {*words("few", shrunk=True)}


@pytest.mark.slow
@pytest.mark.parametrize("trained", ["all", "denoisers", "layouts"])
def test_a_private_diffusion_of_pages_is_what_it_claims(trained: str, tmp_path: Path) -> None:
    start = hushdoc_witnessed.diffusion_start(tmp_path, trained=trained)
    found = witness(hushdoc_witnessed.diffusion(start, "--trained", trained))
    assert differing(found) == []
    assert found.runs == 6
    assert any("3 pages, unit document, moves" in finding.what for finding in found.findings)
