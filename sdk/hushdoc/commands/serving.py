"""The subcommand `serve`: verified artifacts behind HTTP."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hushdoc.arguments import printable
from hushdoc.commands import answering
from hushdoc.commands.parsing import usage_errors
from hushdoc.commands.policy_options import policy_from, policy_options
from hushdoc.document.provenance import ENGINES

if TYPE_CHECKING:
    from hushdoc.commands.parsing import Subcommands
    from hushdoc.server.limits import Limits

MIB = 2**20


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc serve`; FastAPI and uvicorn are imported only when it runs."""
    parser = subcommands.add_parser(
        "serve",
        help="answer over HTTP with verified artifacts",
        description="Checks artifacts against a policy and answers POST /v1/extract, ask, "
        "classify, embed and redact, and GET /v1/certificate, /healthz, /readyz and /metrics; "
        "/openapi.json describes them. Whatever the policy refuses never starts, and stops to "
        "answer once it is revoked, expired or refused. Files are read in processes of their own. "
        "Other machines are answered with tokens and over TLS alone, unless told otherwise.",
    )
    parser.add_argument(
        "artifacts",
        nargs="*",
        metavar="[NAME=]ARTIFACT",
        help="folder of an artifact, and what requests call it (default: the model's own name)",
    )
    group = parser.add_argument_group("network")
    group.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine alone)"
    )
    group.add_argument(
        "--port", type=int, default=8000, help="port, or 0 for any free one (default: 8000)"
    )
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain in PEM")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key in PEM")
    group.add_argument(
        "--tokens",
        type=Path,
        metavar="FILE",
        help="who may ask: a file of digests of tokens, which clients send as Authorization: "
        "Bearer TOKEN",
    )
    group.add_argument(
        "--add-token",
        metavar="NAME",
        help="add a new token to --tokens under the name of a client, print it, and end",
    )
    group.add_argument(
        "--no-tokens", action="store_true", help="answer other machines without tokens"
    )
    group.add_argument(
        "--plain-http",
        action="store_true",
        help="answer other machines without TLS, as behind a proxy that has it",
    )
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--workers",
        type=answering.positive,
        metavar="N",
        help="documents read and answered at the same time (default: the usable cores)",
    )
    group.add_argument(
        "--queue",
        type=int,
        default=64,
        metavar="N",
        help="requests that may wait; others are told when to come again (default: 64)",
    )
    group.add_argument(
        "--max-mib",
        type=answering.positive,
        default=32,
        metavar="N",
        help="most of a request, in MiB (default: 32)",
    )
    group.add_argument(
        "--max-pages",
        type=answering.positive,
        default=100,
        metavar="N",
        help="pages of a document (default: 100)",
    )
    group.add_argument(
        "--time-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long a reader process may take for a file, OCR aside (default: 60)",
    )
    group.add_argument(
        "--answer-limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="how long a request may wait, how long answering may take, and how long its client "
        "may take to receive the answer (default: 120)",
    )
    group.add_argument(
        "--recheck",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how often certificates and revocations are checked again, and tokens are read again "
        "(default: 60)",
    )
    group.add_argument(
        "--memory-limit", metavar="SIZE", help="memory that each model may take, such as 400MB"
    )
    group.add_argument(
        "--ocr",
        choices=ENGINES,
        default="auto",
        help="what reads text from images (default: auto)",
    )
    parser.mark_expert("--answer-limit", "--recheck", "--memory-limit", "--max-pages", "--max-mib")
    policy_options(parser)
    parser.set_defaults(run=run, extra="server")


def run(options: argparse.Namespace) -> int:
    """Serves until the process is told to stop."""
    from hushdoc.server import app, running, served, tokens
    from hushdoc.system import telemetry

    telemetry.keep_off()
    if options.add_token is not None:
        if options.tokens is None or options.artifacts:
            options.refuse_usage("--add-token NAME goes with --tokens FILE alone")
        print(tokens.add(options.tokens, options.add_token))
        return 0
    if not options.artifacts:
        options.refuse_usage("name at least one ARTIFACT")
    if (options.tls_cert is None) != (options.tls_key is None):
        options.refuse_usage("--tls-cert and --tls-key go together")
    if not 0 <= options.port < 1 << 16:
        options.refuse_usage(f"--port is {options.port}; expected a number from 0 to 65535")
    if not 0 < options.recheck <= 86_400:
        options.refuse_usage("--recheck takes a number of seconds up to a day")
    address = running.Address(
        host=options.host, port=options.port, certificate=options.tls_cert, key=options.tls_key
    )
    if not address.is_local and options.tokens is None and not options.no_tokens:
        options.refuse_usage("other machines need --tokens FILE; --no-tokens answers everybody")
    if not address.is_local and address.certificate is None and not options.plain_http:
        options.refuse_usage(
            "other machines need --tls-cert and --tls-key; --plain-http leaves TLS to a proxy"
        )
    limits = _limits(options)
    known = None if options.tokens is None else tokens.Tokens.from_file(options.tokens)
    named = [_named(text) for text in options.artifacts]
    options.artifact = named[0][1]
    policy = policy_from(options)
    options.threads = 1  # documents run beside one another, not inside each other
    runtime = answering.runtime_from(options)
    models = served.ServedModels(
        [served.Served.load(name, path, policy, runtime) for name, path in named],
        served.rereading(policy, lambda: policy_from(options, again=True)),
    )
    built = app.build(
        models, limits=limits, tokens=known, recheck_seconds=options.recheck, ocr=options.ocr
    )
    bound = running.listening(address)
    scheme = "http" if address.certificate is None else "https"
    for item in models.by_name.values():
        print(f"hushdoc serve: {printable(repr(item.model))}", file=sys.stderr)
    made = running.server(built, address, limits)
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(f"Listening on {scheme}://{host}:{bound.getsockname()[1]}", flush=True)
    running.run(made, bound)
    return 0


def _limits(options: argparse.Namespace) -> Limits:
    from hushdoc.document.limits import ReadingLimits
    from hushdoc.server.limits import Limits

    with usage_errors(options):
        size = options.max_mib * MIB
        reading = ReadingLimits(
            max_bytes=size, max_pages=options.max_pages, max_seconds=options.time_limit
        )
        limits = Limits(
            max_body_bytes=size,
            max_held_bytes=max(Limits().max_held_bytes, size),
            max_answer_bytes=max(Limits().max_answer_bytes, 4 * size),
            answer_seconds=options.answer_limit,
            queue=options.queue,
            reading=reading,
        )
        return limits if options.workers is None else replace(limits, concurrency=options.workers)


def _named(text: str) -> tuple[str | None, Path]:
    """Returns the name, if one is given, and the path of an artifact."""
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and name and "/" not in name else (None, Path(text))
