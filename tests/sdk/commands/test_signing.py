"""`hushdoc sign`: further signatures, here and by a key service, and what is never signed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_command_runs
import pytest
from hushdoc_command_runs import public_pem

from hushdoc.artifact.folder import subjects_of
from hushdoc.commands import signing as command
from hushdoc.errors import HushdocError
from hushdoc.signing import dsse, keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore

run = partial(hushdoc_command_runs.run, "sign")
refusal = partial(hushdoc_command_runs.refusal, "sign")


@pytest.fixture(params=keys.ALGORITHMS)
def second(request: pytest.FixtureRequest) -> Any:
    return keys.generate_key(request.param)


@pytest.fixture
def key_file(second: Any, tmp_path: Path) -> Path:
    path = tmp_path / "second.key"
    keys.write_private_key(second, path)
    return path


def envelope(sealed: Path) -> Path:
    return sealed / build.ENVELOPE


def signers_of(sealed: Path, *private: Any) -> int:
    """Returns how many of these keys have signed the certificate."""
    store = TrustStore.of(TrustedKey.of(item) for item in private)
    line = envelope(sealed).read_bytes().split(b"\n")[0]
    return len(dsse.verify(line, store).keys)


def test_a_further_signature_meets_a_threshold(
    key: Any, second: Any, sealed: Path, key_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hushdoc.artifact import artifact

    before = json.loads(envelope(sealed).read_bytes())
    assert run(sealed, "--key", key_file) == 0
    after = json.loads(envelope(sealed).read_bytes())
    assert after["payload"] == before["payload"]
    assert after["signatures"][:1] == before["signatures"]
    assert signers_of(sealed, key, second) == 2
    assert set(subjects_of(sealed)) == set(artifact.read_unverified(sealed).subjects)
    shown = capsys.readouterr().out
    assert "invoice-kie" in shown
    assert "epsilon" in shown
    assert hashlib.sha256(base64.b64decode(before["payload"])).hexdigest() in shown


def test_who_signs_sees_what_is_not_guaranteed(
    key: Any, key_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_claim = build.certify(
        build.guarantee(covers_all_private_accesses=False),
        derivation=({"step": "scales by private pages", "dataDependent": True},),
        caveats=("Two runs were dropped.",),
    )
    folder = build.seal(tmp_path / "open", key, open_claim)
    assert run(folder, "--key", key_file) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("Some accesses to protected data are outside", "scales by private", "Two runs"):
        assert words in shown


def test_the_artifact_opens_under_a_threshold_of_two(
    key: Any, sealed: Path, tmp_path: Path
) -> None:
    from datetime import UTC, datetime

    from hushdoc.artifact import artifact

    other = keys.generate_key(keys.ECDSA_P256)
    keys.write_private_key(other, tmp_path / "other.key")
    store = TrustStore.of([TrustedKey.of(key, name="a"), TrustedKey.of(other, name="b")])
    policy = build.policy(trust=store, threshold=2)
    now = datetime(2026, 12, 1, tzinfo=UTC)
    with pytest.raises(HushdocError):
        artifact.verify(sealed, policy, now=now)
    run(sealed, "--key", tmp_path / "other.key")
    assert artifact.verify(sealed, policy, now=now).passed


def test_further_lines_and_permissions_are_kept(sealed: Path, key_file: Path) -> None:
    path = envelope(sealed)
    build.append_audit(sealed, keys.generate_key())
    audit = path.read_bytes().split(b"\n")[1]
    path.chmod(0o640)
    run(sealed, "--key", key_file)
    lines = path.read_bytes().split(b"\n")
    assert (len(json.loads(lines[0])["signatures"]), lines[1:]) == (2, [audit, b""])
    assert path.stat().st_mode & 0o777 == 0o640
    assert {item.name for item in sealed.iterdir()} >= {build.ENVELOPE}
    assert not [item for item in sealed.iterdir() if item.name.startswith(".")]


def test_a_key_signs_once(sealed: Path, key_file: Path) -> None:
    run(sealed, "--key", key_file)
    before = envelope(sealed).read_bytes()
    assert refusal(sealed, "--key", key_file) == "ALREADY_SIGNED"
    assert envelope(sealed).read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("labels.json", b'{"fields": ["date", "tota1"]}', "DIGEST_MISMATCH"),
        ("labels.json", b"{}", "SIZE_MISMATCH"),
        ("labels.json", None, "MISSING_FILE"),
        ("planted.json", b"{}", "UNLISTED_FILE"),
        ("onnx/planted.so", b"", "UNLISTED_FILE"),
    ],
)
def test_what_the_certificate_is_not_about_is_not_signed(
    sealed: Path, key_file: Path, name: str, content: bytes | None, code: str
) -> None:
    before = envelope(sealed).read_bytes()
    (sealed / name).unlink(missing_ok=True)
    if content is not None:
        (sealed / name).write_bytes(content)
    for way in (("--key", key_file), ("--message", key_file.with_name("m.bin"))):
        assert refusal(sealed, *way) == code
    assert envelope(sealed).read_bytes() == before
    assert not key_file.with_name("m.bin").exists()


def test_a_link_is_not_signed(sealed: Path, key_file: Path) -> None:
    os.rename(sealed / "labels.json", sealed.parent / "labels.json")
    (sealed / "labels.json").symlink_to(sealed.parent / "labels.json")
    assert refusal(sealed, "--key", key_file) == "SYMLINK"


def test_a_claim_that_its_transcript_contradicts_is_not_signed(
    key: Any, key_file: Path, tmp_path: Path
) -> None:
    false = build.certify(build.guarantee(epsilon=0.1, profile=()))
    folder = build.seal_anything(tmp_path / "false", key, certified=false)
    assert refusal(folder, "--key", key_file) == "EPSILON_NOT_REPRODUCED"
    assert signers_of(folder, key) == 1


def test_what_is_no_artifact_is_not_signed(tmp_path: Path, key_file: Path) -> None:
    assert refusal(tmp_path / "none", "--key", key_file) == "BAD_ARTIFACT"
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty", "--key", key_file) == "MISSING_CERTIFICATE"


def test_a_key_that_can_not_be_read_changes_nothing(sealed: Path, tmp_path: Path) -> None:
    before = envelope(sealed).read_bytes()
    assert refusal(sealed, "--key", tmp_path / "none.key") == "BAD_KEY"
    assert envelope(sealed).read_bytes() == before


@pytest.mark.parametrize("spelled", ["raw", "base64", "base64 with a line end", "base64 in lines"])
def test_a_key_service_signs_the_message(
    key: Any, second: Any, sealed: Path, tmp_path: Path, spelled: str
) -> None:
    message, signature = tmp_path / "message.bin", tmp_path / "message.sig"
    pem = public_pem(second, tmp_path / "service.pem")
    assert run(sealed, "--message", message) == 0
    assert signers_of(sealed, key, second) == 1
    made = keys.sign_message(message.read_bytes(), second)  # what the service does
    spellings = {
        "raw": made,
        "base64": base64.b64encode(made),
        "base64 with a line end": base64.b64encode(made) + b"\n",
        "base64 in lines": base64.encodebytes(made),
    }
    assert spellings["base64 in lines"].count(b"\n") > 1
    signature.write_bytes(spellings[spelled])
    assert run(sealed, "--signature", signature, "--public-key", pem) == 0
    assert signers_of(sealed, key, second) == 2


def test_a_key_service_may_sign_the_digest(
    key: Any, sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    service = ec.generate_private_key(ec.SECP256R1())
    run(sealed, "--message", tmp_path / "m.bin")
    shown = capsys.readouterr().out
    digest = hashlib.sha256((tmp_path / "m.bin").read_bytes())
    assert digest.hexdigest() in shown
    made = service.sign(digest.digest(), ec.ECDSA(utils.Prehashed(hashes.SHA256())))
    (tmp_path / "m.sig").write_bytes(made)
    store = tmp_path / "service.trust.json"
    store.write_bytes(TrustStore.of([TrustedKey.of(service, name="x")]).to_json())
    assert run(sealed, "--signature", tmp_path / "m.sig", "--public-key", store) == 0
    assert signers_of(sealed, key, service) == 2


def test_a_signature_that_does_not_hold_is_not_attached(
    key: Any, second: Any, sealed: Path, tmp_path: Path
) -> None:
    pem = public_pem(second, tmp_path / "service.pem")
    before = envelope(sealed).read_bytes()
    signature = tmp_path / "s"
    payload = dsse.read_envelope(before.strip()).payload
    for wrong in (b"", b"hello", b"\xff" * 64, keys.sign_message(payload, second)):
        signature.write_bytes(wrong)
        assert refusal(sealed, "--signature", signature, "--public-key", pem) == "BAD_SIGNATURE"
    none = tmp_path / "none"
    assert refusal(sealed, "--signature", none, "--public-key", pem) == "BAD_SIGNATURE"
    assert refusal(sealed, "--signature", signature, "--public-key", none) == "BAD_KEY"
    several = tmp_path / "several.json"
    several.write_bytes(build.trust(key, keys.generate_key()).to_json())
    assert refusal(sealed, "--signature", signature, "--public-key", several) == "BAD_KEY"
    assert envelope(sealed).read_bytes() == before


def test_a_message_overwrites_nothing(sealed: Path, tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_text("precious")
    assert refusal(sealed, "--message", tmp_path / "m.bin") == "OUTPUT_EXISTS"
    assert (tmp_path / "m.bin").read_text() == "precious"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--signature", "s"),
        ("--public-key", "p"),
        ("--key", "k", "--public-key", "p"),
        ("--key", "k", "--message", "m"),
        ("--message", "m", "--signature", "s", "--public-key", "p"),
    ],
)
def test_ways_that_do_not_go_together(sealed: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(sealed, *options)
    assert caught.value.code == 2


def test_no_text_of_a_certificate_steers_the_terminal(
    key: Any, key_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "x\x1b[2J\u202ey"
    folder = build.seal(tmp_path / "h", key, build.hostile(hostile))
    path = envelope(folder)
    line = json.loads(path.read_bytes())
    line["signatures"][0]["keyid"] = hostile
    path.write_text(json.dumps(line) + "\n")
    run(folder, "--key", key_file)
    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)


def test_two_signers_at_once_both_count(key: Any, sealed: Path, tmp_path: Path) -> None:
    others = [keys.generate_key() for _ in range(6)]
    files = [tmp_path / f"{number}.key" for number in range(len(others))]
    for private, path in zip(others, files, strict=True):
        keys.write_private_key(private, path)
    with ThreadPoolExecutor(len(files)) as pool:
        assert list(pool.map(lambda path: run(sealed, "--key", path), files)) == [0] * len(files)
    assert signers_of(sealed, key, *others) == 1 + len(others)


def test_an_envelope_that_changes_meanwhile_is_left_alone(
    sealed: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dsse.sign(b"{}", keys.generate_key()) + "\n"
    show = command._print_certificate

    def swap(found: Any) -> None:
        show(found)
        envelope(sealed).write_text(other)

    monkeypatch.setattr(command, "_print_certificate", swap)
    assert refusal(sealed, "--key", key_file) == "CHANGED_DURING_LOAD"
    assert envelope(sealed).read_text() == other


def report_file(tmp_path: Path, **change: Any) -> Path:
    data = {**build.audit_report().to_dict(), **change}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return path


def test_an_auditor_appends_a_line_of_their_own(
    key: Any, second: Any, sealed: Path, key_file: Path, tmp_path: Path
) -> None:
    from hushdoc.artifact import artifact

    before = envelope(sealed).read_bytes()
    path = report_file(tmp_path, certificateId=None)
    assert run(sealed, "--key", key_file, "--audit", path) == 0
    assert run(sealed, "--key", key_file, "--audit", path) == 0
    after = envelope(sealed).read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 3
    auditor = TrustedKey.of(second, name="auditor", roles=("audit",))
    trust = TrustStore.of([TrustedKey.of(key, name="issuer"), auditor])
    report = artifact.verify(sealed, build.policy(key, trust=trust))
    (audits,) = [rule for rule in report.policy.rules if rule.code == "AUDIT_CONTRADICTION"]
    assert audits.passed
    assert audits.found.startswith("2 audits")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"certificateId": "f" * 32}, "BAD_SUBJECT"),
        ({"auditor": ""}, "BAD_AUDIT"),
        ({"audits": None}, "BAD_AUDIT"),
        ({"audits": []}, "BAD_AUDIT"),
        ({"more": 1}, "BAD_AUDIT"),
    ],
)
def test_a_report_that_could_not_be_read_is_not_signed(
    sealed: Path, key_file: Path, tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    before = envelope(sealed).read_bytes()
    path = report_file(tmp_path, **change)
    assert refusal(sealed, "--key", key_file, "--audit", path) == code
    assert envelope(sealed).read_bytes() == before


def test_an_audit_needs_a_key_and_room(sealed: Path, key_file: Path, tmp_path: Path) -> None:
    from hushdoc.certificate import audit_reports as audits

    path = report_file(tmp_path)
    with pytest.raises(SystemExit):
        run(sealed, "--message", tmp_path / "m", "--audit", path)
    for _ in range(audits.MAX_AUDITS):
        run(sealed, "--key", key_file, "--audit", path)
    assert refusal(sealed, "--key", key_file, "--audit", path) == "LIMIT_EXCEEDED"
