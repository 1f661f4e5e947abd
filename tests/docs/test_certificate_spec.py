"""docs/certificate-spec.md, the sample's schema.json and the source say the same."""

from __future__ import annotations

import dataclasses
import json
import re
from functools import cache
from typing import Any

import pytest
from hushdoc_source_codes import ROOT, codes

from hushdoc.accounting import mechanism, pld
from hushdoc.accounting.mechanism import ClusterSampled, Composed, Gaussian, Grouped, PoissonSampled
from hushdoc.artifact import folder, manifest
from hushdoc.certificate import (
    audit_reports,
    certificate,
    claim,
    recompute,
    statement,
    subjects,
    vocabulary,
)
from hushdoc.errors import CertificateError
from hushdoc.policy.policy import Policy
from hushdoc.serialization import records as fields
from hushdoc.serialization import strict_json
from hushdoc.serialization.records import Codec
from hushdoc.signing import dsse, keys, revocation, trust_store

TEXT = (ROOT / "docs/certificate-spec.md").read_text("utf-8")
SCHEMA: dict[str, Any] = json.loads((ROOT / "samples/verify-js/schema.json").read_text("utf-8"))
EVENTS = {f"event {name}": cls for cls, name in mechanism._NAMES.items()}
RECORDS: dict[str, type[fields.Record]] = {
    "model": certificate.ModelIdentity,
    "protectedData": claim.ProtectedData,
    "protectedUnit": claim.ProtectedUnit,
    "publicData": claim.PublicData,
    "dataAccess": claim.DataAccess,
    "guarantee": claim.Guarantee,
    "accountant": claim.Accountant,
    "preRegisteredAudit": audit_reports.PreRegisteredAudit,
    "audit": audit_reports.Audit,
    "auditReport": audit_reports.AuditReport,
    "manifest": manifest._Manifest,
    "revocation list": revocation.RevocationList,
    "revokedKey": revocation.RevokedKey,
    "revokedCertificate": revocation.RevokedCertificate,
    **EVENTS,
}
WORDS: dict[str, tuple[str, ...]] = {
    "STATEMENT": (audit_reports.STATEMENT_TYPE,),
    "CERTIFICATE": (statement.PREDICATE_TYPE,),
    "AUDIT": (audit_reports.AUDIT_PREDICATE_TYPE,),
    "AUDIT_SUBJECT": (audit_reports.SUBJECT_NAME,),
    "ALGORITHM": keys.ALGORITHMS,
    "ROLE": trust_store.ROLES,
    "ASSURANCE": vocabulary.ASSURANCES,
    "TASK": certificate.TASKS,
    "FORMAT": certificate.FORMATS,
    "RELEASE": claim.RELEASES,
    "UNIT": vocabulary.PRIVACY_UNITS,
    "OVERLAP": claim.OVERLAPS,
    "TREATMENT": claim.TREATMENTS,
    "COVERED": claim.COVERED_TREATMENTS,
    "ADVERSARY": vocabulary.ADVERSARIES,
    "AGGREGATION": claim.AGGREGATIONS,
    "KIND": vocabulary.KINDS,
    "ADJACENCY": mechanism.ADJACENCIES,
    "ACCOUNTANT": vocabulary.ACCOUNTANTS,
    "CERTIFYING": tuple(
        name for name in vocabulary.ACCOUNTANTS if name in recompute.CERTIFYING_ACCOUNTANTS
    ),
    "SAMPLING": vocabulary.SAMPLINGS,
    "CLUSTER_SAMPLING": vocabulary.CLUSTER_SAMPLINGS,
    "TUNING": vocabulary.TUNINGS,
    "RNG": vocabulary.RNGS,
    "REPETITION": mechanism.REPETITIONS,
}
SOUND_AND_NOT: dict[str, tuple[list[Any], list[Any]]] = {
    "text": (["a", "x" * fields.MAX_TEXT], ["", "x" * (fields.MAX_TEXT + 1), 1, None]),
    "boolean": ([True, False], [0, 1, "true", None]),
    "time": (["2026-11-21T08:00:00Z"], ["2026-02-30T00:00:00Z", "2026-11-21 08:00:00", 5, None]),
    "one": ([1], [0, 2, 1.0, True, "1", None]),
    "integer": ([0, 7], [-1, 1.0, True, "1", None]),
    "positive": ([1, 9], [0, 1.0, True, None]),
    "number": ([0, 2.5, 10**6], [-1, -0.1, True, "1", None]),
    "share": ([0, 1, 0.5], [1.5, -0.1, True, None]),
    "fromOne": ([1, 2.5], [0.5, 0, True, None]),
    "point": ([[9, 0.5]], [[1], [1, 0.5, 0.5], [1, 1.5], [-1, 0.5], {}]),
    "rates": ([[0.5, 1]], [[1.5, 0.5], [0.5], [0.5, True]]),
    "step": (
        [{"step": "a", "dataDependent": False, "more": 1}],
        [{"step": "a"}, {"step": "", "dataDependent": False}, {"step": "a", "dataDependent": 0}],
    ),
    "any": ([1, None, {}], []),
    "event": (
        [{"type": "gaussian", "noiseMultiplier": 1}],
        [{"type": "laplace"}, {"type": "gaussian"}, {"noiseMultiplier": 1}, "gaussian"],
    ),
    "ID": (["0a" * 16], ["0a" * 15, "0A" * 16, "0g" * 16, None]),
    "HEX": (["0a" * 32], ["0a" * 31, "0A" * 32, None]),
    "SHA256": (["sha256:" + "0a" * 32], ["0a" * 32, "sha256:" + "0A" * 32, None]),
    "COMMITMENT": (["salted-sha256:" + "0a" * 32], ["sha256:" + "0a" * 32, "0a" * 32]),
}


@cache
def tables() -> dict[str, dict[str, str]]:
    """Returns each record of the page: its keys with their types."""
    found = {}
    for part in re.split(r"^#### `", TEXT, flags=re.MULTILINE)[1:]:
        part = re.split(r"^## ", part, flags=re.MULTILINE)[0]
        rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|.*\|$", part, flags=re.MULTILINE)
        name = part.partition("`")[0]
        assert name not in found
        assert len({key for key, _ in rows}) == len(rows)
        found[name] = dict(rows)
    return found


def section(number: int) -> str:
    return re.split(r"^## ", TEXT, flags=re.MULTILINE)[number]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def test_the_sample_has_the_keys_of_the_page() -> None:
    """The sample may read fewer records, and have more of its own; types are held to the source."""
    records = {name: item["record"] for name, item in SCHEMA.items() if "record" in item}
    shared = records.keys() & tables().keys()
    assert shared >= {"statement", "predicate", "guarantee", "dataAccess", "audit", *EVENTS}
    for name in shared:
        assert records[name].keys() == tables()[name].keys(), name


def test_the_page_has_the_words_of_the_source_and_so_has_the_sample() -> None:
    vocabularies = section(6).partition("| vocabulary | words |")[2]
    rows = re.findall(r"^\| `([A-Z_]+)` \| (`.*) \|$", vocabularies, flags=re.MULTILINE)
    page = {name: tuple(re.findall("`([^`]+)`", words)) for name, words in rows}
    assert page == WORDS
    sample = {name: tuple(item["words"]) for name, item in SCHEMA.items() if "words" in item}
    for name in sample.keys() & WORDS.keys():
        assert sample[name] == WORDS[name], name


def _codecs(name: str) -> dict[str, Codec[Any]]:
    """How the source reads the fields of a record."""
    if name == "predicate":
        head = {key: codec for _, key, codec in certificate._HEAD}
        return head | _of(claim.Claim)
    return _of(RECORDS[name])


def _of(cls: type[fields.Record]) -> dict[str, Codec[Any]]:
    return {
        fields.camel(field.name): field.metadata["codec"]
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
    }


def _refuses(codec: Codec[Any], value: Any) -> bool:
    try:
        codec.read(value, "here")
    except CertificateError:
        return True
    return False


def _agrees(codec: Codec[Any], kind: str) -> None:
    """Raises unless a field of the source takes what a type of the page takes, and no more."""
    inner = kind.removesuffix("?").removesuffix("*").removesuffix("%")
    words = WORDS.get(inner)
    if words:
        sound, unsound = list(words), ["", "another word", words[0].upper(), 1]
    elif inner in SOUND_AND_NOT:
        sound, unsound = SOUND_AND_NOT[inner]
    else:
        assert inner in RECORDS
        sound, unsound = [], [{}, "a", [], {"more": 1}]
    wrap = {"*": lambda value: [value], "%": lambda value: {"key": value}}.get(
        kind[-1], lambda value: value
    )
    for value in sound:
        assert not _refuses(codec, wrap(value)), (kind, value)
    for value in unsound:
        if not (kind.endswith("?") and value is None):
            assert _refuses(codec, wrap(value)), (kind, value)
    assert _refuses(codec, None) == (kind[-1] != "?" and kind != "any")
    if kind[-1] in "*%":
        assert not _refuses(codec, wrap(0) and type(wrap(0))())
        assert _refuses(codec, "a")


@pytest.mark.parametrize("name", ["predicate", *RECORDS])
def test_the_source_reads_the_fields_of_the_page(name: str) -> None:
    declared = dict(tables()[name])
    version = (
        {"schemaVersion"} if name in ("predicate", "auditReport", "revocation list") else set()
    )
    event_type = {"type"} if name in EVENTS else set()
    codecs = _codecs(name)
    assert declared.keys() - version - event_type == codecs.keys()
    for key, codec in codecs.items():
        kind = declared[key]
        # The manifest's version has an error code of its own.
        _agrees(codec, "positive" if (name, key) == ("manifest", "formatVersion") else kind)


def test_every_event_is_explained() -> None:
    assert first_column(section(7))[: len(EVENTS)] == list(mechanism._CLASSES)


def test_the_trust_store_has_the_keys_of_the_page() -> None:
    key = trust_store.TrustedKey.of(keys.generate_key(), name="a key")
    store = trust_store.TrustStore.of([key])
    remembering = dataclasses.replace(store, revoked_revokers=frozenset({key.keyid}))
    fewer, data = (json.loads(made.to_json()) for made in (store, remembering))
    assert data.keys() == tables()["trust store"].keys()
    assert data.keys() - fewer.keys() == {"revokedRevokers"}
    assert data["keys"][0].keys() == tables()["key"].keys()
    assert (fewer["version"], data["version"]) == (2, 3)
    assert SCHEMA["version 2"]["record"].keys() == fewer.keys()
    assert SCHEMA["version else"]["record"].keys() == data.keys()


def test_the_policy_has_the_settings_of_the_page() -> None:
    table = section(12).partition("The rules below")[0]
    settings = {item.name: item for item in dataclasses.fields(Policy) if item.init}
    assert set(first_column(table)) == set(settings)
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", table, flags=re.MULTILINE))
    for name, item in settings.items():
        default, declared = item.default, rows[name]
        if default is dataclasses.MISSING or name == "revocations":
            assert declared == "none"
        elif isinstance(default, frozenset):
            all_of_them = default == set(WORDS["CERTIFYING"])
            assert all_of_them or set(re.findall("`([^`]+)`", declared)) == default
        elif isinstance(default, str):
            assert declared == f"`{default}`"
        else:
            words = {"None": "any", "True": "true", str(2**30): "2^30"}
            assert declared == words.get(str(default), str(default))


@pytest.mark.parametrize(
    "phrase",
    [
        f"at most {subjects.MAX_NAME}\ncharacters and {subjects.MAX_SEGMENTS} segments",
        f"more than {folder.MAX_LINKS} links",
        f"more than {strict_json.MAX_DEPTH} lists and objects",
        f"more than {strict_json.MAX_BYTES // 1024} KiB ({dsse.MAX_ENVELOPE_BYTES // 1024} KiB",
        f"Up to {audit_reports.MAX_AUDITS} further lines",
        f"at most\n{audit_reports.MAX_AUDIT_BYTES // 1024} KiB each",
        f"There are 0 to {dsse.MAX_SIGNATURES} signatures",
        f"1 to {fields.MAX_TEXT} Unicode",
        f"at most {fields.MAX_ITEMS} T",
        f"1 to {claim.MAX_GUARANTEES}, one for each",
        f"At most {claim.MAX_POINTS} more points",
        f"`event%` | At most {claim.MAX_TRANSCRIPTS}",
        f"most {mechanism.MAX_NODES:,} events, at most {mechanism.MAX_DEPTH} of them",
        f"`{revocation.PAYLOAD_TYPE}`",
        f"at most {int(certificate.CLOCK_TOLERANCE.total_seconds() // 60)} minutes ahead",
        f"{certificate.EARLIEST_CLOCK[:10]} to\n   {certificate.LATEST_CLOCK[:10]}",
        manifest.CERTIFICATE_ID_KEY,
        f"`{manifest.TABLE_KEY}`",
        "0x" + f"{keys._ORDER_EIGHT_Y:064x}",
        *sorted(f"`{name}`" for name in folder.UNSIGNED_FILES),
    ],
)
def test_limits_and_names_are_those_of_the_source(phrase: str) -> None:
    words = r"\s+".join(map(re.escape, phrase.split()))
    assert re.search(words, TEXT), phrase


STEPS = Composed(
    event=PoissonSampled(sampling_rate=1 / 7, event=Gaussian(noise_multiplier=1.5013)), count=350
)
CLUSTERS = Composed(
    event=ClusterSampled(sampling_rate=0.2, event=Gaussian(noise_multiplier=0.771484375)), count=10
)


@pytest.mark.parametrize(
    ("event", "delta", "declared"),
    [
        (STEPS, 1 / 389, "7.002"),
        (CLUSTERS, 1e-5, "14.46"),
        (Grouped(size=8, event=STEPS), 1 / 389, "167.5"),
    ],
)
def test_known_answers_are_known(event: mechanism.Mechanism, delta: float, declared: str) -> None:
    assert f": {declared}." in section(8) or f": {declared}" in section(8)
    assert pld.epsilon(event, delta) == pytest.approx(float(declared), rel=5e-4)


def test_every_code_stands_in_the_page_and_no_other() -> None:
    table, _, others = section(14).partition("Codes of hushdoc's library")
    declared = first_column(table)
    beside = re.findall("`([A-Z0-9_]+)`", others)
    assert len(declared) + len(beside) == len({*declared, *beside})
    assert {*declared, *beside} == codes("sdk/hushdoc")
    rules = section(12)
    unexplained = re.findall(r"^\| `([A-Z_]+)` \| \|$", table, flags=re.MULTILINE)
    assert unexplained
    assert all(f"`{code}`" in rules for code in unexplained)


def test_codes_that_are_spoken_of_are_codes() -> None:
    spoken = set(re.findall("`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", TEXT))
    assert spoken <= codes("sdk/hushdoc") | WORDS.keys()
