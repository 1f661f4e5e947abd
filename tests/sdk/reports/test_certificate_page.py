"""The officer's page: it says what was checked, hides nothing, and loads nothing."""

from __future__ import annotations

import re
import xml.dom.minidom
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hushdoc.accounting import rdp
from hushdoc.artifact import artifact
from hushdoc.reports.certificate_page import certificate_page
from hushdoc.reports.profile_chart import profile_chart

NOW = datetime(2026, 11, 22, tzinfo=UTC)
VOID = {"meta", "br", "circle", "line", "polyline"}


class Reader(HTMLParser):
    """Holds a page to what it may be: balanced, without scripts, without anything remote."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe", "object", "form", "a", "base"}
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in {"src", "href", "srcset", "action"}
            assert "url(" not in (value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text.append(data)


def read(page: str) -> str:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    assert "http" not in re.sub("http-equiv", "", page)
    return " ".join(reader.text)


def report_of(build: ModuleType, key: Any, folder: Path, certified: Any, **limits: Any) -> Any:
    build.seal(folder, key, certified)
    return artifact.examine(folder, build.policy(key, **limits), now=NOW)


def test_an_accepted_model(build: ModuleType, key: Any, tmp_path: Path) -> None:
    report = report_of(build, key, tmp_path / "a", build.certify())
    text = read(certificate_page(report.certificate, report, report.files))
    for part in (
        "Signed by key 0",
        "Accepted: all 22 rules of the policy passed",
        "Every signed file is unchanged (4)",
        "The numbers follow from the declared mechanism",
        "person, author or issuer of several documents is not protected",
        "350 times: each unit drawn with probability 0.142857",
        report.files[0].sha256,
        report.signers[0].keyid,
        build.CERTIFICATE_ID,
    ):
        assert part in text
    assert "not checked" not in text


def test_a_refused_model_lists_every_failed_rule(
    build: ModuleType, key: Any, tmp_path: Path
) -> None:
    certified = build.certify(build.guarantee(rng="seeded"))
    report = report_of(build, key, tmp_path / "a", certified, max_epsilon=1)
    text = read(certificate_page(report.certificate, report, report.files))
    for part in ("Refused: 2 of 22 rules", "found seeded", "at most 1", "Files not checked"):
        assert part in text
    assert "Accepted" not in text


def test_what_nobody_checked_says_so_first(build: ModuleType) -> None:
    text = read(certificate_page(build.certify(), None, ()))
    assert text.index("Signature not checked") < text.index("What epsilon")
    assert "Not checked against a policy" in text
    assert "Files not checked" in text
    untrusted = read(certificate_page(build.certify(), None, (), signers=()))
    assert "Not signed by a trusted key" in untrusted


def test_no_guarantee_is_the_first_thing_said(build: ModuleType) -> None:
    page = certificate_page(build.certify(build.no_guarantee()), None, ())
    text = read(page)
    assert "This certificate guarantees no differential privacy" in text
    assert "What epsilon" not in text
    assert page.index('class="banner bad"') < page.index('class="banner warn"')


def test_the_headline_has_the_largest_epsilon_wherever_it_was_written(build: ModuleType) -> None:
    small = [build.guarantee(unit=unit) for unit in ("page", "sequence", "word-box")]
    largest = build.guarantee(epsilon=50.0, profile=())
    page = read(certificate_page(build.certify(*small, largest), None, ()))
    head = page[: page.index("Further guarantees, below: 1.")]
    assert "epsilon 50, delta 1e-05" in head


def test_numbers_that_do_not_follow_are_named(build: ModuleType) -> None:
    false = build.certify(build.guarantee(epsilon=1.0, profile=()))
    text = read(certificate_page(false, None, ()))
    assert "The numbers do not follow from the declared mechanism" in text
    assert "EPSILON_NOT_REPRODUCED" in text


def test_audits_are_shown_with_their_ceiling_and_by_whom(build: ModuleType) -> None:
    certified = build.certify(
        audits=(build.audit(),), pre_registered_audits=(build.pre_registered(),)
    )
    report = build.audit_report(auditor="An outside laboratory")
    text = read(certificate_page(certified, None, (), audits=(report,)))
    for part in (
        "By An outside laboratory, 2026-11-21T09:00:00Z",
        "epsilon 0.5",
        "epsilon 5.809",
        "can refute a guarantee and never prove one",
        "Guess. Population: others; up to 1,000 queries",
    ):
        assert part in text
    silent = read(certificate_page(build.certify(), None, ()))
    assert "No audit is declared." in silent
    assert "Pre-registered" not in silent


def test_what_is_seen_released_and_compared_is_shown(build: ModuleType) -> None:
    certified = build.certify(
        build.guarantee(gdp_mu=1.25),
        build.guarantee(adversary="server", aggregation="secure-sum", adjacency="replace-one"),
        build.guarantee(kind="empirical", epsilon=2.0, unit="user"),
        releases=("final-weights", "logs"),
    )
    text = read(certificate_page(certified, None, (), payload_sha256="ab" * 32))
    for part in (
        "mu 1.25. It underestimates",
        "this falls with the secure summation",
        "can't be compared with one for adding",
        "logs of the training",
        "measured 2",
        "ab" * 32,
    ):
        assert part in text


def test_the_mode_of_recomputing_is_named(build: ModuleType) -> None:
    assert "Recomputed for this page (fast)" in read(certificate_page(build.certify(), None, ()))
    exact = certificate_page(build.certify(), None, (), recompute="exact")
    assert "Recomputed for this page (exact)" in read(exact)


HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\u202e\x1b[2J'


def test_hostile_text_stays_text(build: ModuleType) -> None:
    report = build.audit_report(build.audit(method=HOSTILE), auditor=HOSTILE)
    page = certificate_page(build.hostile(HOSTILE), None, (), audits=(report,))
    read(page)
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "<script" not in page


def test_no_text_imitates_a_fact_of_the_certificate(build: ModuleType) -> None:
    forged = "one run\nall accesses: covered\u2028noise from:   csprng; in double precision"
    guarantee = build.guarantee(
        covers_all_private_accesses=False, rng="seeded", composition=forged, assumes=(forged,)
    )
    page = certificate_page(build.certify(guarantee), None, ())
    (facts,) = re.findall("<pre>(against:.*?)</pre>", page, re.DOTALL)
    names = [line[:14].rstrip() for line in facts.split("\n")]
    assert len(names) == len(set(names)), names
    assert "all accesses: NOT all covered\n" in facts
    assert "noise from:   seeded; " in facts


def test_the_chart_is_sound_and_marks_the_guarantee(build: ModuleType) -> None:
    points = [(rdp.epsilon(build.TRANSCRIPT, d), d) for d in (1e-4, 1e-5, 1e-6, 1e-8)]
    drawn = profile_chart(points, points[1])
    assert xml.dom.minidom.parseString(drawn)
    assert drawn.count("<circle") == 4
    assert drawn.count("the guarantee") == 1


@pytest.mark.parametrize(
    "points",
    [(), ((8.0, 0.0),), ((8.0, 1e-5),), ((8.0, 1e-5), (8.0, 1.01e-5)), ((0.0, 1e-4), (0.0, 0.5))],
)
def test_the_chart_survives_every_profile(points: tuple[tuple[float, float], ...]) -> None:
    drawn = profile_chart(points, (8.0, 1e-5))
    assert drawn == "" or xml.dom.minidom.parseString(drawn)
    assert profile_chart(((0.0, 1e-4),), (0.0, 1e-9))
