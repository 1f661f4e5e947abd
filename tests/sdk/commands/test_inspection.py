"""`hushdoc inspect` and `hushdoc verify`: what they say, and with which exit code."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import pytest
from hushdoc_command_runs import LIMITS

from hushdoc.__main__ import main
from hushdoc.certificate import certificate


def run(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


pytestmark = pytest.mark.usefixtures("patient_clock")


def test_inspecting_says_loudly_that_nothing_was_checked(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", sealed) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("!!! SIGNATURE NOT CHECKED")
    assert build.payload_digest(sealed) in shown
    assert max(len(line) for line in shown.splitlines()) <= 110
    assert "Files were not checked" in shown
    assert "NOT GUARANTEED" in shown
    assert "Not recomputed: no trust store was given" in " ".join(shown.split())
    assert "guarantee 0" not in shown
    assert run("inspect", sealed, "--recompute") == 0
    assert "guarantee 0: reproduced" in capsys.readouterr().out


def test_inspecting_with_a_trust_store(
    other_key: Any, sealed: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = sealed.parent / "page.html"
    assert run("inspect", sealed, "--trust", trust, "--html", page) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Signed by key 0")
    assert "Revocation was not checked." in shown
    assert "were revoked was not checked." in page.read_text("utf-8")
    assert "guarantee 0: reproduced" in shown
    trust.write_bytes(build.trust(other_key).to_json())
    assert run("inspect", sealed, "--trust", trust) == 4
    shown = capsys.readouterr().out
    assert "SIGNATURE NOT TRUSTED (NO_TRUSTED_SIGNATURE)" in shown
    assert "Not recomputed: no trusted key signed it" in " ".join(shown.split())
    trust.write_bytes(b"{}")
    assert run("inspect", sealed, "--trust", trust) == 3


def test_a_false_claim_is_shown_as_such(
    key: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    false = build.certify(build.guarantee(epsilon=1.0, profile=()))
    build.seal_anything(tmp_path / "a", key, certified=false)
    assert run("inspect", tmp_path / "a", "--recompute") == 0
    assert "NOT REPRODUCED (EPSILON_NOT_REPRODUCED)" in capsys.readouterr().out


@pytest.mark.parametrize("way", [(), ("--json",), ("--html", "page.html")])
def test_an_unknown_key_makes_nobody_work(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: tuple[str, ...]
) -> None:
    """However a certificate is looked at, its numbers are recomputed only when asked."""
    asked: list[str] = []
    honest = certificate.reproduce

    def reproduce(*given: Any, **options: Any) -> Any:
        asked.append("a certificate")
        return honest(*given, **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(certificate, "reproduce", reproduce)
    assert run("inspect", sealed, *way) == 0
    assert asked == []
    assert run("inspect", sealed, "--recompute", *way) == 0
    assert asked


def test_inspecting_as_json(sealed: Path, trust: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", sealed, "--trust", trust, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["signature"]["trusted"] is True
    assert found["filesChecked"] is False
    assert found["certificate"]["guarantees"][0]["unit"] == "document"
    assert found["recomputed"][0]["code"] is None
    assert found["notRecomputed"] is None
    assert run("inspect", sealed, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["signature"]["checked"] is False
    assert found["recomputed"] is None
    assert found["notRecomputed"].startswith("Not recomputed: ")


def test_pages_are_written(sealed: Path, trust: Path, tmp_path: Path) -> None:
    assert run("inspect", sealed, "--html", tmp_path / "one.html") == 0
    assert "Signature not checked" in (tmp_path / "one.html").read_text("utf-8")
    assert run("verify", sealed, "--trust", trust, *LIMITS, "--html", tmp_path / "two.html") == 0
    assert "Accepted: all" in (tmp_path / "two.html").read_text("utf-8")


def test_the_page_of_an_intact_artifact_says_why_no_number_was_recomputed(
    sealed: Path, trust: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert run("verify", sealed, "--trust", trust, "--integrity-only", "--html", page) == 0
    shown = page.read_text("utf-8")
    assert "The numbers were not recomputed" in shown
    assert "The policy demanded no privacy. Run" in shown
    assert "No trusted key signed them" not in shown


def test_what_is_no_artifact_is_exit_code_4(tmp_path: Path) -> None:
    assert run("inspect", tmp_path / "none") == 4
    assert run("inspect", tmp_path) == 4


def test_verifying_prints_every_rule(
    sealed: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", sealed, "--trust", trust, *LIMITS) == 0
    shown = capsys.readouterr().out
    assert shown.count("\nok ") == 22
    assert "recomputed fast: by Renyi accounting" in shown
    assert "0 audits, none above the claim" in shown
    assert "4 files checked" in shown
    assert shown.rstrip().endswith("ACCEPTED.")


def test_a_refusing_policy_is_exit_code_5(
    sealed: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = ("--max-epsilon", "1", "--max-delta", "1e-5", "--unit", "user")
    assert run("verify", sealed, "--trust", trust, *limits) == 5
    shown = capsys.readouterr().out
    assert "EPSILON_TOO_LARGE" in shown
    assert "UNIT_NOT_ACCEPTED" in shown
    assert "REFUSED: 2 of 22 rules failed." in shown
    assert run("verify", sealed, "--trust", trust, *limits, "--json") == 5
    assert json.loads(capsys.readouterr().out)["passed"] is False


class _Left(io.StringIO):
    """Standard output whose reader has had enough."""

    def write(self, text: str = "") -> int:
        raise BrokenPipeError

    flush = write  # type: ignore[assignment]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_reader_who_has_left_changes_no_result(
    other_key: Any,
    sealed: Path,
    trust: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: tuple[str, ...],
) -> None:
    monkeypatch.setattr(sys, "stdout", _Left())
    limits = ("--max-epsilon", "1", "--max-delta", "1e-5", "--unit", "user")
    assert run("verify", sealed, "--trust", trust, *LIMITS, *form) == 0
    assert run("verify", sealed, "--trust", trust, *limits, *form) == 5
    trust.write_bytes(build.trust(other_key).to_json())
    assert run("verify", sealed, "--trust", trust, *LIMITS, *form) == 4
    assert run("inspect", sealed, "--trust", trust, *form) == 4


def test_a_damaged_artifact_is_exit_code_4(
    sealed: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sealed / "labels.json").write_bytes(b"x")
    assert run("verify", sealed, "--trust", trust, *LIMITS) == 4
    assert run("verify", sealed, "--trust", trust, *LIMITS, "--json") == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "SIZE_MISMATCH"


@pytest.mark.parametrize("damaged", ["labels.json", "trust.json"])
def test_no_page_of_an_earlier_check_is_left_where_one_refuses(
    sealed: Path, trust: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damaged: str
) -> None:
    page = tmp_path / "page.html"
    verify = ("verify", sealed, "--trust", trust, *LIMITS, "--html", page)
    assert run(*verify) == 0
    assert "Accepted: all" in page.read_text("utf-8")
    (trust if damaged == trust.name else sealed / damaged).write_bytes(b"<x>")
    assert run(*verify) != 0
    shown = page.read_text("utf-8")
    assert "Refused: " in shown
    assert "Accepted" not in shown
    assert "<x>" not in shown
    capsys.readouterr()
    assert run(*verify, "--json") != 0
    assert json.loads(capsys.readouterr().out)["passed"] is False


def test_what_is_declared_public_counts_where_an_option_says_so(
    key: Any, tmp_path: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public = build.DataAccess(
        data="invoices", purpose="labels", accounted_in=(), treatment="declared-public"
    )
    accesses = (*build.claim().data_accesses, public)
    folder = build.seal(tmp_path / "public", key, build.certify(data_accesses=accesses))
    verify = ("verify", folder, "--trust", trust, *LIMITS)
    assert run(*verify) == 5
    assert "labels (declared-public)" in capsys.readouterr().out
    assert run(*verify, "--accept-treatment", "post-processing") == 5
    assert run(*verify, "--accept-treatment", "declared-public") == 0
    with pytest.raises(SystemExit) as ended:
        run(*verify, "--accept-treatment", "unaccounted")
    assert ended.value.code == 2


def test_why_a_rule_failed_is_printed_to_its_end(
    key: Any, tmp_path: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    purposes = (f"{'the names of all labels, ' * 8}read as outputs", "zeal of clerks, counted")
    public = tuple(
        build.DataAccess(
            data="invoices", purpose=purpose, accounted_in=(), treatment="declared-public"
        )
        for purpose in purposes
    )
    accesses = (*build.claim().data_accesses, *public)
    folder = build.seal(tmp_path / "public", key, build.certify(data_accesses=accesses))
    assert run("verify", folder, "--trust", trust, *LIMITS) == 5
    shown = " ".join(capsys.readouterr().out.split())
    for purpose in purposes:
        assert f"{purpose} (declared-public)" in shown


@pytest.fixture
def auditor(key: Any, other_key: Any) -> bytes:
    """A trust store in which the other key may sign audits."""
    keys = build.trust(other_key, roles=("audit",)).keys
    return build.TrustStore(keys=(*build.trust(key).keys, *keys)).to_json()


def test_audits_of_others_are_shown_if_they_are_trusted(
    other_key: Any, auditor: bytes, sealed: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build.append_audit(sealed, other_key)
    assert run("inspect", sealed) == 0
    assert "Lines that no trusted auditor signed: 1." in capsys.readouterr().out
    assert run("inspect", sealed, "--json") == 0
    assert json.loads(capsys.readouterr().out)["untrustedAudits"] == 1
    assert run("verify", sealed, "--trust", trust, *LIMITS) == 0
    shown = capsys.readouterr().out
    assert "Lines that no trusted auditor signed: 1." in shown
    assert "WHAT TRUSTED AUDITORS SIGNED" not in shown
    trust.write_bytes(auditor)
    for subcommand in (
        ("verify", sealed, "--trust", trust, *LIMITS),
        ("inspect", sealed, "--trust", trust),
    ):
        assert run(*subcommand) == 0
        shown = capsys.readouterr().out
        assert "WHAT TRUSTED AUDITORS SIGNED ABOUT IT\nthe tests, 2026-11-21T09:00:00Z:" in shown
        assert "Lines that no trusted auditor signed" not in shown
        assert run(*subcommand, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["audits"][0]["audits"][0]["epsilonLower"] == 0.5
        assert found["untrustedAudits"] == 0
        assert found["payloadSha256"] == build.payload_digest(sealed)
        page = sealed.parent / "page.html"
        assert run(*subcommand, "--html", page) == 0
        capsys.readouterr()
        assert "By the tests, 2026-11-21T09:00:00Z" in page.read_text("utf-8")


def test_an_audit_above_the_claim_refuses_and_says_by_which_rule(
    other_key: Any, auditor: bytes, sealed: Path, trust: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build.append_audit(sealed, other_key, build.audit_report(build.audit(epsilon_lower=9.0)))
    trust.write_bytes(auditor)
    assert run("verify", sealed, "--trust", trust, *LIMITS) == 5
    assert "AUDIT_CONTRADICTION" in capsys.readouterr().out


@pytest.mark.parametrize("way", ["fast", "exact", "offline"])
def test_which_engine_recomputed_is_said(
    sealed: Path, trust: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("verify", sealed, "--trust", trust, *LIMITS, "--recompute", way)
    assert run(*arguments) == 0
    assert f"recomputed {way}: by " in capsys.readouterr().out
    assert run(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["recompute"] == way


def test_identity_age_and_adversary_are_demanded(sealed: Path, trust: Path, tmp_path: Path) -> None:
    demand = ("verify", sealed, "--trust", trust, *LIMITS)
    assert run(*demand, "--adversary", "server") == 5
    assert run(*demand, "--model", "invoice-kie", "--min-version", "3") == 0
    assert run(*demand, "--model", "other") == 4
    assert run(*demand, "--min-version", "4") == 4
    assert run(*demand, "--max-age-days", "36500") == 0
    assert run(*demand, "--revocations", tmp_path / "none") == 4


def test_a_certificate_that_is_over_is_not_trusted_though_it_is_signed(
    key: Any, trust: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = build.certify(issued_at="2020-01-01T00:00:00Z", expires_at="2021-01-01T00:00:00Z")
    build.seal(tmp_path / "old", key, old)
    assert run("inspect", tmp_path / "old", "--trust", trust) == 4
    shown = capsys.readouterr().out
    assert "NOT TO BE TRUSTED (EXPIRED)" in shown
    assert "SIGNATURE NOT TRUSTED" not in shown


def test_a_policy_file_says_the_same(sealed: Path, trust: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'trust = "trust.json"\nmax_epsilon = 8\nmax_delta = 1e-5\nprivacy_units = ["document"]\n'
    )
    assert run("verify", sealed, "--policy", policy) == 0
    policy.write_text(policy.read_text().replace("= 8", "= 1"))
    assert run("verify", sealed, "--policy", policy) == 5
    policy.write_text("max_epsilon = 8")
    assert run("verify", sealed, "--policy", policy) == 3


def test_integrity_only_is_said(
    key: Any, trust: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build.seal(tmp_path / "n", key, build.certify(build.no_guarantee()))
    assert run("verify", tmp_path / "n", "--trust", trust, "--integrity-only") == 0
    assert "no privacy rule was checked" in capsys.readouterr().out


def test_no_text_of_a_certificate_steers_the_terminal(
    key: Any, trust: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build.seal(tmp_path / "h", key, build.hostile("x\x1b[2J\u202ey\rz"))
    for subcommand in (
        ("inspect", tmp_path / "h"),
        ("inspect", tmp_path / "h", "--json"),
        ("verify", tmp_path / "h", "--trust", trust, *LIMITS),
        ("verify", tmp_path / "h", "--trust", trust, *LIMITS, "--json"),
    ):
        run(*subcommand)
        shown = capsys.readouterr().out
        assert not {"\x1b", "\u202e", "\r"} & set(shown)
