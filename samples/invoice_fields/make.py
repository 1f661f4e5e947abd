"""Makes what `hushdoc sample` writes: a small model of invoice fields, and an invoice to try it on.

    python samples/invoice_fields/make.py --out DIR --work DIR

The model is a LayoutLM of 1.6 million parameters. It learns from invented invoices, then privately
from further ones that stand in for protected documents, and is rounded to bytes, calibrated and
sealed. A second run with the same --work goes on where the first ended.

With one thread, all but the noise of private training, the signing key and the certificate's number
and time is the same in each run on one processor. The key is drawn anew, is never written down, and
its name says that it signs samples alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import tempfile
from pathlib import Path

import torch
from invoice_pdf import pdf

from hushdoc.certificate.claim import Claim, PublicData
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.runtime.encoding import Preprocessing
from hushdoc.signing import keys
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc.system import atomic_files
from hushdoc_export import kie
from hushdoc_export.calibration import artifacts
from hushdoc_export.release import Release
from hushdoc_training import invented
from hushdoc_training.models import layout
from hushdoc_training.privacy import claims
from hushdoc_training.privacy.plan import PrivacyPlan
from hushdoc_training.recipes.kie import training
from hushdoc_training.recipes.kie.settings import PlainSettings, PrivateSettings
from hushdoc_training.recipes.kie.start import Start, start_from
from hushdoc_training.runs.run_folder import CHECKPOINT

NAME = "sample-invoice-fields"
SIZE = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 384,
    "max_position_embeddings": 192,
    "hidden_dropout_prob": 0,
    "attention_probs_dropout_prob": 0,
}
VOCABULARY = 3000

LEARNED, PROTECTED, CALIBRATION, SHOWN = (
    (0, 30_000),
    (30_000, 30_200),
    (30_200, 30_400),
    (30_400, 30_500),
)
"""Providers of the invoices for each purpose. `benchmarks/sample_fields.py` scores on others."""

INVOICE = (7, 1475)
"""Seed and number of the shipped invoice. It was chosen because the model reads all of it: it shows
an answer, and measures nothing."""

DATA = PublicData(
    name="invoices of hushdoc's public generator",
    uses=("training", "vocabulary"),
    privacy_status="invented by a generator",
    overlap_with_protected="none",
)
CAVEAT = (
    "A sample: it learned from invented invoices alone, and nothing is known of how well it reads "
    "real ones. Its key signs no release."
)
ISSUER = "hushdoc's sample script: no release"
KEY_NAME = "hushdoc sample key: signs the sample, no release"
POLICY = f"""# What an application demands of a model. This one accepts the sample alone.
trust = "trust.json"
max_epsilon = 8
max_delta = 1e-5
privacy_units = ["document"]
adversary = "model-recipient"
model = "{NAME}"
"""


def main() -> None:
    """Makes all files, or none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write; it must be new")
    parser.add_argument("--work", type=Path, required=True, help="folder of the training runs")
    options = parser.parse_args()
    first, second, private = (options.work / name for name in ("first", "second", "private"))
    documents = invoices(seed=1, count=6000, providers=LEARNED)
    pretrain(untrained(documents), documents, first, epochs=2)
    # Sorted by boxes, as in the first pass, the lines of an address fall apart where something
    # stands beside them; the order in which readers give words, as in the second, keeps them.
    start = start_from(str(first), None)
    given = dataclasses.replace(start.preprocessing, word_order="given")
    documents = invoices(seed=5, count=4000, providers=LEARNED)
    pretrain(dataclasses.replace(start, preprocessing=given), documents, second, epochs=1)
    train_privately(start_from(str(second), None), private)
    key = keys.generate_key(keys.ED25519)
    with atomic_files.new_folder(options.out) as out:
        seal(private, out / "model", Release(key=key, name=NAME, issuer=ISSUER, variant="int8"))
        trusted = TrustedKey.of(key, name=KEY_NAME, models=(NAME,))
        (out / "trust.json").write_bytes(TrustStore.of([trusted]).to_json())
        (out / "policy.toml").write_text(POLICY, "utf-8")
        draw_invoice(out)
    total = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"{options.out}: {total} bytes")


def invoices(*, seed: int, count: int, providers: tuple[int, int]) -> list[LabelledDocument]:
    """Returns invented invoices of some providers."""
    config = invented.InventedConfig(document_types=("invoice",), providers=providers)
    return list(invented.documents(seed=seed, count=count, config=config))


def untrained(documents: list[LabelledDocument]) -> Start:
    """Returns the model with random weights, and the vocabulary of invented invoices."""
    torch.manual_seed(0)
    labels = LabelSet(fields=LabelSet.from_documents(documents).fields)
    words = [word.text for item in documents for word in item.document.pages[0].words]
    tokenizer = layout.wordpiece(words, vocab_size=VOCABULARY)
    model, text, special = layout.small(labels, tokenizer, size=SIZE)
    settings = Preprocessing(
        max_tokens=SIZE["max_position_embeddings"],
        overlap=48,
        word_order="reading",
        **dataclasses.asdict(special),
    )
    return Start(
        model=model,
        tokenizer_json=text,
        preprocessing=settings,
        labels=labels,
        claim=None,
        name="random weights",
    )


def pretrain(start: Start, documents: list[LabelledDocument], out: Path, *, epochs: int) -> None:
    """Trains on public invoices, a second for two steps on one core, unless that was done."""
    if (out / CHECKPOINT).is_dir():
        return
    claim = claims.public((DATA,), training=training.described(start))
    settings = PlainSettings(
        epochs=epochs,
        learning_rate=1.5e-3,
        segment_shuffling=0.2,
        token_noise=0.15,
        label_smoothing=0.05,
    )
    training.train_plain(
        start,
        documents,
        settings,
        out=out,
        claim=dataclasses.replace(claim, caveats=(CAVEAT,)),
        resume=out.exists(),
    )


def train_privately(start: Start, out: Path) -> None:
    """Trains the biases on invoices that stand in for protected ones, with all that this needs."""
    plan = PrivacyPlan.calibrated(epsilon=8, sampling_rate=0.05, steps=20, expected_records=50)
    training.train_private(
        start,
        invoices(seed=2, count=1000, providers=PROTECTED),
        plan,
        PrivateSettings(trained="biases"),
        out=out,
        name="invented invoices that stand in for protected ones",
        hyperparameter_tuning="public-data",
        resume=out.exists(),
    )


def seal(run: Path, out: Path, release: Release) -> None:
    """Writes the artifact, with scores that are calibrated on invented invoices."""
    with tempfile.TemporaryDirectory() as home:
        checkpoint = shutil.copytree(run / CHECKPOINT, Path(home) / CHECKPOINT)
        claim = Claim.from_json((checkpoint / "claim.json").read_bytes())
        claim = dataclasses.replace(claim, caveats=(*claim.caveats, CAVEAT))
        (checkpoint / "claim.json").write_bytes(claim.to_json())
        artifacts.export_calibrated(
            kie.export(checkpoint, Path(home) / "raw", release),
            out,
            release,
            policy=artifacts.own_policy(release),
            documents=invoices(seed=3, count=150, providers=CALIBRATION),
            data=dataclasses.replace(
                artifacts.INVENTED, name="invented invoices of hushdoc's public generator"
            ),
        )


def draw_invoice(out: Path) -> None:
    """Writes the invoice as PDF and as image."""
    config = invented.InventedConfig(document_types=("invoice",), providers=SHOWN)
    seed, index = INVOICE
    plan = invented.plan(seed=seed, index=index, config=config)
    (out / "invoice.pdf").write_bytes(pdf(plan))
    invented.draw(plan, worn=False).save(out / "invoice.png", optimize=True)


if __name__ == "__main__":
    main()
