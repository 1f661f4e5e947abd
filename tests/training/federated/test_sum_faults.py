"""What goes wrong, and what a lying coordinator or client tries: a row for each, without sleeping.

A change is made to frames on their way, before they are signed again by whom they say they are of:
so a coordinator lies with its own key, and a client with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hushdoc_secure_sums import (
    Change,
    Parties,
    drawn,
    names,
    secret_of,
    silent,
    terms,
    total,
)

from hushdoc.errors import FrameError
from hushdoc_training.federated import frames
from hushdoc_training.federated.frames import EVERYBODY, Frame
from hushdoc_training.federated.secret_sharing import SHARE_BYTES
from hushdoc_training.federated.secure_sum import SEALED_BYTES, Opening, bits_of
from hushdoc_training.federated.sum_client import SumClient

CLIENTS = 4
FIRST, SECOND, THIRD, *_ = ALL = names(CLIENTS)

Choice = Callable[[Frame], bool]


def of(
    phase: str, sender: str | None = None, recipient: str | None = None
) -> Callable[[Frame], bool]:
    def chosen(frame: Frame) -> bool:
        return (
            frame.phase == phase
            and sender in (None, frame.sender)
            and recipient in (None, frame.recipient)
        )

    return chosen


def payload(chosen: Choice, change: Callable[[bytes], bytes]) -> Change:
    return lambda frame: (
        [replace(frame, payload=change(bytes(frame.payload)))] if chosen(frame) else [frame]
    )


def twice(chosen: Choice) -> Change:
    return lambda frame: [frame, frame] if chosen(frame) else [frame]


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def late(phase: str) -> Change:
    """The first client's frame comes after the coordinator has gone on."""
    held: list[Frame] = []

    def change(frame: Frame) -> Sequence[Frame]:
        if frame.phase == phase and frame.sender == FIRST:
            held.append(frame)
            return []
        if held and frame.sender == "coordinator":
            return [held.pop(), frame]
        return [frame]

    return change


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is done, and what has to become of it; `without` are those who are not in the sum."""

    change: Change
    mode: str = "threshold"
    without: tuple[str, ...] | None = ()
    dropped: tuple[str, ...] = ()
    code: str = ""


OUT = ("all-or-nothing", "TOO_FEW_CLIENTS")
CLIENT_ROWS = {
    "a client is gone before it sends a key": Row(
        change=silent(FIRST, phase="keys"), without=(FIRST,)
    ),
    "a client is gone before it shares": Row(
        change=silent(FIRST, phase="shares"), without=(FIRST,)
    ),
    "a client is gone before its vector": Row(
        change=silent(FIRST, phase="vector"), without=(FIRST,)
    ),
    "a client is gone after its vector": Row(change=silent(FIRST, phase="confirm")),
    "a client is gone before its answer": Row(change=silent(FIRST, phase="answer")),
    "a client is gone, all or nothing": Row(
        change=silent(FIRST, phase="vector"),
        mode="all-or-nothing",
        without=None,
        code="TOO_FEW_CLIENTS",
    ),
    "two clients are gone": Row(
        change=silent(FIRST, SECOND, phase="vector"), without=None, code="TOO_FEW_CLIENTS"
    ),
    "two clients are gone, one after the other": Row(
        change=lambda frame: [
            part
            for one in silent(FIRST, phase="vector")(frame)
            for part in silent(SECOND, phase="confirm")(one)
        ],
        without=None,
        code="TOO_FEW_CLIENTS",
    ),
    "a vector is too short": Row(
        change=payload(of("vector", FIRST), lambda content: content[:-4]),
        without=(FIRST,),
        dropped=("BAD_FRAME",),
    ),
    "a vector is too long": Row(
        change=payload(of("vector", FIRST), lambda content: content * 2),
        without=(FIRST,),
        dropped=("BAD_FRAME",),
    ),
    "a vector is empty, all or nothing": Row(
        change=payload(of("vector", FIRST), lambda content: b""),
        mode="all-or-nothing",
        without=None,
        dropped=("BAD_FRAME",),
        code="TOO_FEW_CLIENTS",
    ),
    "a vector comes twice": Row(change=twice(of("vector", FIRST)), dropped=("FRAME_UNEXPECTED",)),
    "a vector comes twice, all or nothing": Row(
        change=twice(of("vector", FIRST)),
        mode="all-or-nothing",
        dropped=("FRAME_UNEXPECTED",),
    ),
    "an answer comes twice": Row(change=twice(of("answer", FIRST)), dropped=("FRAME_UNEXPECTED",)),
    "a key comes late": Row(change=late("keys"), without=(FIRST,), dropped=("FRAME_UNEXPECTED",)),
    "shares come late": Row(change=late("shares"), without=(FIRST,), dropped=("FRAME_UNEXPECTED",)),
    "a vector comes late": Row(
        change=late("vector"), without=(FIRST,), dropped=("FRAME_UNEXPECTED",)
    ),
    "a key has no length": Row(
        change=payload(of("keys", FIRST), lambda content: b""),
        without=(FIRST,),
        dropped=("BAD_FRAME",),
    ),
    "shares for too few": Row(
        change=payload(of("shares", FIRST), lambda content: content[SEALED_BYTES:]),
        without=(FIRST,),
        dropped=("BAD_FRAME",),
    ),
    "an answer about too few": Row(
        change=payload(of("answer", FIRST), lambda content: content[SHARE_BYTES:]),
        dropped=("BAD_FRAME",),
    ),
    "another list is confirmed": Row(
        change=payload(of("confirm", FIRST), flipped), dropped=("BAD_FRAME",)
    ),
    "a share is wrong": Row(
        change=payload(of("answer", FIRST), flipped), without=None, code="SECRET_NOT_REBUILT"
    ),
    "a share is not below the prime": Row(
        change=payload(
            of("answer", FIRST), lambda content: b"\xff" * SHARE_BYTES + content[SHARE_BYTES:]
        ),
        without=None,
        code="SECRET_NOT_REBUILT",
    ),
    "a share of the key of a client that is gone is wrong": Row(
        change=lambda frame: [
            part
            for one in silent(FIRST, phase="vector")(frame)
            # Not the first byte: X25519 passes over the lowest bits of a key.
            for part in payload(of("answer", SECOND), lambda c: c[:9] + flipped(c[9:]))(one)
        ],
        without=None,
        code="SECRET_NOT_REBUILT",
    ),
    "a client signs other keys than it has": Row(
        change=payload(of("keys", FIRST), lambda content: content[:-1] + flipped(content[-1:])),
        without=(FIRST,),
    ),
    "a frame of an earlier attempt": Row(
        change=lambda frame: [replace(frame, attempt=9), frame] if of("vector")(frame) else [frame],
        dropped=("FRAME_UNEXPECTED",) * CLIENTS,
    ),
    "a client talks to a client": Row(
        change=lambda frame: (
            [replace(frame, recipient=SECOND), frame] if of("vector", FIRST)(frame) else [frame]
        ),
        dropped=("FRAME_UNEXPECTED",),
    ),
}


@pytest.mark.parametrize("row", CLIENT_ROWS)
def test_a_fault_of_clients_or_of_the_network(row: str) -> None:
    expected = CLIENT_ROWS[row]
    silent_ones = 1 if expected.mode == "threshold" else 0
    agreed = terms(CLIENTS, mode=expected.mode, silent=silent_ones, colluding=1)
    parties, values = Parties(agreed), drawn(agreed)
    found = parties.round(0, values, change=expected.change)
    aborted = parties.coordinator.aborted
    assert sorted(code for _, code in parties.dropped) == sorted(expected.dropped)
    if expected.without is None:
        assert found is None
        assert aborted is not None
        assert aborted.code == expected.code
    else:
        assert aborted is None
        assert found is not None
        assert found.tolist() == total(values, without=expected.without).tolist()
    later = drawn(agreed, seed=1)
    again = parties.round(1, later)
    assert again is not None
    assert again.tolist() == total(later).tolist()


def opened(**changed: object) -> Change:
    def change(content: bytes) -> bytes:
        return replace(Opening.decoded(content), **changed).encoded()  # type: ignore[arg-type]

    return payload(of("open", recipient=FIRST), change)


def signed_key(content: bytes, *, sender: str = SECOND) -> bytes:
    """Returns another key of a client's, as that client signs it."""
    agreed = terms(CLIENTS, silent=1, colluding=1)
    place = Parties(agreed).coordinator.open(0, 0, ALL, 0.0)[0]
    frame = replace(place, phase="keys", sender=sender, recipient=EVERYBODY, payload=content)
    return frames.encode(frame, secret_of(sender))


def advertised(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    return payload(
        of("advertise", recipient=FIRST),
        lambda content: frames.bundle(change(frames.unbundle(content, most=64))),
    )


def revealed(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    return payload(
        of("reveal", recipient=FIRST),
        lambda content: frames.bundle(change(frames.unbundle(content, most=64))),
    )


def survivors(chosen: Sequence[str]) -> Change:
    return payload(
        of("survivors", recipient=FIRST), lambda content: content[:32] + bits_of(chosen, ALL)
    )


LIES: dict[str, tuple[Change, str]] = {
    "a round of too few": (opened(members=tuple(ALL[:-1])), "ROUND_NOT_AS_PLANNED"),
    "a round without this client": (
        opened(members=tuple(sorted({*ALL[1:], "mallory"}))),
        "ROUND_NOT_AS_PLANNED",
    ),
    "a round with a stranger": (
        opened(members=tuple(sorted({*ALL[:-1], "mallory"}))),
        "ROUND_NOT_AS_PLANNED",
    ),
    "a round with the coordinator as a client": (
        opened(members=tuple(sorted({*ALL[:-1], "coordinator"}))),
        "ROUND_NOT_AS_PLANNED",
    ),
    "a round by keys that nobody agreed on": (opened(agreed=True), "NO_AGREEMENT"),
    "keys of too few": (advertised(lambda parts: parts[:-2]), "ROUND_NOT_AS_PLANNED"),
    "keys without this client's": (advertised(lambda parts: parts[1:]), "ROUND_NOT_AS_PLANNED"),
    "another key of this client's": (
        advertised(lambda parts: [signed_key(b"\x09" * 96, sender=FIRST), *parts[1:]]),
        "ROUND_NOT_AS_PLANNED",
    ),
    "a key that is shorter": (
        advertised(lambda parts: [parts[0], signed_key(b"\x09" * 64), *parts[2:]]),
        "ROUND_NOT_AS_PLANNED",
    ),
    "one key for two clients": (
        advertised(
            lambda parts: [
                parts[0],
                signed_key(b"\x09" * 96),
                signed_key(b"\x09" * 96, sender=THIRD),
                *parts[3:],
            ]
        ),
        "ROUND_NOT_AS_PLANNED",
    ),
    "a share that was changed": (
        payload(of("deliver", recipient=FIRST), lambda content: content[:8] + flipped(content[8:])),
        "BAD_SHARE",
    ),
    "shares in another order": (
        payload(
            of("deliver", recipient=FIRST),
            lambda content: (
                content[:8]
                + content[8 + SEALED_BYTES : 8 + 2 * SEALED_BYTES]
                + content[8 : 8 + SEALED_BYTES]
                + content[8 + 2 * SEALED_BYTES :]
            ),
        ),
        "BAD_SHARE",
    ),
    "shares of too few": (
        payload(
            of("deliver", recipient=FIRST),
            lambda content: bits_of(ALL[:2], ALL) + content[8 : 8 + SEALED_BYTES],
        ),
        "ROUND_NOT_AS_PLANNED",
    ),
    "shares without this client": (
        payload(
            of("deliver", recipient=FIRST),
            lambda content: bits_of(ALL[1:], ALL) + content[8 : 8 + 2 * SEALED_BYTES],
        ),
        "ROUND_NOT_AS_PLANNED",
    ),
    "another course of the round": (
        payload(of("survivors", recipient=FIRST), flipped),
        "SURVIVORS_DIFFER",
    ),
    "survivors without this client": (survivors(ALL[1:]), "SURVIVORS_DIFFER"),
    "too few survivors": (survivors(ALL[:2]), "SURVIVORS_DIFFER"),
    "too few who signed the list": (revealed(lambda parts: parts[:2]), "SURVIVORS_DIFFER"),
    "nobody who signed the list": (revealed(lambda parts: []), "SURVIVORS_DIFFER"),
    "a second list of survivors": (
        lambda frame: (
            [frame, replace(frame, payload=bytes(frame.payload[:32]) + bits_of(ALL[:3], ALL))]
            if of("survivors", recipient=FIRST)(frame)
            else [frame]
        ),
        "SURVIVORS_DIFFER",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_of_the_coordinator_ends_the_round_for_the_client(lie: str) -> None:
    change, code = LIES[lie]
    agreed = terms(CLIENTS, silent=1, colluding=1)
    parties = Parties(agreed)
    parties.round(0, drawn(agreed), change=change)
    assert parties.refused == {FIRST: code}
    client = parties.clients[FIRST]
    assert client.place is None
    assert not [f for f in parties.sent if f.phase == "answer" and f.sender == FIRST]
    later = drawn(agreed, seed=1)
    again = parties.round(1, later)
    assert again is not None
    assert again.tolist() == total(later).tolist()


MALFORMED: dict[str, Change] = {
    "an opening that is no JSON": payload(of("open", recipient=FIRST), lambda content: b"{"),
    "an opening of another form": payload(of("open", recipient=FIRST), lambda content: b"[]"),
    "members that are not sorted": opened(members=tuple(reversed(ALL))),
    "a member twice": opened(members=(FIRST, *ALL)),
    "keys that are cut off": payload(of("advertise", recipient=FIRST), lambda c: c[:-1]),
    "a key twice": advertised(lambda parts: [*parts[:-1], parts[0]]),
    "a key that leaves no secret": advertised(
        lambda parts: [parts[0], signed_key(bytes(96)), *parts[2:]]
    ),
    "shares that are cut off": payload(of("deliver", recipient=FIRST), lambda c: c[:-1]),
    "shares of clients that are not": payload(
        of("deliver", recipient=FIRST), lambda content: b"\xff" * 8 + content[8:]
    ),
    "a list that is cut off": payload(of("survivors", recipient=FIRST), lambda c: c[:-1]),
    "a list of clients that are not": payload(
        of("survivors", recipient=FIRST), lambda content: content[:32] + b"\xff" * 8
    ),
    "keys in place of signatures": revealed(lambda parts: [signed_key(bytes(96))]),
    "a signature twice": revealed(lambda parts: [*parts[:-1], parts[0]]),
    "a frame that is not due": lambda frame: (
        [replace(frame, phase="reveal")] if of("open", recipient=FIRST)(frame) else [frame]
    ),
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_frame_of_the_coordinator_changes_nothing(fault: str) -> None:
    agreed = terms(CLIENTS, silent=1, colluding=1)
    parties, values = Parties(agreed), drawn(agreed)
    parties.round(0, values, change=MALFORMED[fault])
    assert {name for name, _ in parties.dropped} == {FIRST}
    assert not parties.refused
    found = parties.coordinator.total
    assert found is not None
    later = {(), (FIRST,)}
    assert found.tolist() in [total(values, without=without).tolist() for without in later]


@pytest.mark.parametrize("mode", ["threshold", "all-or-nothing"])
def test_a_round_that_was_begun_is_not_begun_again(mode: str) -> None:
    agreed = terms(3, mode=mode)
    parties = Parties(agreed)
    parties.round(4, drawn(agreed))
    (opening, *_) = [frame for frame in parties.sent if frame.phase == "open"]
    client = parties.clients[opening.recipient]
    for frame in (opening, replace(opening, attempt=1), replace(opening, round=3)):
        with pytest.raises(FrameError) as refused:
            client.receive(frame, 0.0)
        assert refused.value.code == "FRAME_UNEXPECTED"
    started_again = SumClient(agreed, opening.recipient, last_round=4)
    with pytest.raises(FrameError):
        started_again.receive(opening, 0.0)


def test_a_round_beyond_the_plan_is_refused() -> None:
    parties = Parties(terms(3, rounds=2))
    parties.round(2, drawn(parties.terms))
    assert parties.refused == dict.fromkeys(names(3), "ROUND_NOT_AS_PLANNED")


def test_a_client_that_waits_for_ever_erases_its_secrets() -> None:
    parties = Parties(terms(3))
    (opening, *_) = parties.coordinator.open(0, 0, names(3), 0.0)
    client = parties.clients[opening.recipient]
    client.receive(opening, 100.0)
    client.tick(120.0)  # twice a phase's time: others may take all of it
    assert client.place is not None
    client.tick(120.1)
    assert client.place is None


def test_clocks_apart_change_nothing() -> None:
    agreed = terms(4, silent=1)
    parties, values = Parties(agreed), drawn(agreed)
    for number, client in enumerate(parties.clients.values()):
        receive = client.receive

        def shifted(
            frame: Frame, now: float, by: float = 1e9 * number, own: Callable = receive
        ) -> list[Frame]:
            return own(frame, now - by)

        client.receive = shifted  # type: ignore[method-assign]
    found = parties.round(0, values)
    assert found is not None
    assert found.tolist() == total(values).tolist()


def test_who_is_known_to_be_lost_is_not_waited_for() -> None:
    agreed = terms(4, silent=1)
    parties, values = Parties(agreed), drawn(agreed)
    gone = silent(FIRST, phase="vector")

    def change(frame: Frame) -> Sequence[Frame]:
        if frame.phase == "vector" and frame.sender == FIRST:
            assert parties.coordinator.lost(FIRST, parties.now) == []
        return gone(frame)

    found = parties.round(0, values, change=change)
    assert found is not None
    assert found.tolist() == total(values, without=(FIRST,)).tolist()
    assert parties.now == 0.0


def test_a_client_that_is_shown_other_survivors_answers_nobody() -> None:
    agreed = terms(CLIENTS, silent=1, colluding=1)
    parties, values = Parties(agreed), drawn(agreed)
    found = parties.round(0, values, change=survivors(ALL[:3]))
    assert found is not None
    assert found.tolist() == total(values).tolist()
    assert parties.dropped == [("coordinator", "BAD_FRAME")]
    assert not [f for f in parties.sent if f.phase == "answer" and f.sender == FIRST]


Missing = dict[str, set[str]]
"""Who is missing in the list of survivors that each honest client is shown."""


def shares_given(clients: int, t: int, c: int, missing: Missing) -> dict[str, tuple[int, int]]:
    """Returns how many shares of each client's seed and of its key a lying coordinator gets.

    The last c clients sign whatever it likes and give it all shares that they hold.
    """
    agreed = terms(clients)
    object.__setattr__(agreed, "silent", t)  # whether or not such terms would be refused
    parties, members = Parties(agreed), tuple(names(clients))
    shown: list[Frame] = []

    def kept(frame: Frame) -> Sequence[Frame]:
        shown.extend([frame] if frame.phase == "survivors" else [])
        return [] if frame.phase == "survivors" else [frame]

    parties.round(0, drawn(agreed), change=kept)
    signed: dict[bytes, list[bytes]] = {}
    lists = {}
    for frame in shown:
        listed = [name for name in members if name not in missing.get(frame.recipient, ())]
        said = bytes(frame.payload[:32]) + bits_of(listed, members)
        lists[frame.recipient] = replace(frame, payload=said)
    honest = [lists[name] for name in members[: clients - c]]
    confirmed = [out for frame in honest for out in parties.take(parties.signed(frame))]
    for said in {bytes(frame.payload) for frame in honest}:
        for name in members[clients - c :]:
            liar = replace(shown[0], phase="confirm", sender=name, payload=said)
            confirmed.append(replace(liar, recipient=EVERYBODY))
    for frame in confirmed:
        data = frames.encode(frame, parties.secrets[frame.sender])
        signed.setdefault(bytes(frame.payload), []).append(data)
    given = {name: [c, c] for name in members}
    for frame in honest:
        bundle = frames.bundle(signed[bytes(frame.payload)])
        reveal = replace(frame, phase="reveal", payload=bundle)
        if parties.take(parties.signed(reveal)):
            for name in members:
                given[name][name in missing.get(frame.recipient, ())] += 1
    return {name: (seed, key) for name, (seed, key) in given.items()}


def without_the_first(clients: int, c: int, *, group: int) -> Missing:
    """The first is there for `group` honest clients, and missing for the others."""
    return {name: {FIRST} for name in names(clients)[group : clients - c]}


@pytest.mark.parametrize(("clients", "t", "c"), [(4, 1, 1), (5, 1, 2), (7, 2, 2)])
def test_a_lying_coordinator_never_gets_both_secrets_of_a_client(
    clients: int, t: int, c: int
) -> None:
    for group in (1, clients - t - c, clients - c):
        found = shares_given(clients, t, c, without_the_first(clients, c, group=group))
        assert all(min(shares) < clients - t for shares in found.values())


@pytest.mark.parametrize(("clients", "t", "c"), [(4, 1, 2), (6, 2, 2)])
def test_with_one_client_less_than_the_terms_ask_for_it_would(clients: int, t: int, c: int) -> None:
    with pytest.raises(ValueError, match="too few"):
        terms(clients, silent=t, colluding=c)
    found = shares_given(clients, t, c, without_the_first(clients, c, group=clients - t - c))
    assert found[FIRST] == (clients - t,) * 2


def test_a_list_for_each_client_does_not_leave_fewer_than_m_minus_t_in_the_sum() -> None:
    """Each list lacks t = 2 clients, and three are missing in enough lists to rebuild their keys.

    So the sum of the four others would be bare, with two honest shares of noise in place of three.
    """
    one, two, three, four, five, *_ = names(7)
    missing = {
        one: {two, three},
        two: {one, three},
        three: {one, two},
        four: {one, two},
        five: {three},
    }
    found = shares_given(7, 2, 2, missing)
    assert sum(key >= 5 for _, key in found.values()) <= 2
