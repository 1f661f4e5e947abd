"""Calibration: what an artifact's scores are worth, measured on documents nobody has to protect.

The finished artifact reads the documents as an application would; how often it was right at which
score becomes a curve in the manifest of a new artifact. Weights are not touched.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hushdoc import certificate as certificates
from hushdoc import files
from hushdoc.artifact import Artifact, open_artifact
from hushdoc.claim import PublicData
from hushdoc.errors import InputError, MissingExtraError, TaskMismatchError
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.policy import Policy
from hushdoc.runtime import classification, kie
from hushdoc.runtime.scoring import Scoring
from hushdoc.signing import public_key_of
from hushdoc.trust import TrustedKey, TrustStore
from hushdoc_export import agreement, graph, sealing
from hushdoc_export.release import ASSURANCE, Release

MIN_ANSWERS = 50
"""Fewer say too little about how often a model is right."""

THRESHOLD = 0.5
"""Below it an answer is more likely wrong than right."""

NUM_INVENTED = 150

INVENTED = PublicData(
    name="documents of hushdoc's public generator",
    uses=("calibration of scores",),
    uri=None,
    digest=None,
    privacy_status="invented",
    overlap_with_protected="none",
)

_MAX_BINS, _MIN_IN_BIN = 20, 10
_TEMPERATURES = (0.05, 20.0)

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """What a model said and whether it was right.

    Attributes:
        scores: The raw score of each answer.
        right: Whether it was right.
        documents: The number of the document it is about.
        logits: For classifiers, shape [answers, labels].
        truth: For classifiers the right label's number.
    """

    scores: Floats
    right: Flags
    documents: Numbers
    logits: Floats | None = None
    truth: Numbers | None = None

    def part(self, chosen: Flags) -> Answers:
        """Returns some of the answers."""
        return Answers(
            scores=self.scores[chosen],
            right=self.right[chosen],
            documents=self.documents[chosen],
            logits=None if self.logits is None else self.logits[chosen],
            truth=None if self.truth is None else self.truth[chosen],
        )


def export_calibrated(
    folder: Path,
    out: Path,
    release: Release,
    *,
    policy: Policy,
    documents: Sequence[LabelledDocument],
    data: PublicData,
    threshold: float = THRESHOLD,
) -> Path:
    """Returns the folder of a new artifact: the same model with calibrated scores.

    What auditors signed is about the old certificate and is not taken over.

    Args:
        folder: An artifact for fields or kinds of documents, in the format onnx.
        out: Where the new one shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        policy: What the old one's certificate is held against.
        documents: With the truth: spans for fields, `kind` for kinds.
        data: What these documents are called and why nobody has to protect them; the certificate
            says so. Protected documents would need a promise of their own.
        threshold: Answers with a lower calibrated score are set apart.

    Raises:
        InputError: There are fewer than MIN_ANSWERS answers.
        TaskMismatchError: The artifact is for another task.
        OutputExistsError: Something already stands at `out`.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        HushdocError: What opening an artifact raises.
    """
    files.require_free(out)
    opened = open_artifact(folder, policy)
    identity = opened.certificate.model
    answers = _answers(opened, documents)
    scoring = fit(answers, fitted_on=data.name, threshold=threshold)
    certificate = dataclasses.replace(
        opened.certificate,
        certificate_id=certificates.new_certificate_id(),
        issued_at=certificates.utc_now(),
        expires_at=release.expires_at,
        issuer=release.issuer,
        assurance=ASSURANCE,
        model=dataclasses.replace(identity, name=release.name, version=release.version),
        claim=dataclasses.replace(
            opened.certificate.claim, public_data=(*opened.certificate.claim.public_data, data)
        ),
        derivation=(*opened.certificate.derivation, _step(opened, answers, scoring)),
    )
    contents = {subject.name: opened.read(subject.name) for subject in opened.subjects}
    manifest = json.loads(contents["hushdoc.json"])
    manifest["preprocessing"]["scores"] = scoring.to_dict()
    contents["hushdoc.json"] = sealing.dump(manifest)
    notes = {
        graph.CERTIFICATE_KEY: certificate.certificate_id,
        graph.SUMMARY_KEY: sealing.summary(release.name, release.version, certificate.claim),
    }
    for name in contents:
        if name == identity.entry or name.endswith(".onnx"):
            contents[name] = _renamed(contents[name], notes)
    return sealing.seal_files(out, contents, certificate, labels=_labels(contents), key=release.key)


def export_calibrated_on_invented(
    folder: Path,
    out: Path,
    release: Release,
    *,
    threshold: float = THRESHOLD,
) -> Path:
    """Returns a new artifact whose scores are calibrated on documents of our public generator.

    Args:
        folder: An artifact for fields, which the same key signed.
        out: Where the new one shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        threshold: Answers with a lower calibrated score are set apart.

    Raises:
        InputError: The generator does not know the model's fields, or the model finds too few.
        HushdocError: What `export_calibrated` raises.
    """
    own = TrustedKey(name="the exporter's own key", public_key=public_key_of(release.key))
    policy = Policy.integrity_only(trust=TrustStore(keys=(own,)))
    opened = open_artifact(folder, policy)
    told = json.loads(opened.read("labels.json"))
    labels = LabelSet(fields=tuple(told.get("fields") or ()))
    pictures = "image" in opened.manifest["preprocessing"]
    with agreement.asked(labels, pictures=pictures, count=NUM_INVENTED) as asked:
        strange = sorted(set(labels.fields) - {span.label for item in asked for span in item.spans})
        if strange or not labels.fields:
            raise InputError(
                f"Invented documents have no field {', '.join(strange)[:200] or 'at all'}, so they "
                "can't say how often the model is right about it. Calibrate the artifact on "
                "documents of your own that nobody has to protect: "
                "hushdoc_export.calibration.export_calibrated."
            )
        return export_calibrated(
            folder, out, release, policy=policy, documents=asked, data=INVENTED, threshold=threshold
        )


def fit(answers: Answers, *, fitted_on: str, threshold: float = THRESHOLD) -> Scoring:
    """Returns the calibration that answers teach.

    Fields get a curve that never falls; classifiers a temperature, which keeps their scores a
    distribution over the labels.

    Args:
        answers: What the model said.
        fitted_on: The documents, in words.
        threshold: Answers with a lower calibrated score are set apart.

    Raises:
        InputError: There are fewer than MIN_ANSWERS.
    """
    if len(answers.scores) < MIN_ANSWERS:
        raise InputError(
            f"The model gave {len(answers.scores)} answers on these documents; at least "
            f"{MIN_ANSWERS} are needed to say how often it is right. Give more documents, with "
            "what the model was trained to find."
        )
    told: dict[str, Any] = {
        "threshold": threshold,
        "fitted_on": fitted_on,
        "num_answers": len(answers.scores),
    }
    if answers.logits is not None and answers.truth is not None:
        return Scoring(temperature=temperature(answers.logits, answers.truth), **told)
    raw, calibrated = curve(answers.scores, answers.right)
    return Scoring(raw=raw, calibrated=calibrated, **told)


def curve(scores: Floats, right: Flags) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the knots of a curve from scores to the share of right answers, never falling.

    Scores are put into bins of equal counts, so that no knot hangs on a few answers; each bin's
    share is drawn towards one half by half an answer of either kind, and shares that fall are
    pooled (Ayer et al. 1955).

    Args:
        scores: From 0 to 1.
        right: Whether each answer was right.
    """
    order = np.argsort(scores, kind="stable")
    bins = np.array_split(order, max(1, min(_MAX_BINS, len(order) // _MIN_IN_BIN)))
    knots: list[list[float]] = []  # mean score, right answers, answers of each pool
    for members in bins:
        knots.append([float(scores[members].sum()), float(right[members].sum()), len(members)])
        while len(knots) > 1 and (
            _share(knots[-2]) >= _share(knots[-1])
            or knots[-2][0] / knots[-2][2] >= knots[-1][0] / knots[-1][2]
        ):
            last = knots.pop()
            knots[-1] = [one + other for one, other in zip(knots[-1], last, strict=True)]
    raw = [round(total / count, 6) for total, _, count in knots]
    calibrated = [round(_share(knot), 6) for knot in knots]
    if len(raw) == 1:  # one share for all scores: a level line
        raw, calibrated = [0.0, 1.0], calibrated * 2
    return tuple(raw), tuple(calibrated)


def _share(knot: Sequence[float]) -> float:
    return (knot[1] + 0.5) / (knot[2] + 1)


def temperature(logits: Floats, truth: Numbers) -> float:
    """Returns what logits, shape [answers, labels], are divided by to fit the truth best."""
    low, high = (float(np.log(bound)) for bound in _TEMPERATURES)
    # The loss has one minimum in the logarithm of the temperature; thirds close in on it.
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if _loss(logits, truth, np.exp(left)) < _loss(logits, truth, np.exp(right)):
            high = right
        else:
            low = left
    return round(float(np.exp((low + high) / 2)), 6)


def _loss(logits: Floats, truth: Numbers, divisor: float) -> float:
    scaled = logits / divisor
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    chosen = scaled[np.arange(len(truth)), truth]
    return float((np.log(np.exp(scaled).sum(axis=1)) - chosen).mean())


def calibration_error(scores: Floats, right: Flags) -> float:
    """Returns the mean gap between scores and shares, in ten bins (Naeini et al. 2015)."""
    places = np.minimum((scores * 10).astype(np.int64), 9)
    gaps = np.bincount(places, weights=scores - right, minlength=10)
    return float(np.abs(gaps).sum() / max(1, len(scores)))


def scored(answers: Answers, scoring: Scoring) -> Floats:
    """Returns the calibrated score of each answer."""
    if answers.logits is None:
        return np.asarray([scoring.calibrate(score) for score in answers.scores])
    scaled = answers.logits / scoring.temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray((powers / powers.sum(axis=1, keepdims=True)).max(axis=1))


def field_answers(model: kie.KIEModel, documents: Sequence[LabelledDocument]) -> Answers:
    """Returns the fields a model finds and whether each has the exact words of a true one.

    Args:
        model: Its own calibration must be off.
        documents: With their spans.
    """
    scores, right, numbers = [], [], []
    for number, item in enumerate(documents):
        truth = {
            (span.page, frozenset(range(span.start, span.stop)), span.label) for span in item.spans
        }
        for found in model.extract(item.document).fields:
            place = (found.page, frozenset(found.word_ids), found.label)
            scores.append(found.score)
            right.append(place in truth)
            numbers.append(number)
    return Answers(
        scores=np.asarray(scores, dtype=np.float64),
        right=np.asarray(right, dtype=bool),
        documents=np.asarray(numbers, dtype=np.int64),
    )


def kind_answers(
    model: classification.ClassificationModel, documents: Sequence[LabelledDocument]
) -> Answers:
    """Returns what a classifier says of documents whose kind it knows.

    Args:
        model: Its own calibration must be off.
        documents: With their kind.
    """
    numbers = {label: number for number, label in enumerate(model.labels)}
    known = [item for item in documents if item.kind in numbers]
    logits = np.zeros((len(known), len(numbers)))
    for row, item in enumerate(known):
        for found in model.classify(item.document, top_k=len(numbers)).scores:
            logits[row, numbers[found.label]] = np.log(max(found.score, 1e-300))
    truth = np.asarray([numbers[str(item.kind)] for item in known], dtype=np.int64)
    return Answers(
        scores=np.exp(logits).max(axis=1, initial=0),
        right=logits.argmax(axis=1) == truth,
        documents=np.arange(len(known)),
        logits=logits,
        truth=truth,
    )


def _answers(opened: Artifact, documents: Sequence[LabelledDocument]) -> Answers:
    identity = opened.certificate.model
    if identity.format != "onnx" or identity.task not in (kie.TASK, classification.TASK):
        raise TaskMismatchError(
            f"The artifact holds a model of the format '{identity.format}' for the task "
            f"'{identity.task}'; scores of '{kie.TASK}' and '{classification.TASK}' in the format "
            "'onnx' are calibrated. Use such an artifact."
        )
    if "scores" in opened.manifest["preprocessing"]:
        raise InputError(
            "The artifact's scores are calibrated already. Calibrate the artifact it was made from."
        )
    if identity.task == kie.TASK:
        return field_answers(kie.KIEModel.from_artifact(opened), documents)
    return kind_answers(classification.ClassificationModel.from_artifact(opened), documents)


def _step(opened: Artifact, answers: Answers, scoring: Scoring) -> dict[str, Any]:
    """Returns what was done and what it brings on documents that it was not fitted on."""
    half = answers.documents % 2 == 0
    fitted, held = answers.part(half), answers.part(~half)
    figures = {}
    if min(len(fitted.scores), len(held.scores)) >= MIN_ANSWERS:
        trial = fit(fitted, fitted_on=scoring.fitted_on, threshold=scoring.threshold)
        after = scored(held, trial)
        kept = after >= trial.threshold
        figures = {
            "heldOutAnswers": len(held.scores),
            "calibrationErrorBefore": round(calibration_error(held.scores, held.right), 4),
            "calibrationErrorAfter": round(calibration_error(after, held.right), 4),
            "shareKept": round(float(kept.mean()), 4),
            "shareRight": round(float(held.right.mean()), 4),
            "shareRightOfKept": round(float(held.right[kept].mean()), 4) if kept.any() else None,
        }
    return {
        "step": "calibrate-scores",
        # The documents are public by the issuer's word, which `publicData` holds.
        "dataDependent": False,
        "from": f"certificate:{opened.certificate.certificate_id}",
        "answers": len(answers.scores),
        "threshold": scoring.threshold,
        **figures,
    }


def _renamed(content: bytes, notes: Mapping[str, str]) -> bytes:
    """Returns an ONNX file that names another certificate."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("onnx", "export") from error
    return graph.serialize(onnx.load_model_from_string(content), notes=notes)


def _labels(contents: Mapping[str, bytes]) -> LabelSet:
    told = json.loads(contents["labels.json"])
    return LabelSet(fields=tuple(told.get("fields") or told["labels"]))
