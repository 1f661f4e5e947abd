"""Clients and coordinator together: whoever dies, lies or is late, ledgers never hold too little.

Every fault is a row: no thread, no sleep, no process. `InProcess` lets a wait that nobody ends take
no time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import numpy as np
import pytest
from hushdoc_parties import LIMITS, NUMBERS, Federation, plan

from hushdoc.errors import CheckpointError, FederatedRunError, OutputWriteError, PrivacyError
from hushdoc.system import atomic_files
from hushdoc_training.federated import frames, testimony
from hushdoc_training.federated.account import JOURNAL, Account, Budget
from hushdoc_training.federated.client import Client, Limits
from hushdoc_training.federated.coordinator import STATE, Outgoing
from hushdoc_training.federated.flower import resident
from hushdoc_training.federated.in_process import InProcess
from hushdoc_training.federated.roster import COORDINATOR
from hushdoc_training.federated.server_steps import MeanUpdate
from hushdoc_training.federated.standing import LOG
from hushdoc_training.federated.transport import drive
from hushdoc_training.ledger.ledger import Ledger

MODES: dict[str, dict[str, Any]] = {
    "individual-updates": {"mode": "individual-updates"},
    "all-or-nothing": {"mode": "all-or-nothing"},
    "threshold": {"mode": "threshold", "silent": 1, "clients": 4, "clients_per_round": 4},
}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=MODES)
def federation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Federation]:
    with_ledgers = request.param == "threshold"
    made = Federation(tmp_path, plan(**MODES[request.param]), ledgers=with_ledgers)
    yield made
    for name in [*made.keys, COORDINATOR]:
        made.end(name)


class Through(InProcess):
    """A transport that does something to frames on their way, by their phase and round."""

    def __init__(
        self, federation: Federation, hook: Callable[[str, frames.Frame, bytes], Iterable[bytes]]
    ) -> None:
        super().__init__(federation.clients)
        self._roster, self._hook = federation.roster, hook

    def deliver(self, frames: Sequence[Outgoing], deadline: float) -> Iterator[tuple[str, bytes]]:
        told = [(name, data) for name, said in frames for data in self._changed(name, name, said)]
        for name, data in super().deliver(told, deadline):
            yield from ((name, changed) for changed in self._changed(name, COORDINATOR, data))

    def _changed(self, client: str, recipient: str, data: bytes) -> Iterable[bytes]:
        frame = frames.decode(
            data,
            self._roster.public_keys,
            run=self._roster.run,
            roster=self._roster.digest,
            recipient=recipient,
        )
        return self._hook(client, frame, data)


def test_all_rounds_are_stepped_and_every_client_is_charged_for_each(
    federation: Federation,
) -> None:
    drive(federation.coordinator, federation.transport())
    run, rounds = federation.coordinator, federation.plan.rounds
    assert (run.phase, run.begun, run.aborted, run.owing) == ("finished", rounds, (), ())
    assert [attempt.outcome for attempt in run.attempts] == ["stepped"] * rounds
    assert set(federation.charged().values()) == {rounds}
    assert all(own == [1, 2, 3] for own in federation.computed().values())
    grid, clients = federation.plan.grid, federation.plan.clients
    spread = grid.share_width * np.sqrt(clients * rounds)
    assert np.abs(run.weights - clients * rounds).max() < 6 * spread
    assert np.abs(run.weights - clients * rounds).max() > 0
    for name, frame in run.testified.items():
        said = testimony.said(frame)
        assert said.taken == rounds
        assert said.receipt is not None, name
        federation.plan.require_executed(said.receipt)
        assert said.receipt.is_secret
        assert said.receipt.steps == rounds
    log = (federation.home / COORDINATOR / LOG).read_text().splitlines()
    assert [json.loads(line)["round"] for line in log] == [1, 2, 3]


def test_all_clients_are_given_the_weights_of_the_round(federation: Federation) -> None:
    drive(federation.coordinator, federation.transport())
    first, *others = [update.given for update in federation.updates.values()]
    assert not first[0].any()
    for given in others:
        for one, other in zip(first, given, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_client_of_which_nothing_was_drawn_sends_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = Federation(tmp_path, plan(**MODES["individual-updates"]))
    update, sent = federation.updates["second"], []
    computed = update.compute
    monkeypatch.setattr(update, "compute", lambda *given: 0 * computed(*given))

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if (frame.phase, client) == (frames.VECTOR, "second"):
            sent.append(np.frombuffer(frame.payload, dtype="<i8"))
        return (data,)

    drive(federation.coordinator, Through(federation, hook))
    rows = np.concatenate(sent)
    assert len(rows) == NUMBERS * federation.plan.rounds
    width = federation.plan.grid.share_width
    assert 0.3 < np.sqrt(np.mean(rows.astype(float) ** 2)) / width < 2


def agreed_by(client: Client) -> list[bytearray]:
    """Returns the secrets that a client has agreed on, as it holds them now."""
    found = [chain._secret for chain in client._summing._agreed.values()]
    assert len(found) == 2
    assert all(any(secret) for secret in found)
    return found


def test_what_clients_agreed_on_is_erased_when_the_coordinator_ends_the_run(
    tmp_path: Path,
) -> None:
    federation = Federation(tmp_path, plan())
    found: list[bytearray] = []

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == frames.CLOSE:
            found.extend(agreed_by(federation.clients[client]))
        return (data,)

    drive(federation.coordinator, Through(federation, hook))
    assert len(found) == 6
    assert not any(any(secret) for secret in found)


@pytest.mark.parametrize("end", [KeyboardInterrupt, MemoryError])
def test_what_a_client_agreed_on_is_erased_however_it_ends(
    end: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = Federation(tmp_path, plan())
    run = federation.coordinator
    drive(run, federation.transport(), stop=lambda: run.begun == 2)
    found = agreed_by(federation.clients["second"])

    def ended(*_: object, **__: object) -> None:
        raise end

    monkeypatch.setattr(resident, "serve", ended)
    way: Any = None
    with pytest.raises(end):
        resident.take_part(federation.clients["second"], way, pytest.fail)
    assert not any(any(secret) for secret in found)


# Who dies when, and what becomes of the round: with masks that need all, it is aborted.


def silent_from(name: str, phase: str, number: int) -> Callable[..., Iterable[bytes]]:
    """Returns a hook by which nothing of a client comes from a phase of a round on, once."""
    gone: list[bool] = []

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.sender == name and frame.round == number and frame.phase == phase:
            gone.append(True)
        return () if gone and client == name and frame.round == number else (data,)

    return hook


@pytest.mark.parametrize("phase", [frames.KEYS, frames.SHARES, frames.VECTOR, frames.CONFIRM])
def test_a_client_that_falls_silent_costs_one_round_at_most(
    federation: Federation, phase: str
) -> None:
    drive(federation.coordinator, Through(federation, silent_from("second", phase, 0)))
    run, mode = federation.coordinator, federation.plan.mode
    asked = {
        "individual-updates": (frames.VECTOR,),
        "all-or-nothing": (frames.KEYS, frames.VECTOR),
        "threshold": (frames.KEYS, frames.SHARES, frames.VECTOR, frames.CONFIRM),
    }[mode]
    survives = phase not in asked or mode == "threshold"
    assert run.aborted == (() if survives else (1,))
    assert run.begun == federation.plan.rounds
    missed = [attempt.missing for attempt in run.attempts]
    late = mode == "threshold" and phase == frames.CONFIRM  # its vector is in the sum
    assert missed == [("second",) if phase in asked and not late else (), (), ()]
    assert_charged(federation)


def assert_charged(federation: Federation) -> None:
    """Nothing was computed that was not charged first."""
    charged = federation.charged()
    for name, own in federation.computed().items():
        assert max(own, default=0) <= charged[name]


def test_a_client_that_is_never_there_stops_the_run_before_a_round(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan())
    federation.end("third")
    with pytest.raises(FederatedRunError, match="third") as stopped:
        drive(federation.coordinator, federation.transport())
    assert stopped.value.code == "TOO_FEW_CLIENTS"
    assert federation.coordinator.begun == 0
    assert set(federation.charged().values()) == {0}


def test_as_many_as_may_be_silent_need_never_be_there(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(**MODES["threshold"]))
    federation.end("third")
    drive(federation.coordinator, federation.transport())
    assert federation.coordinator.aborted == ()
    assert federation.coordinator.owing == ("third",)
    assert federation.charged()["third"] == 0


def test_a_wrong_share_makes_nobody_missing_and_all_who_may_have_sent_it_are_named(
    tmp_path: Path,
) -> None:
    federation = Federation(tmp_path, plan(**MODES["threshold"]))

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if client == "third" and frame.round == 1 and frame.sender == client:
            return ()  # who is silent is missing all the same
        if (frame.phase, client) == (frames.ANSWER, "fourth"):
            return (signed(federation, frame, client, payload=bytes(len(frame.payload))),)
        return (data,)

    drive(federation.coordinator, Through(federation, hook))
    attempts = federation.coordinator.attempts
    assert {attempt.outcome for attempt in attempts} == {"SECRET_NOT_REBUILT"}
    assert [attempt.missing for attempt in attempts] == [(), ("third",), ()]
    assert all("one of first, fourth, second answered" in attempt.reason for attempt in attempts)


def test_a_run_stops_once_somebody_has_missed_three_rounds(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(rounds=9))
    gone = Through(
        federation, lambda client, frame, data: () if client == "third" and frame.round else (data,)
    )
    with pytest.raises(FederatedRunError, match="third") as stopped:
        drive(federation.coordinator, gone)
    assert stopped.value.code == "TOO_FEW_CLIENTS"
    assert federation.coordinator.aborted == (2, 3, 4)
    assert federation.charged() == {"first": 2, "second": 2, "third": 1}  # masks need all keys
    assert_charged(federation)


def test_a_client_that_is_started_again_takes_part_in_the_next_round(
    federation: Federation,
) -> None:
    restarted: list[str] = []

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == frames.VECTOR and client == "second" and not restarted:
            restarted.append(client)
            return federation.begin("second").hello()  # its vector is lost on the way
        return (data,)

    drive(federation.coordinator, Through(federation, hook))
    run = federation.coordinator
    assert run.begun == 3
    assert run.aborted == (() if federation.plan.mode == "threshold" else (1,))
    assert federation.charged()["second"] == 3
    assert federation.computed()["second"] == [2, 3]
    said = testimony.said(run.testified["second"])
    assert said.taken == 3
    assert said.receipt is not None
    assert said.receipt.steps == 3


# The coordinator is killed.


class KilledError(Exception):
    pass


def test_a_round_that_nobody_goes_on_with_is_forgotten_in_time(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(**MODES["threshold"]))

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == frames.SURVIVORS:
            raise KilledError
        return (data,)

    transport = Through(federation, hook)
    with pytest.raises(KilledError):
        drive(federation.coordinator, transport)
    client, now = federation.clients["second"], transport.now()
    held = client._summing._round
    secrets = [*held.shares.values(), *(chain._secret for chain in held.chains.values())]
    client.tick(now + 30)  # the phase takes 20 seconds at the coordinator, who waits for others
    assert any(any(secret) for secret in secrets)
    client.tick(now + 60)
    assert client._summing.place is None
    assert len(secrets) == 7
    assert not any(any(secret) for secret in secrets)


def test_a_simulation_s_clients_are_told_the_time(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan())
    federation.end("third")
    told: list[float] = []
    federation.clients["first"].tick = told.append  # type: ignore[method-assign]
    transport = federation.transport()
    begun = transport.now()
    assert list(transport.deliver([("third", b"")], begun + 1000)) == []
    assert len(told) == 1
    assert told[0] >= begun + 1000


@pytest.mark.parametrize("phase", [frames.MODEL, frames.OPEN, frames.VECTOR])
def test_a_coordinator_that_is_killed_goes_on_after_the_round(
    federation: Federation, phase: str
) -> None:
    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == phase and frame.round == 1:
            raise KilledError
        return (data,)

    with pytest.raises(KilledError):
        drive(federation.coordinator, Through(federation, hook))
    before = federation.coordinator.weights
    again = federation.coordinate()
    np.testing.assert_array_equal(again.weights, before)
    assert again.aborted == (2,)
    drive(again, federation.transport())
    assert (again.begun, again.aborted, again.owing) == (3, (2,), ())
    assert_charged(federation)
    lost = phase == frames.VECTOR
    assert federation.charged()["first"] == (3 if lost else 2)


def test_a_run_that_has_all_receipts_waits_for_nobody(federation: Federation) -> None:
    drive(federation.coordinator, federation.transport())
    again = federation.coordinate()
    again.start(0.0)
    for _ in range(2):  # no client is there
        assert again.tick(0.1) == []
    assert (again.phase, again.owing) == ("finished", ())


def test_a_run_without_some_receipts_waits_for_who_owes_them(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(**MODES["threshold"]))
    federation.end("third")
    drive(federation.coordinator, federation.transport())
    again = federation.coordinate()
    again.start(0.0)
    assert again.tick(0.1) == []
    assert (again.phase, again.owing) == ("gathering", ("third",))


def test_a_full_disk_steps_nothing_and_the_run_goes_on_from_the_last_round(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, states = atomic_files.write_file, []

    def full(path: Path, content: bytes, **how: Any) -> None:
        if path.name == STATE:
            states.append(path)
            if len(states) == 2:
                raise atomic_files.not_written(path, OSError(28, "No space left on device"))
        write(path, content, **how)

    monkeypatch.setattr(atomic_files, "write_file", full)
    with pytest.raises(OutputWriteError):
        drive(federation.coordinator, federation.transport())
    kept = federation.coordinator.weights
    again = federation.coordinate()
    np.testing.assert_array_equal(again.weights, kept)
    drive(again, federation.transport())
    assert again.aborted == (2,)
    assert set(federation.charged().values()) == {3}


def test_weights_that_would_not_be_finite_are_not_saved_and_the_round_is_lost(
    federation: Federation,
) -> None:
    federation.coordinator._step = MeanUpdate(lattice_step=1e300, divisor=1.0)
    with pytest.raises(FederatedRunError) as stopped, np.errstate(over="ignore"):
        drive(federation.coordinator, federation.transport())
    assert stopped.value.code == "NOT_FINITE"
    again = federation.coordinate()
    np.testing.assert_array_equal(again.weights, np.zeros(NUMBERS))
    drive(again, federation.transport())
    assert again.aborted == (1,)
    assert np.isfinite(again.weights).all()
    assert set(federation.charged().values()) == {3}


def test_a_client_with_a_full_disk_computes_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = Federation(tmp_path, plan(**MODES["individual-updates"]))
    write, journals = atomic_files.write_file, []

    def full(path: Path, content: bytes, **how: Any) -> None:
        if path == tmp_path / "second" / JOURNAL:
            journals.append(path)
            if len(journals) == 1:
                raise atomic_files.not_written(path, OSError(28, "No space left on device"))
        write(path, content, **how)

    monkeypatch.setattr(atomic_files, "write_file", full)
    drive(federation.coordinator, federation.transport())
    assert federation.coordinator.attempts[0].refused == {"second": "CLIENT_FAILED"}
    assert federation.coordinator.aborted == (1,)
    assert federation.computed()["second"] == [1, 2]
    assert federation.charged() == {"first": 3, "second": 2, "third": 3}


@pytest.mark.parametrize("kind", [PrivacyError, MemoryError, RuntimeError])
def test_what_a_document_made_fail_has_one_code_and_is_not_waited_for(
    kind: type[Exception], federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"code": "OTHER_DOCUMENTS"} if kind is PrivacyError else {}

    def failed(weights: object, number: int) -> None:
        raise kind("This provider left something in the model.", **more)

    monkeypatch.setattr(federation.updates["second"], "compute", failed)
    drive(federation.coordinator, federation.transport())
    assert federation.coordinator.attempts[0].refused == {"second": "CLIENT_FAILED"}
    assert "This provider" in str(federation.clients["second"].problems[0])
    assert set(federation.charged().values()) == {3}
    assert federation.clients["first"].news() == []
    (told, *later) = federation.clients["second"].news()
    assert told.startswith("CLIENT_FAILED: The client's own round 1 failed")
    assert "This provider left something" in told
    assert kind is PrivacyError or kind.__name__ in told
    assert len(later) == 2
    assert federation.clients["second"].news() == []


@pytest.mark.parametrize("phase", [frames.MODEL, frames.ADVERTISE, frames.CLOSE])
def test_what_fails_outside_of_computing_ends_no_client_either(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = Federation(tmp_path, plan(**MODES["threshold"]))
    second, said = federation.clients["second"], []
    answered = second._answered

    def failed(frame: frames.Frame, now: float) -> list[bytes]:
        if frame.phase == phase:
            raise MemoryError
        return answered(frame, now)

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if (frame.sender, frame.phase) == ("second", frames.REFUSE):
            said.append(bytes(frame.payload))
        return (data,)

    monkeypatch.setattr(second, "_answered", failed)
    drive(federation.coordinator, Through(federation, hook))
    assert set(said) == {b'{"code":"CLIENT_FAILED"}'}
    assert federation.coordinator.aborted == ()
    assert second._summing.place is None
    assert all("MemoryError()" in told for told in second.news())


def test_an_owner_is_told_what_a_client_refused_and_not_what_came_again(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan())
    told: list[str] = []
    client = resident.Answers(federation.clients["second"], told.append)
    (hello,) = client.answer([])
    assert told == []
    here = frames.decode(
        hello,
        federation.roster.public_keys,
        run=federation.roster.run,
        roster=federation.roster.digest,
        recipient=COORDINATOR,
    )
    model = replace(here, recipient="second", phase=frames.MODEL)
    wrong = signed(federation, model, COORDINATOR, payload=weights_with(float("nan")))
    other = signed(federation, model, COORDINATOR, payload=weights_with(1.0))
    assert len(client.answer([wrong, wrong, other])) == 1  # a refusal
    assert [words.partition(":")[0] for words in told] == ["BAD_MODEL", "FRAME_DOUBLED"]


def test_a_pause_ends_the_round_and_charges_no_other(federation: Federation) -> None:
    drive(
        federation.coordinator,
        federation.transport(),
        stop=lambda: federation.coordinator.begun == 2,
    )
    assert federation.coordinator.phase == "paused"
    assert set(federation.charged().values()) == {2}
    again = federation.coordinate()
    drive(again, federation.transport())
    assert (again.phase, again.aborted) == ("finished", ())


# What the coordinator sends that no client answers, and what nobody listens to.


def signed(federation: Federation, frame: frames.Frame, sender: str, **change: Any) -> bytes:
    key = build.known_key(1) if sender == COORDINATOR else federation.keys[sender]
    return frames.encode(replace(frame, encoded=b"", **{"sender": sender, **change}), key)


def weights_with(value: float) -> bytes:
    return np.full(NUMBERS, value, dtype="<f4").tobytes()


MODELS: dict[str, bytes] = {
    "not a number": weights_with(float("nan")),
    "infinite": weights_with(float("inf")),
    "too short": weights_with(0)[:-4],
    "too long": weights_with(0) + bytes(4),
    "empty": b"",
}


@pytest.mark.parametrize("wrong", MODELS)
def test_weights_that_do_not_fit_are_refused_and_charge_nothing(wrong: str, tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan())

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == frames.MODEL and client == "second" and frame.round == 0:
            return (signed(federation, frame, COORDINATOR, payload=MODELS[wrong]),)
        return (data,)

    drive(federation.coordinator, Through(federation, hook))
    run = federation.coordinator
    assert run.attempts[0].refused == {"second": "CLIENT_FAILED"}
    assert run.aborted == (1,)
    assert federation.clients["second"].problems[0].code == "BAD_MODEL"
    assert federation.charged()["second"] == 2


def asked_otherwise(
    federation: Federation, phase: str, **change: Any
) -> Callable[..., Iterable[bytes]]:
    """Returns a hook that changes the first frame of a phase, by whoever sends it."""

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == phase and client == "second" and frame.round == 0:
            return (signed(federation, frame, frame.sender, **change),)
        return (data,)

    return hook


DROPPED: dict[str, dict[str, Any]] = {
    "another run": {"run": "cd" * 16},
    "another roster": {"roster": "0" * 64},
    "another recipient": {"recipient": "first"},
    "a key of nobody": {"sender": "fourth"},
    "another's name": {"signer": "third"},
}


@pytest.mark.parametrize("wrong", DROPPED)
def test_frames_of_others_change_nothing(wrong: str, tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan())
    change = dict(DROPPED[wrong])
    key = federation.keys[change.pop("signer", "second")]

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == frames.VECTOR and client == "second":
            forged = frames.encode(replace(frame, encoded=b"", payload=b"1234", **change), key)
            return (forged, data)
        return (data,)

    drive(federation.coordinator, Through(federation, hook))
    assert federation.coordinator.aborted == ()
    assert len(federation.coordinator.problems) == 3


def again(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
    """Everything comes twice."""
    del client, frame
    return (data, data)


def reordered() -> Callable[..., Iterable[bytes]]:
    """Every frame is followed by the first one of its sender."""
    first: dict[str, bytes] = {}

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        place = f"{client} {frame.sender}"
        return (data, first.setdefault(place, data))

    return hook


@pytest.mark.parametrize("kind", ["doubled", "stale"])
def test_frames_that_come_again_count_once(federation: Federation, kind: str) -> None:
    hook = again if kind == "doubled" else reordered()
    drive(federation.coordinator, Through(federation, hook))
    assert federation.coordinator.aborted == ()
    assert set(federation.charged().values()) == {3}
    assert all(own == [1, 2, 3] for own in federation.computed().values())


def test_two_vectors_of_one_key_in_one_round_count_once(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(**MODES["individual-updates"]))

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if frame.phase == frames.VECTOR:
            other = np.full(NUMBERS, 1 << 40, dtype="<i8").tobytes()
            return (data, signed(federation, frame, client, payload=other))
        return (data,)

    drive(federation.coordinator, Through(federation, hook))
    assert np.abs(federation.coordinator.weights).max() < 1 << 30
    assert {problem.code for problem in federation.coordinator.problems} == {"FRAME_DOUBLED"}


@pytest.mark.parametrize("mode", ["all-or-nothing", "threshold"])
@pytest.mark.parametrize("part", [0, 1])
def test_a_key_that_nobody_can_agree_on_is_its_sender_s_silence(
    mode: str, part: int, tmp_path: Path
) -> None:
    federation = Federation(tmp_path, plan(rounds=4, **MODES[mode]))

    def hook(client: str, frame: frames.Frame, data: bytes) -> Iterable[bytes]:
        if (frame.phase, client) != (frames.KEYS, "second"):
            return (data,)
        keys = bytearray(frame.payload)
        at = slice(32 * part, 32 * part + 32) if mode == "threshold" else slice(0, 32)
        keys[at] = bytes(32)
        return (signed(federation, frame, client, payload=bytes(keys)),)

    through = Through(federation, hook)
    if mode == "threshold":
        drive(federation.coordinator, through)
        assert federation.coordinator.aborted == ()
    else:
        with pytest.raises(FederatedRunError, match="a round needs 3: second did not"):
            drive(federation.coordinator, through)
    assert {attempt.missing for attempt in federation.coordinator.attempts} == {("second",)}
    assert federation.coordinator.problems[0].code == "BAD_KEY_AGREEMENT"


@pytest.mark.parametrize("size", [0, 8 * NUMBERS - 8, 8 * NUMBERS + 8, 1 << 22])
def test_vectors_of_other_lengths_are_dropped(federation: Federation, size: int) -> None:
    drive(
        federation.coordinator,
        Through(federation, asked_otherwise(federation, frames.VECTOR, payload=bytes(size))),
    )
    assert federation.coordinator.aborted == (() if federation.plan.mode == "threshold" else (1,))
    assert federation.coordinator.problems[0].code == "BAD_FRAME"


def test_a_client_answers_no_round_that_the_plan_does_not_have(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(**MODES["individual-updates"]))
    drive(federation.coordinator, federation.transport())
    client = federation.begin("first")
    for number, code in ((3, "NOT_AS_PLANNED"), (2, "NOT_RESERVED")):
        opening = {"agreed": True, "members": ["first", "second", "third"]}
        for phase, payload in (
            (frames.MODEL, weights_with(0)),
            (frames.OPEN, json.dumps(opening, separators=(",", ":")).encode()),
        ):
            frame = frames.Frame(
                run=federation.roster.run,
                roster=federation.roster.digest,
                round=number,
                attempt=number,
                phase=phase,
                sender=COORDINATOR,
                recipient="first",
                payload=payload,
            )
            answers = client.receive(frames.encode(frame, build.known_key(1)), 0.0)
        (refusal,) = answers
        assert b"refuse" in refusal
        assert client.problems[-1].code == code
        client = federation.begin("first")
    assert federation.charged()["first"] == 3
    assert federation.computed()["first"] == []


def test_a_client_answers_only_in_its_turn(tmp_path: Path) -> None:
    federation = Federation(
        tmp_path,
        plan(
            **{**MODES["individual-updates"], "clients_per_round": 1, "participation": "rota"},
            sampling_rate=0.2,
            rounds=3,
        ),
    )
    drive(federation.coordinator, federation.transport())
    assert set(federation.charged().values()) == {1}
    assert federation.coordinator.aborted == ()


def test_another_roster_is_another_run(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(), ledgers=True)
    changed = replace(federation.roster, plan=plan(rounds=4).to_dict())
    with pytest.raises(CheckpointError, match="another roster"):
        federation.begin("first", roster=changed)
    shutil.rmtree(tmp_path / "first")
    with pytest.raises(PrivacyError) as refused:
        federation.begin("first", roster=changed)
    assert refused.value.code == "RUN_DIFFERS"


BEYOND: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "epsilon": ({}, {"max_epsilon": 0.1}),
    "delta": ({}, {"max_epsilon": 100.0, "max_delta": 1e-6}),
    "clients": ({}, {"max_epsilon": 100.0, "min_clients": 4}),
    "an adversary that the target is not for": (
        {"mode": "individual-updates", "against": ("model-recipient",), "rounds": 30},
        {"max_epsilon": 5.0},
    ),
}


@pytest.mark.parametrize("what", BEYOND)
def test_a_plan_beyond_the_owner_s_limits_is_refused(what: str) -> None:
    planned, limited = BEYOND[what]
    made = plan(**planned)
    Limits(max_epsilon=1000.0).require(made)
    with pytest.raises(PrivacyError) as refused:
        Limits(**limited).require(made)
    assert refused.value.code == "BEYOND_LIMITS"


def test_a_client_reserves_nothing_before_its_owner_s_limits_are_looked_at(tmp_path: Path) -> None:
    federation = Federation(tmp_path, plan(), ledgers=True)
    federation.end("first")
    ledger = Ledger.create(tmp_path / "other.ledger", data="first", epsilon=100.0, delta=1e-5)
    budget = Budget(ledger=ledger, documents="first", step=federation.plan.own_round)
    with Account(tmp_path / "other", federation.roster, rounds=3, budget=budget) as account:
        settings: dict[str, Any] = {
            "account": account,
            "update": federation.updates["first"],
            "summing": federation.summing("first"),
            "meter": federation.updates["first"].meter,
        }
        with pytest.raises(PrivacyError) as refused:
            Client(
                federation.roster,
                federation.keys["first"],
                **settings,
                limits=Limits(max_epsilon=0.1),
            )
        assert refused.value.code == "BEYOND_LIMITS"
        assert ledger.runs() == ()
        Client(federation.roster, federation.keys["first"], **settings, limits=LIMITS)
        assert len(ledger.runs()) == 1
