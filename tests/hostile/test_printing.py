"""Texts that steer a terminal: none of a hostile signer's reaches one as it stands.

Every free text of a certificate is made hostile, whatever field it is in: the fields are found by
trying each text of the statement, not listed by hand.
"""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hushdoc_corruption import ENVELOPE, Act, Scene, edit_envelope, forged, sealed_model
from hushdoc_damage import at

from hushdoc import __main__ as program
from hushdoc.certificate import audit_reports
from hushdoc.certificate import statement as certificate_statement
from hushdoc.errors import HushdocError
from hushdoc.signing import trust_store
from hushdoc.signing.trust_store import TrustedKey

STEERING = (
    "\x1b[2J\x1b]0;title\x07",  # clears the screen, renames the window
    "\x9b31m",  # the same in one byte
    "\r\b\x7f\x00",
    "\u202e\u2066\u200f\u061c",  # turns the direction of reading
    "\u200b\u200d\ufeff\u00ad\u2060",  # of no width
    "\u2028\u2029\x85\x0b\x0c",  # ends a line in some terminals
    "\U000e0041\U000e007f",  # tags that nobody sees
    "\ufff9\ufffb\U0001d173",
)
FORGED_LINE = "ACCEPTED."
HOSTILE = f"x{''.join(STEERING)}\n{FORGED_LINE}\n<script>alert(1)</script>|`]("

Path_ = tuple[str | int, ...]


def _texts(data: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yields where every text of plain data stands, keys of free names among them."""
    if isinstance(data, str):
        yield path
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _texts(item, (*path, index))
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from _texts(item, (*path, key))


def _set(data: Any, path: Path_, value: Any) -> Any:
    changed = copy.deepcopy(data)
    at(changed, path[:-1])[path[-1]] = value
    return changed


def _full_certificate(scene: Scene) -> Any:
    """A certificate in which every optional text is there."""
    build = scene.build
    none = build.no_guarantee(unit="user")
    conditional = build.guarantee(unit="page", kind="dp-conditional", condition="if")
    data = build.claim().protected_data[0]
    registered = audit_reports.PreRegisteredAudit(
        protocol="asks", population="public", query_budget=9, seed_commitment="sha256:" + "0" * 64
    )
    public = build.PublicData(
        name="public",
        uses=("vocabulary",),
        uri="https://example.com",
        digest="sha256:" + "0" * 64,
        privacy_status="licensed",
        overlap_with_protected="unknown",
    )
    leak = build.DataAccess(
        data="invoices", purpose="tuning", accounted_in=(), treatment="unaccounted"
    )
    return build.certify(
        build.guarantee(),
        none,
        conditional,
        protected_data=(data,),
        public_data=(public,),
        data_accesses=(*build.claim().data_accesses, leak),
        audits=(build.audit(evidence="sha256:" + "0" * 64, epsilon_lower=7.9),),
        pre_registered_audits=(registered,),
        training={"note": "x"},
        utility={"score": "x"},
        issued_at="2026-11-01T00:00:00Z",
        derivation=({"step": "export", "dataDependent": True, "note": "x"},),
    )


def _statement_of(scene: Scene, text: str) -> tuple[dict[str, Any], int]:
    """A text in every place where a reader lets it stand, all at once, and how many those are."""
    scene.forge(certified=_full_certificate(scene))
    statement = json.loads(scene.payload())
    found = 0
    for path in list(_texts(statement)):
        attempt = _set(statement, path, text)
        try:
            certificate_statement.parse_statement(json.dumps(attempt).encode())
        except HushdocError:
            continue
        statement, found = attempt, found + 1
    return statement, found


def _hostile_statement(scene: Scene) -> tuple[dict[str, Any], int]:
    """Every text that a reader lets be hostile, and how many those are."""
    statement, found = _statement_of(scene, HOSTILE)
    # Names of what is measured and set are free as well.
    for field in ("training", "utility"):
        statement["predicate"][field][HOSTILE] = HOSTILE
    certificate_statement.parse_statement(json.dumps(statement).encode())
    return statement, found


@pytest.fixture(autouse=True)
def _patient_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets certificates be valid whatever the day on which these tests run."""
    monkeypatch.setattr("hushdoc.certificate.certificate.CLOCK_TOLERANCE", timedelta(days=36_500))


def _trust_file(scene: Scene, name: str = "key") -> Path:
    store = trust_store.TrustStore(
        keys=(
            TrustedKey.of(scene.key, name=name),
            TrustedKey.of(scene.other_key, name=name, roles=("audit",)),
        )
    )
    path = scene.outside / "trust.json"
    path.write_bytes(store.to_json())
    return path


def require_harmless(shown: str, what: str) -> None:
    """Raises where a letter could steer a terminal, or a line pretends to be the program's."""
    for letter in shown:
        harmless = letter == "\n" or unicodedata.category(letter)[0] not in "CZ" or letter == " "
        assert harmless, f"{what} shows {letter!a} as it stands"
    assert FORGED_LINE not in shown.splitlines(), f"{what} shows a line that a signer forged"


LIMITS = ("--max-epsilon", "8", "--max-delta", "1e-5", "--unit", "document")


DEMANDED = ("verify", "FOLDER", "--trust", "TRUST", *LIMITS)
EXPORTED = ("certificate", "export", "FOLDER", "--format")
VERBS = {
    "inspect": ("inspect", "FOLDER"),
    "inspect-json": ("inspect", "FOLDER", "--json"),
    "inspect-trust": ("inspect", "FOLDER", "--trust", "TRUST"),
    "verify": DEMANDED,
    "verify-json": (*DEMANDED, "--json"),
    "cyclonedx": (*EXPORTED, "cyclonedx"),
    "opendp": (*EXPORTED, "opendp"),
    "card": (*EXPORTED, "card"),
}


def _run(verb: str, scene: Scene, *more: str) -> int:
    places = {"FOLDER": str(scene.folder), "TRUST": str(scene.outside / "trust.json")}
    return program.main([*(places.get(word, word) for word in VERBS[verb]), *more])


@pytest.mark.parametrize("verb", VERBS)
def test_no_text_of_a_certificate_reaches_the_terminal(
    verb: str, make_scene: Callable[[], Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = make_scene()
    statement, found = _hostile_statement(scene)
    assert found >= 25
    scene.sign(json.dumps(statement).encode())
    report = scene.build.audit_report(
        scene.build.audit(method=HOSTILE, epsilon_lower=7.95), auditor=HOSTILE
    )
    scene.build.append_audit(scene.folder, scene.other_key, report)
    _trust_file(scene, HOSTILE)
    code = _run(verb, scene)
    shown = capsys.readouterr()
    assert code == (5 if verb.startswith("verify") else 0)
    assert "\\u202e" in shown.out, "the hostile texts are shown, escaped"
    require_harmless(shown.out, verb)
    require_harmless(shown.err, verb)


def test_no_text_of_a_certificate_becomes_markup(
    make_scene: Callable[[], Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = make_scene()
    statement, _ = _hostile_statement(scene)
    scene.sign(json.dumps(statement).encode())
    _trust_file(scene, HOSTILE)
    pages = []
    for verb in ("inspect", "verify"):
        page = scene.outside / f"{verb}.html"
        _run(verb, scene, "--html", str(page))
        pages.append(page.read_text("utf-8"))
    capsys.readouterr()
    _run("card", scene)
    # Inside a fence Markdown shows what stands there; no text may end the fence.
    card = re.sub("^```.*?^```$", "", capsys.readouterr().out, flags=re.DOTALL | re.MULTILINE)
    assert "## " in card
    pages.append(card)
    for page in pages:
        assert "<script>alert" not in page
        assert not set(page) & set("\u202e\u2066\u200f\x1b\x9b\u2028\x00")


FILE_NAMES = ("evil\x1b[2J", "evil\u202egnp.exe", "evil\rACCEPTED.", "evil\nACCEPTED.", "\udcff")


@pytest.mark.parametrize("name", FILE_NAMES, ids=ascii)
def test_no_name_of_a_file_reaches_the_terminal(
    name: str, make_scene: Callable[[], Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = make_scene()
    _trust_file(scene)
    (scene / name).write_bytes(b"x")
    for verb in ("verify", "verify-json"):
        assert _run(verb, scene) == 4
        shown = capsys.readouterr()
        require_harmless(shown.out + shown.err, verb)


REFUSED: dict[str, Act] = {
    "payload-type": edit_envelope(lambda d: d.update(payloadType=HOSTILE)),
    "key-id": edit_envelope(lambda d: d.update(signatures=[{"keyid": HOSTILE, "sig": ""}])),
    "no-json": lambda scene: (scene / ENVELOPE).write_text(HOSTILE),
    "key-twice": lambda scene: (scene / ENVELOPE).write_text(
        f"{{{json.dumps(HOSTILE)}: 1, {json.dumps(HOSTILE)}: 1}}"
    ),
    "predicate-type": forged("predicateType", HOSTILE),
    "file-name": forged("subject.0.name", HOSTILE),
    "entry": forged("predicate.model.entry", HOSTILE),
    "task": forged("predicate.model.task", HOSTILE),
    "critical": forged("predicate.critical", [HOSTILE]),
    "unknown-key": lambda scene: scene.forge(lambda d: d["predicate"].update({HOSTILE: 1})),
    "unit": forged("predicate.guarantees.0.unit", HOSTILE),
    "event": lambda scene: scene.forge(
        lambda d: d["predicate"]["transcripts"].update({HOSTILE: {"type": HOSTILE}})
    ),
    "transcript": forged("predicate.guarantees.0.transcript", HOSTILE),
    "data-of-an-access": forged("predicate.dataAccesses.0.data", HOSTILE),
    "reason": forged("predicate.guarantees.0.reason", HOSTILE),
    "embedded-id": sealed_model(lambda b: b.onnx(metadata={"hushdoc.certificate_id": HOSTILE})),
    "operator": sealed_model(
        lambda b: b.onnx(graph=b.message(1, b.message(4, HOSTILE), b.message(7, HOSTILE)))
    ),
    "metadata-key-twice": sealed_model(
        lambda b: b.onnx(*[b.message(14, b.message(1, HOSTILE))] * 2)
    ),
    "manifest": lambda scene: scene.seal(
        contents=scene.files(hushdoc_DOT_json=json.dumps({HOSTILE: HOSTILE}).encode())
    ),
    "link": lambda scene: (
        (scene / "labels.json").unlink(),
        (scene / "labels.json").symlink_to("/" + HOSTILE.replace("\0", "")),
    ),
}


@pytest.mark.parametrize("place", REFUSED)
def test_no_message_of_a_refusal_reaches_the_terminal(
    place: str, make_scene: Callable[[], Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = make_scene()
    _trust_file(scene)
    REFUSED[place](scene)
    for verb in ("verify", "verify-json", "inspect-trust"):
        code = _run(verb, scene)
        shown = capsys.readouterr()
        require_harmless(shown.out + shown.err, f"{verb} of {place}")
        if verb.startswith("verify"):
            assert code == 4


def test_no_text_of_a_trust_store_or_policy_reaches_the_terminal(
    make_scene: Callable[[], Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = make_scene()
    trust = _trust_file(scene)
    data = json.loads(trust.read_bytes())
    for change in ({HOSTILE: 1}, {"version": HOSTILE}, {"keys": [{HOSTILE: 1}]}):
        trust.write_text(json.dumps({**data, **change}))
        assert _run("verify", scene) == 3
        shown = capsys.readouterr()
        require_harmless(shown.out + shown.err, str(change))
    policy = scene.outside / "policy.toml"
    for line in (f"{json.dumps(HOSTILE)} = 1", f"adversary = {json.dumps(HOSTILE)}"):
        trust.write_text(json.dumps(data))
        policy.write_text(
            f'trust = "trust.json"\nmax_epsilon = 8\nmax_delta = 1e-5\nprivacy_units = []\n{line}\n'
        )
        assert program.main(("verify", str(scene.folder), "--policy", str(policy))) == 3
        shown = capsys.readouterr()
        require_harmless(shown.out + shown.err, line)


def test_no_text_is_wrapped_into_a_line_of_the_programs_own(
    make_scene: Callable[[], Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    """Between words that are longer than a line, a text can choose where its lines begin."""
    scene = make_scene()
    _trust_file(scene)
    wrapped = f"{'x' * 120} {FORGED_LINE} {'y' * 120} Signed by everybody. {'z' * 120}"
    statement, _ = _statement_of(scene, wrapped)
    scene.sign(json.dumps(statement).encode())
    for verb in VERBS:
        _run(verb, scene)
        lines = capsys.readouterr().out.splitlines()
        assert not [line for line in lines if line.startswith((FORGED_LINE, "Signed by every"))], (
            verb
        )
