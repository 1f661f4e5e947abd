"""Revocation: what is on the list is refused, and no list is hidden, kept back or made up."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from hushdoc_corruption import NOW, Act, Refused, Scene, cases, refusals, require_accepted

from hushdoc.signing import dsse, revocation
from hushdoc.signing import keys as signing_keys
from hushdoc.signing.revocation import RevocationList
from hushdoc.signing.trust_store import TrustedKey, TrustStore

OTHER_ID = "f" * 32


def _revoker(scene: Scene) -> TrustedKey:
    return TrustedKey.of(scene.other_key, name="revoker", roles=("revocation",))


def _list_of(scene: Scene, **change: Any) -> RevocationList:
    return revocation.successor(
        None, valid_for=timedelta(days=7), now=NOW - timedelta(days=1), **change
    )


def _revoke(
    scene: Scene, revoked: RevocationList | None = None, *, by: Any = None, **change: Any
) -> None:
    """Lets the application follow a list, and writes one that its revoker signed."""
    path = scene.outside / "revocations.jsonl"
    keys = (*scene.policy.trust.keys, _revoker(scene))
    scene.trust(*keys, revocations=path)
    found = _list_of(scene, **change) if revoked is None else revoked
    path.write_text(revocation.sign_list(found, by or scene.other_key) + "\n")


def _required(scene: Scene) -> None:
    scene.demand(revocation="required", revocations=scene.outside / "revocations.jsonl")


def _revocations(change: Callable[[Path], object]) -> Act:
    def act(scene: Scene) -> None:
        _revoke(scene)
        change(scene.policy.revocations)

    return act


def _frozen(scene: Scene) -> None:
    old = dataclasses.replace(
        _list_of(scene), issued_at="2026-11-10T00:00:00Z", next_update="2026-11-20T00:00:00Z"
    )
    _revoke(scene, old)


def _from_the_future(scene: Scene) -> None:
    early = dataclasses.replace(
        _list_of(scene), issued_at="2026-12-10T00:00:00Z", next_update="2026-12-20T00:00:00Z"
    )
    _revoke(scene, early)


def _rolled_back_list(scene: Scene) -> None:
    _revoke(scene)
    scene.demand(trust=dataclasses.replace(scene.policy.trust, min_revocation_sequence=2))


def _list_by_the_issuer(scene: Scene) -> None:
    _revoke(scene, by=scene.key)


def _certificate_as_a_list(scene: Scene) -> None:
    """A sound envelope of the revoker, but around something that is no list."""
    _revoke(scene)
    line = dsse.sign(scene.payload(), scene.other_key)
    scene.policy.revocations.write_text(line)


def _by_a_revoker_of_other_models(scene: Scene) -> None:
    _revoke(scene)
    elsewhere = dataclasses.replace(_revoker(scene), models=("another model",))
    scene.trust(TrustedKey.of(scene.key), elsewhere)


def _rolled_back_since_it_was_obeyed(scene: Scene) -> None:
    """The store was read from a file; the list that was obeyed is replaced by an older one."""
    _revoke(scene)
    store = scene.outside / "trust.json"
    store.write_bytes(scene.policy.trust.to_json())
    scene.demand(trust=TrustStore.from_file(store))
    older = scene.policy.revocations.read_bytes()
    newer = dataclasses.replace(_list_of(scene), sequence=7)
    scene.policy.revocations.write_text(revocation.sign_list(newer, scene.other_key))
    revocation.read_list_file(scene.policy.revocations, scene.policy.trust, now=NOW)
    scene.policy.revocations.write_bytes(older)
    assert TrustStore.from_file(store).min_revocation_sequence == 7


def _taken_back_by_a_revoked_revoker(*, kept: bool) -> Act:
    """The thief of a revoked key writes the next list, which revokes nothing."""

    def act(scene: Scene) -> None:
        stolen = signing_keys.generate_key()
        thief = TrustedKey.of(stolen, name="stolen", roles=("revocation",))
        _revoke(scene, keys=[thief.keyid, TrustedKey.of(scene.key).keyid])
        path = scene.policy.revocations
        scene.demand(trust=dataclasses.replace(scene.policy.trust, keys=(*_keys(scene), thief)))
        if kept:
            store = scene.outside / "trust.json"
            store.write_bytes(scene.policy.trust.to_json())
            scene.demand(trust=TrustStore.from_file(store))
        revocation.read_list_file(path, scene.policy.trust, now=NOW)
        path.write_text(
            revocation.sign_list(dataclasses.replace(_list_of(scene), sequence=2), stolen)
        )
        if kept:
            scene.demand(trust=TrustStore.from_file(store))

    return act


def _keys(scene: Scene) -> tuple[TrustedKey, ...]:
    return tuple(scene.policy.trust.keys)


def _revoked_by_its_own_list(scene: Scene) -> None:
    """The only signer of a list is revoked in it."""
    _revoke(scene)
    found = _list_of(scene, keys=[_revoker(scene).keyid])
    line = dsse.sign(found.to_json(), scene.other_key, payload_type=revocation.PAYLOAD_TYPE)
    scene.policy.revocations.write_text(line)


def _revoked_of_two(scene: Scene) -> None:
    """Two must have signed and two have; one of them is revoked."""
    second = signing_keys.generate_key()
    scene.sign(scene.payload(), scene.key, second)
    scene.trust(TrustedKey.of(scene.key), TrustedKey.of(second), threshold=2)
    _revoke(scene, keys=[TrustedKey.of(second).keyid])


REFUSED: Refused = {
    "REVOKED": {
        "revoked": lambda s: _revoke(s, certificates=[s.build.CERTIFICATE_ID]),
        "revoked-key": lambda s: _revoke(s, keys=[TrustedKey.of(s.key).keyid]),
        "revoked-key-of-two": _revoked_of_two,
        "revoked-though-nobody-need-sign": lambda s: (
            s.demand(require_signature=False),
            _revoke(s, certificates=[s.build.CERTIFICATE_ID]),
        ),
    },
    "REVOCATION_UNAVAILABLE": {
        "no-list-where-one-is-required": _required,
        "list-required-is-a-link-to-itself": lambda s: (
            _required(s),
            s.policy.revocations.symlink_to(s.policy.revocations),
        ),
        "list-frozen": _frozen,
        "list-from-the-future": _from_the_future,
        "list-by-the-issuer": _list_by_the_issuer,
        "list-by-a-revoked-revoker": _taken_back_by_a_revoked_revoker(kept=False),
        "list-by-a-revoked-revoker-of-a-store-read-again": _taken_back_by_a_revoked_revoker(
            kept=True
        ),
        "list-that-revokes-its-signer": _revoked_by_its_own_list,
        "list-by-nobody": lambda s: _revoke(s, by=signing_keys.generate_key()),
        "list-is-a-certificate": _certificate_as_a_list,
        "list-of-a-revoker-of-other-models": _by_a_revoker_of_other_models,
        "list-is-a-link-to-itself": _revocations(
            lambda path: (path.unlink(), path.symlink_to(path))
        ),
        "list-is-in-a-file": lambda s: (
            _revoke(s),
            s.demand(revocations=s.policy.revocations / "list"),
        ),
        "list-empty": _revocations(lambda path: path.write_bytes(b"")),
        "list-cut": _revocations(lambda path: path.write_bytes(path.read_bytes()[:-9])),
        "list-sparse-one-tebibyte": _revocations(lambda path: os.truncate(path, 1 << 40)),
        "list-is-a-folder": _revocations(lambda path: (path.unlink(), path.mkdir())),
    },
    "REVOCATION_ROLLBACK": {
        "list-rolled-back": _rolled_back_list,
        "list-rolled-back-since-it-was-obeyed": _rolled_back_since_it_was_obeyed,
    },
}

CASES = cases("certificate/", REFUSED)


test_is_refused = refusals(CASES)


def test_what_others_did_is_not_held_against_a_model(make_scene: Callable[[], Scene]) -> None:
    require_accepted(
        lambda scene: _revoke(scene, certificates=[OTHER_ID], keys=["0" * 64]), make_scene
    )


def test_a_demanded_list_that_is_there_is_enough(make_scene: Callable[[], Scene]) -> None:
    require_accepted(
        lambda scene: (_revoke(scene), scene.demand(revocation="required")), make_scene
    )
