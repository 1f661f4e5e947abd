"""The browser sample in headless Chromium answers and refuses as hushdoc does, and asks nobody.

One run of the browser goes through everything; the tests look at what it showed.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hushdoc_builders as build
import hushdoc_pdf_files
import hushdoc_tiny
import numpy as np
import pytest

import hushdoc
from hushdoc.document.document import Document
from hushdoc.explanation.guarantees import guarantee_words, meaning
from hushdoc.hashing import FeatureScheme
from hushdoc.runtime.hashed.model import HashedCRFModel
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc_export.release import Release
from hushdoc_export.table import seal_table
from hushdoc_training import invented
from hushdoc_training.table_checkpoint import TableCheckpoint

ROOT = Path(__file__).parents[2]
SAMPLES, SAMPLE = ROOT / "samples", ROOT / "sdk" / "hushdoc" / "sample"
PAGE, CERTIFICATES = SAMPLES / "browser", SAMPLES / "certificates"
EXPECTED = json.loads((CERTIFICATES / "expected.json").read_text("utf-8"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DOCUMENTS = 16
RULES = ("policy.json", "trust.json")
TEXT = "Acme Corp signs. The laws of Utah govern it.\n1. Term. It lasts, e.g. for a year.\n" * 9
RUNTIME = "onnxruntime-web"

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(
        not (PAGE / "node_modules" / "playwright-core").is_dir(),
        reason="the page's modules are not installed: npm ci --prefix samples/browser",
    ),
]

Json = Any


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _lower_epsilon(model: Path) -> None:
    path = model / "privacy.intoto.jsonl"
    envelope = json.loads(path.read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["predicate"]["guarantees"][0]["epsilon"] = 1.0
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    path.write_text(json.dumps(envelope) + "\n")


def _rename_fields(model: Path) -> None:
    path = model / "labels.json"
    path.write_text(path.read_text().replace("phone", "total"))


CHROMIUM_S_OWN = {"update.googleapis.com", "accounts.google.com", "android.clients.google.com"}
"""What Debian's Chromium asks by itself whatever it shows; here it finds none of them."""

ELSEWHERE = "http://127.0.0.1:9/"
ASK_ELSEWHERE = f"""new Promise((done) => {{
  self.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
  fetch('{ELSEWHERE}').catch((problem) => setTimeout(() => done(String(problem)), 2000));
}})"""
"""What the page and its workers are made to ask, which the Content-Security-Policy forbids."""

TAMPERED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a bit of the weights": ("DIGEST_MISMATCH", lambda m: _flip(m / "onnx/model_int8.onnx")),
    "names of fields": ("DIGEST_MISMATCH", _rename_fields),
    "a lower epsilon": ("NO_TRUSTED_SIGNATURE", _lower_epsilon),
    "one file more": ("UNLISTED_FILE", lambda m: (m / "run.js").write_text("1")),
    "one file less": ("ENOENT", lambda m: (m / "tokenizer.json").unlink()),
    "no certificate": ("ENOENT", lambda m: (m / "privacy.intoto.jsonl").unlink()),
}


def _table(folder: Path) -> tuple[Path, list[str], HashedCRFModel]:
    """Returns a sealed table of clauses, the files of a policy that accepts it, and its model."""
    key = keys.generate_key()
    scheme, tags = FeatureScheme(rows=3001, seed=5), ("O", "law", "term")
    random = np.random.default_rng(1)
    table = TableCheckpoint(
        weights=random.normal(size=(scheme.rows, 3)).astype(np.float32),
        transitions=random.normal(size=(3, 3)),
        tags=tags,
        scheme=scheme,
        claim=build.claim(),
    )
    release = Release(key=key, name="contracts", issuer="the tests")
    model = seal_table(folder / "table", table, release, dtype="int8")
    trust = TrustStore.of([TrustedKey.of(key, name="trusted")])
    loaded = HashedCRFModel.load(model, policy=build.policy(key))
    return model, _rules(folder, trust), loaded


def _synthetic(folder: Path) -> Path:
    """Returns a sealed set of synthetic documents, which is no model."""
    content, (key, task) = build.files(), (build.known_key(1), "synthetic-documents")
    manifest = json.dumps({**build.MANIFEST, "task": task}).encode()
    identity = build.ModelIdentity(
        name="pages", version=1, task=task, format="safetensors", entry=build.ENTRY
    )
    content["hushdoc.json"] = manifest
    return build.seal(folder, key, build.certify(model=identity), contents=content)


def _rules(folder: Path, trust: TrustStore) -> list[str]:
    """Writes a policy for the page that trusts these keys, and returns its files."""
    folder.mkdir(exist_ok=True)
    (folder / "trust.json").write_bytes(trust.to_json())
    limits = {"max_epsilon": 8, "max_delta": 1e-5, "privacy_units": ["document"]}
    (folder / "policy.json").write_text(json.dumps(limits))
    return [str(folder / name) for name in RULES]


@contextmanager
def _served() -> Iterator[str]:
    """Yields the address of the samples' folder, served as docs/applications.md says."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--directory", SAMPLES],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        yield "http://127.0.0.1:" + server.stdout.readline().split(" port ")[1].split()[0]
        server.terminate()


def _drive(address: str, steps: list[list[str]], *more: str) -> Json:
    done = subprocess.run(
        ["node", Path(__file__).parent / "drive_browser.mjs"],
        input=json.dumps(
            {
                "modules": str(PAGE),
                "chromium": CHROMIUM,
                "address": address,
                "more": [
                    "--host-resolver-rules=MAP plain.test 127.0.0.1, MAP *.google*.com ~NOTFOUND",
                    *more,
                ],
                "steps": steps,
            }
        ),
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@dataclasses.dataclass(frozen=True)
class Session:
    """What the browser showed, by the names of the steps, and all that it requested."""

    address: str
    shown: dict[str, Json]
    requests: list[str]
    problems: list[str]
    network: Path
    documents: list[Document]
    table: HashedCRFModel


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("browser")
    config = invented.InventedConfig(document_types=("invoice",), providers=(30_500, 32_000))
    documents = [
        item.document for item in invented.documents(seed=21, count=DOCUMENTS, config=config)
    ]
    (folder / "text.txt").write_text(TEXT)
    steps: dict[str, list[str]] = {"open": ["open", "/browser/"]}
    for name, (_, change) in TAMPERED.items():
        model = shutil.copytree(SAMPLE / "model", folder / name.replace(" ", "-"))
        change(model)
        steps[name] = ["model", str(model)]
    steps["sample"] = ["model", str(SAMPLE / "model")]
    for number, document in enumerate(documents):
        (folder / f"{number}.json").write_text(json.dumps(document.to_dict()))
        steps[f"document {number}"] = ["document", str(folder / f"{number}.json")]
    steps["pdf"] = ["document", str(SAMPLE / "invoice.pdf")]
    written = [hushdoc_pdf_files.shown("Total 9.50"), b""]
    for name, pages in {"half": written, "bare": written[1:], "long": written * 26}.items():
        (folder / f"{name}.pdf").write_bytes(hushdoc_pdf_files.file(pages))
        steps[name] = ["document", str(folder / f"{name}.pdf")]
    (folder / "torn.json").write_text("{")
    steps["overtaken"] = ["overtaken", *(str(folder / f"{number}.json") for number in (0, 1))]
    steps["torn"] = ["document", str(folder / "torn.json")]
    steps["dropped file"] = ["drop", "#model-drop", str(SAMPLE / "model/hushdoc.json")]
    tampered = folder / next(iter(TAMPERED)).replace(" ", "-")
    steps["dropped tampered"] = ["drop", "#model-drop", str(tampered)]
    steps["dropped model"] = ["drop", "#model-drop", str(SAMPLE / "model")]
    steps["dropped document"] = ["drop", "#document-drop", str(SAMPLE / "invoice.pdf")]
    steps["worker"] = ["workers", ASK_ELSEWHERE]
    steps["page"] = ["run", ASK_ELSEWHERE]
    table, files, loaded = _table(folder)
    steps["table rules"] = ["rules", *files]
    steps["table"] = ["model", str(table)]
    steps["text"] = ["document", str(folder / "text.txt")]
    steps["exact rules"] = ["rules", *_rules(folder / "exact", hushdoc_tiny.TRUST)]
    steps["exact model"] = ["model", str(hushdoc_tiny.sealed())]
    for number in range(DOCUMENTS):
        steps[f"exact {number}"] = ["document", str(folder / f"{number}.json")]
    steps["synthetic rules"] = ["rules", *_rules(folder / "pages", build.trust(build.known_key(1)))]
    steps["synthetic"] = ["model", str(_synthetic(folder / "pages" / "set"))]
    steps["rules without policy"] = ["rules", str(CERTIFICATES / "trust.json")]
    steps["no policy"] = ["model", str(CERTIFICATES / "fl-provider-dp")]
    steps["rules"] = ["rules", *(str(CERTIFICATES / name) for name in RULES)]
    for name in EXPECTED:
        steps[f"chosen {name}"] = ["model", str(CERTIFICATES / name)]
    steps["served"] = ["served", "../certificates/fl-provider-dp"]
    steps["served from elsewhere"] = ["served", f"{ELSEWHERE}model"]
    network = folder / "network.json"
    with _served() as address:
        plain = address.replace("127.0.0.1", "plain.test")
        steps["insecure"] = ["open", f"{plain}/browser/"]
        steps["without"] = ["without", "WebAssembly"]
        steps["lacking"] = ["open", "/browser/"]
        found = _drive(address, list(steps.values()), f"--log-net-log={network}")
    shown = dict(zip(steps, found["found"], strict=True))
    requests, problems = found["requests"], found["problems"]
    return Session(address, shown, requests, problems, network, documents, loaded)


def _fields(shown: Json) -> list[tuple[str, str, Any]]:
    return [
        (item["label"], item["text"], json.loads(item["place"])[1])
        for item in shown["fields"]
        if "label" in item
    ]


def test_fields_of_a_layout_model_are_those_of_hushdoc(session: Session) -> None:
    """Of a model whose sums are rounded to bytes, where another order of adding up can show.

    One label in a thousand may fall to the other side of such a rounding.
    """
    policy = hushdoc.Policy.from_toml(SAMPLE / "policy.toml")
    model = hushdoc.KIEModel.load(SAMPLE / "model", policy=policy)
    number_of_fields = others = 0
    for number, document in enumerate(session.documents):
        shown = session.shown[f"document {number}"]
        answer = model.extract(document)
        expected = [*answer.fields, *answer.below_threshold]
        known = {(x.label, x.text, x.word_ids): x.score for x in answer.fields}
        known |= {(x.label, x.text, x.word_ids): x.score for x in answer.below_threshold}
        found = {
            (label, text, tuple(words)): float(item["score"])
            for (label, text, words), item in zip(_fields(shown), shown["fields"], strict=True)
        }
        others += len(known.keys() ^ found.keys())
        for field in known.keys() & found.keys():
            assert found[field] == pytest.approx(known[field], abs=0.01)
        assert [item["isSure"] for item in shown["fields"]] == [
            model.scoring.accepts(float(item["score"])) for item in shown["fields"]
        ]
        assert shown["boxes"] == len(shown["fields"])
        number_of_fields += len(expected)
    assert number_of_fields > 10 * DOCUMENTS
    assert others <= number_of_fields / 250


def test_fields_of_a_layout_model_in_float32_are_the_same(session: Session) -> None:
    model = hushdoc.KIEModel.load(hushdoc_tiny.sealed(), policy=hushdoc_tiny.policy())
    assert session.shown["exact model"]["verdict"] == "Accepted"
    number_of_fields = 0
    for number, document in enumerate(session.documents):
        answer = model.extract(document)
        expected = [*answer.fields, *answer.below_threshold]
        found = _fields(session.shown[f"exact {number}"])
        assert {(label, text, tuple(words)) for label, text, words in found} == {
            (field.label, field.text, field.word_ids) for field in expected
        }
        number_of_fields += len(expected)
    assert number_of_fields > DOCUMENTS


def test_clauses_by_a_table_are_those_of_hushdoc(session: Session) -> None:
    shown = session.shown["text"]
    found = session.table.extract(Document.from_text(TEXT)).fields
    assert [item[:2] for item in _fields(shown)] == [(item.label, item.text) for item in found]
    assert shown["marks"] == len(found) > 3
    assert not any(RUNTIME in name for name in session.shown["table"]["requested"])


def test_a_pdf_file_is_read_and_its_fields_are_drawn(session: Session) -> None:
    shown = session.shown["pdf"]
    found = {(label, text) for label, text, _ in _fields(shown)}
    assert {("provider_name", "STRATBURG GLASS LTD."), ("total", "£18,319.12")} <= found
    assert shown["boxes"] == len(shown["fields"]) > 25


def test_what_was_not_read_of_a_pdf_file_is_said(session: Session) -> None:
    said = " Without words, so not read: page {}. Text in images is not read here."
    for name, number in (("half", 2), ("bare", 1)):
        assert session.shown[name]["status"].endswith(said.format(number))
    assert session.shown["pdf"]["status"].endswith(" s, in this browser.")
    assert session.shown["long"]["status"] == (
        "long.pdf can't be read: it has 52 pages; at most 50 are read here"
    )
    assert session.shown["long"]["pages"] == 0


def test_nothing_of_one_document_is_shown_under_the_name_of_another(session: Session) -> None:
    late = session.shown["overtaken"]
    assert late.pop("name") == "1.json"
    assert late["fields"] == session.shown["document 1"]["fields"]
    assert late["fields"] != session.shown["document 0"]["fields"]
    torn = session.shown["torn"]
    assert torn["status"].startswith("torn.json can't be read: ")
    assert (torn["pages"], torn["fields"]) == (0, [])


def test_what_is_dropped_is_what_is_chosen(session: Session) -> None:
    assert session.shown["dropped file"]["status"] == "Drop the whole folder of an artifact."
    assert session.shown["dropped tampered"]["lines"][0] == "DIGEST_MISMATCH"
    dropped, chosen = session.shown["dropped model"], session.shown["sample"]
    for part in ("verdict", "lines", "further"):
        assert dropped[part] == chosen[part]
    dropped, chosen = session.shown["dropped document"], session.shown["pdf"]
    assert dropped["fields"] == chosen["fields"]
    assert dropped["boxes"] == chosen["boxes"]


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_artifact_is_refused_before_there_is_a_session(
    session: Session, name: str
) -> None:
    shown = session.shown[name]
    assert (shown["verdict"], shown["lines"][0]) == ("Refused", TAMPERED[name][0])
    assert not any(RUNTIME in requested for requested in shown["requested"])
    assert any(RUNTIME in requested for requested in session.shown["sample"]["requested"])


@pytest.mark.parametrize("name", EXPECTED)
def test_every_example_is_accepted_or_refused_as_by_hushdoc(session: Session, name: str) -> None:
    shown = session.shown[f"chosen {name}"]
    assert shown["verdict"] == ("Accepted" if EXPECTED[name]["accepted"] else "Refused")
    if not EXPECTED[name]["accepted"]:
        assert shown["lines"][0].split() == EXPECTED[name]["codes"]


def test_an_artifact_of_the_page_s_own_site_is_read_by_its_address(session: Session) -> None:
    """The page's own policy knows another key, which is said after the certificate was read."""
    assert session.shown["served"]["lines"][0] == "NO_TRUSTED_SIGNATURE"
    assert session.shown["served from elsewhere"]["lines"][0] == "OTHER_ORIGIN"


def test_the_certificate_is_shown_in_hushdoc_s_own_words(session: Session) -> None:
    for name, folder in (
        ("sample", SAMPLE / "model"),
        ("chosen fl-provider-dp", CERTIFICATES / "fl-provider-dp"),
    ):
        shown = session.shown[name]
        envelope = json.loads((folder / "privacy.intoto.jsonl").read_text())
        statement = base64.b64decode(envelope["payload"])
        certificate = hushdoc.Certificate.from_dict(json.loads(statement)["predicate"])
        for item in certificate.claim.guarantees:
            assert guarantee_words(item) in shown["lines"]
            assert set(meaning(item)) <= set(shown["further"])
        assert set(certificate.claim.caveats) <= set(shown["further"])


def test_what_is_no_model_that_the_page_can_run_is_said(session: Session) -> None:
    shown = session.shown["synthetic"]
    assert shown["verdict"] == "Accepted"
    assert shown["status"] == (
        "This page can't run it: its task is synthetic-documents, as safetensors; use hushdoc."
    )


def test_an_artifact_without_a_policy_is_refused(session: Session) -> None:
    assert session.shown["no policy"]["lines"][0] == "NO_POLICY"


def test_no_request_leaves(session: Session) -> None:
    """Counted by the page's own browser, and by what its network stack logged."""
    own = (session.address, "blob:", "data:", session.address.replace("127.0.0.1", "plain.test"))
    assert len(session.requests) > DOCUMENTS / 5
    assert [name for name in session.requests if not name.startswith((*own, ELSEWHERE))] == []
    log = json.loads(session.network.read_text())
    kind = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    started = [
        event.get("params", {}).get("url") for event in log["events"] if event["type"] == kind
    ]
    assert len(started) > 10
    others = {name.split("/")[2] for name in started if name and not name.startswith(own)}
    assert others <= CHROMIUM_S_OWN


def test_neither_the_page_nor_its_worker_may_ask_elsewhere(session: Session) -> None:
    answers = [session.shown["page"], *session.shown["worker"]]
    assert answers == ["connect-src"] * 3  # the page, the engine, the reader of PDF files


def test_what_the_browser_lacks_is_said_in_the_page(session: Session) -> None:
    assert session.shown["open"] == {"unfit": None}
    assert "no WebCrypto" in session.shown["insecure"]["unfit"]
    assert "no WebAssembly" in session.shown["lacking"]["unfit"]


def test_the_page_s_own_policy_is_that_of_the_sample() -> None:
    assert (PAGE / "trust.json").read_bytes() == (SAMPLE / "trust.json").read_bytes()
    policy = hushdoc.Policy.from_toml(SAMPLE / "policy.toml")
    own = json.loads((PAGE / "policy.json").read_text())
    own["privacy_units"] = frozenset(own["privacy_units"])
    assert hushdoc.Policy(trust=policy.trust, **own) == policy
