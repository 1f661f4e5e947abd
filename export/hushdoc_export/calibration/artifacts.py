"""Artifacts with calibrated scores, made from artifacts without; weights are not touched.

The finished artifact reads documents as an application would; how often it was right at which score
becomes a curve in the manifest of a new artifact, whose certificate names the documents.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushdoc.artifact.artifact import Artifact, open_artifact
from hushdoc.certificate import certificate as certificates
from hushdoc.certificate.certificate import Certificate
from hushdoc.certificate.claim import PublicData
from hushdoc.errors import InputError, TaskMismatchError, needs_extra
from hushdoc.labels import LabelledDocument, LabelSet
from hushdoc.policy.policy import Policy
from hushdoc.runtime import docvqa, graph_classifier, kie, writing
from hushdoc.runtime.classification import ClassificationModel
from hushdoc.runtime.hashed import model as crf
from hushdoc.runtime.hashed.sealed_table import FORMAT
from hushdoc.runtime.questions import QuestionEncoder
from hushdoc.runtime.scoring import Scoring
from hushdoc.signing.keys import public_key_of
from hushdoc.signing.trust_store import TrustedKey, TrustStore
from hushdoc.system import atomic_files
from hushdoc_export import graph, sealing
from hushdoc_export.calibration import texts as labelled_texts
from hushdoc_export.calibration.answers import (
    class_answers,
    field_answers,
    question_answers,
    text_answers,
    whole_text_answers,
)
from hushdoc_export.calibration.fitting import (
    MIN_ANSWERS,
    THRESHOLD,
    Answers,
    calibration_error,
    fit,
    scored,
)
from hushdoc_export.field_agreement import invented_documents
from hushdoc_export.question_agreement import invented_questions
from hushdoc_export.release import ASSURANCE, Release
from hushdoc_training.labelled_texts import ClassifiedText, LabelledText

NUM_INVENTED = 150

OVERLAPS = ("none", "unknown")
"""What may be known of an overlap between calibration data and protected data."""

INVENTED = PublicData(
    name="invented documents of hushdoc's public generator",
    uses=("calibration of scores",),
    privacy_status="invented",
    overlap_with_protected="none",
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

    Audit reports are about the old certificate and are not taken over.

    Args:
        folder: An artifact that finds fields, answers questions or classifies, in the format onnx.
        out: Where the new one shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        policy: Checks the old artifact.
        documents: With spans for fields, questions for answers, or `document_type` for classes.
        data: The certificate's entry for these documents. Protected documents would need a
            guarantee of their own.
        threshold: Answers with a lower calibrated score are put `below_threshold`.

    Raises:
        InputError: There are fewer than MIN_ANSWERS answers, or the documents are protected ones.
        TaskMismatchError: The artifact is for another task.
        OutputExistsError: Something already stands at `out`.
        OutputWriteError: The disk is full or not writable; nothing half-written stays.
        HushdocError: What opening an artifact raises.
    """
    atomic_files.require_free(out)
    opened = open_artifact(folder, policy)
    _require_calibratable(opened, data, graph_model=True)
    answers = _answers(opened, documents)
    return _sealed(opened, out, release, answers, data, threshold)


def export_calibrated_table(
    folder: Path,
    out: Path,
    release: Release,
    *,
    policy: Policy,
    texts: Sequence[LabelledText] | Sequence[ClassifiedText],
    data: PublicData,
    threshold: float = THRESHOLD,
) -> Path:
    """Returns the folder of a new artifact: the same table of hashed features, calibrated scores.

    Args:
        folder: An artifact of the format safetensors.
        out: Where the new one shall stand; nothing may be there yet.
        release: Who releases it, and as what.
        policy: Checks the old artifact.
        texts: With the spans of every field that the table finds; for a table that classifies,
            some of each class. On texts that it was trained on its scores would come out too high.
        data: The certificate's entry for these texts. Protected texts would need a guarantee of
            their own.
        threshold: Fields with a lower calibrated score are put `below_threshold`.

    Raises:
        AnnotationError: A span leaves its text, or spans of tokens overlap; texts have spans for a
            table that classifies or classes for another, or a class that it does not know.
        InputError: The table finds fewer than MIN_ANSWERS fields, one that the texts do not have,
            or the texts are protected ones.
        HushdocError: What `export_calibrated` raises.
    """
    atomic_files.require_free(out)
    opened = open_artifact(folder, policy)
    _require_calibratable(opened, data, graph_model=False)
    if opened.certificate.model.task == graph_classifier.TASK:
        classifier = ClassificationModel.from_artifact(opened)
        known = labelled_texts.with_classes(classifier.labels, texts)
        answers = whole_text_answers(classifier, known)
    else:
        model = crf.HashedCRFModel.from_artifact(opened)
        answers = text_answers(model, labelled_texts.with_fields(model.labels.fields, texts))
    return _sealed(opened, out, release, answers, data, threshold)


def _sealed(
    opened: Artifact,
    out: Path,
    release: Release,
    answers: Answers,
    data: PublicData,
    threshold: float,
) -> Path:
    """Seals an artifact again, with the calibration that its answers to `data` give."""
    scoring = fit(answers, fitted_on=data.name, threshold=threshold)
    certificate = _certificate(opened, release, data, _step(opened, answers, scoring, data))
    contents = {subject.name: opened.read(subject.name) for subject in opened.subjects}
    manifest = json.loads(contents["hushdoc.json"])
    manifest["preprocessing"] |= {"scores": scoring.to_dict()}
    contents["hushdoc.json"] = sealing.dump(manifest)
    notes = sealing.notes(certificate)
    for name in contents:
        if name.endswith(".safetensors"):
            contents[name] = _renamed_tensors(contents[name], notes)
        elif name == certificate.model.entry or name.endswith(".onnx"):
            contents[name] = _renamed(contents[name], notes)
    return sealing.seal(out, contents, certificate, labels=_labels(contents), key=release.key)


def _certificate(
    opened: Artifact, release: Release, data: PublicData, step: dict[str, Any]
) -> Certificate:
    """Returns an artifact's certificate with one more step and the data that it read."""
    old, claim = opened.certificate, opened.certificate.claim
    return dataclasses.replace(
        old,
        certificate_id=certificates.new_certificate_id(),
        issued_at=certificates.utc_now(),
        expires_at=release.expires_at,
        issuer=release.issuer,
        assurance=ASSURANCE,
        model=dataclasses.replace(old.model, name=release.name, version=release.version),
        claim=dataclasses.replace(claim, public_data=(*claim.public_data, data)),
        derivation=(*old.derivation, step),
    )


def export_calibrated_on_invented(
    folder: Path,
    out: Path,
    release: Release,
    *,
    threshold: float = THRESHOLD,
) -> Path:
    """Returns a new artifact whose scores are calibrated on documents of our public generator.

    The old artifact finds fields or answers questions, and the same key signed it. An InputError
    says that the generator does not know the model's fields, or that the model finds too few.
    """
    policy = own_policy(release)
    opened = open_artifact(folder, policy)
    settings: dict[str, Any] = {"policy": policy, "threshold": threshold}
    if opened.certificate.model.task == docvqa.TASK:
        asking = writing.asking_of(opened.manifest)
        encoder = QuestionEncoder(opened.read("tokenizer.json"), asking)
        with invented_questions(encoder) as asked:
            return export_calibrated(
                folder, out, release, documents=asked, data=INVENTED, **settings
            )
    labels = _named({"labels.json": opened.read("labels.json")})
    if opened.certificate.model.format == FORMAT:
        texts = labelled_texts.invented(labels.fields)
        return export_calibrated_table(
            folder, out, release, texts=texts, data=labelled_texts.INVENTED, **settings
        )
    images = "image" in opened.manifest["preprocessing"]
    with invented_documents(labels, images=images, count=NUM_INVENTED) as documents:
        known = {span.label for item in documents for span in item.spans}
        labelled_texts.require_known(
            labels.fields,
            known,
            "documents",
            "Calibrate the artifact on documents of your own that need no protection: "
            "hushdoc_export.calibration.export_calibrated.",
        )
        return export_calibrated(
            folder, out, release, documents=documents, data=INVENTED, **settings
        )


def own_policy(release: Release) -> Policy:
    """Returns a policy that opens what the release's own key signed, whatever its guarantees."""
    own = TrustedKey(name="the exporter's own key", public_key=public_key_of(release.key))
    return Policy.integrity_only(trust=TrustStore(keys=(own,)))


def _require_calibratable(opened: Artifact, data: PublicData, *, graph_model: bool) -> None:
    """Raises unless the model's scores are its own, and the data are none of its secrets."""
    identity = opened.certificate.model
    known = (
        {(task, "onnx") for task in (kie.TASK, docvqa.TASK, graph_classifier.TASK)}
        if graph_model
        else {(crf.TASK, FORMAT), (graph_classifier.TASK, FORMAT)}
    )
    if (identity.task, identity.format) not in known:
        raise TaskMismatchError(
            f"The artifact holds a model of the format '{identity.format}' for the task "
            f"'{identity.task}'; this calibrates the scores of "
            f"{' and '.join(sorted(f'{task} ({form})' for task, form in known))}. Use such an "
            "artifact; tables of hashed features have a function of their own."
        )
    if "scores" in opened.manifest["preprocessing"]:
        raise InputError(
            "The artifact's scores are calibrated already. Calibrate the artifact it was made from."
        )
    protected = {item.name for item in opened.certificate.claim.protected_data}
    if data.name in protected or data.overlap_with_protected not in OVERLAPS:
        raise InputError(
            f"'{data.name}' are, or contain, documents that the artifact's certificate protects "
            f"(overlap: {data.overlap_with_protected}), and a calibration would reveal something "
            "about them that no budget accounts for. Calibrate on documents that need no "
            "protection and that the model was not trained on."
        )


def _answers(opened: Artifact, documents: Sequence[LabelledDocument]) -> Answers:
    if opened.certificate.model.task == kie.TASK:
        return field_answers(kie.KIEModel.from_artifact(opened), documents)
    if opened.certificate.model.task == docvqa.TASK:
        return question_answers(docvqa.DocVQAModel.from_artifact(opened), documents)
    return class_answers(ClassificationModel.from_artifact(opened), documents)


def _step(opened: Artifact, answers: Answers, scoring: Scoring, data: PublicData) -> dict[str, Any]:
    """Returns the derivation's step, with what a calibration on one half brings on the other."""
    half = answers.documents % 2 == 0
    fitted, held_out = answers.part(half), answers.part(~half)
    figures = {}
    if min(len(fitted.scores), len(held_out.scores)) >= MIN_ANSWERS:
        trial = fit(fitted, fitted_on=scoring.fitted_on, threshold=scoring.threshold)
        after = scored(held_out, trial)
        kept = after >= trial.threshold
        figures = {
            "heldOutAnswers": len(held_out.scores),
            "calibrationErrorBefore": round(calibration_error(held_out.scores, held_out.right), 4),
            "calibrationErrorAfter": round(calibration_error(after, held_out.right), 4),
            "shareKept": round(float(kept.mean()), 4),
            "shareRight": round(float(held_out.right.mean()), 4),
            "shareRightOfKept": (
                round(float(held_out.right[kept].mean()), 4) if kept.any() else None
            ),
        }
    return {
        "step": "calibrate-scores",
        # That the documents are public is the issuer's word, in `publicData`. An issuer who does
        # not know whether protected ones are among them can't declare that none was read.
        "dataDependent": data.overlap_with_protected != "none",
        "from": f"certificate:{opened.certificate.certificate_id}",
        "answers": len(answers.scores),
        "threshold": scoring.threshold,
        **figures,
    }


def _renamed(content: bytes, notes: Mapping[str, str]) -> bytes:
    """Returns an ONNX file that names another certificate."""
    with needs_extra("onnx", "export"):
        import onnx
    return graph.serialize(onnx.load_model_from_string(content), notes=notes)


def _renamed_tensors(content: bytes, notes: Mapping[str, str]) -> bytes:
    """Returns a safetensors file that names another certificate; its tensors stay as they are."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = {**header.get("__metadata__", {}), **notes}
    packed = json.dumps(header, separators=(",", ":")).encode("ascii")
    packed += b" " * (-len(packed) % 8)  # tensors begin at a multiple of eight bytes
    return len(packed).to_bytes(8, "little") + packed + content[start:]


def _labels(contents: Mapping[str, bytes]) -> LabelSet | None:
    """Returns the names that a model has for what it finds; None for answers to questions."""
    return _named(contents) if "labels.json" in contents else None


def _named(contents: Mapping[str, bytes]) -> LabelSet:
    names = json.loads(contents["labels.json"])
    return LabelSet(fields=tuple(names.get("fields") or names["labels"]))
