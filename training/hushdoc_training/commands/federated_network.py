"""`hushdoc federated server` and `client`: one party's resident process of a run over a network."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted, printable
from hushdoc.commands.parsing import CommandParser, Subcommands
from hushdoc_training.commands.training_options import (
    FIRST_DOCUMENTS,
    PRIVATE_DOCUMENTS,
    add_number,
    add_tuned_on,
    seed,
    tuned_on,
)

if TYPE_CHECKING:
    from hushdoc.signing.keys import PrivateKey
    from hushdoc_training.federated.coordinator import Coordinator
    from hushdoc_training.federated.flower.certificates import Authority
    from hushdoc_training.federated.roster import Roster
    from hushdoc_training.recipes.federated_tasks import Start

AUTHORITY, SERVER, SERVER_KEY, NODE_KEY = "ca.pem", "server.pem", "server-key.pem", "node-key.pem"
NODES, ADDRESS, LOG, STATE = "nodes", "address", "network.log", "state"
"""Files of a party's folder: certificates and keys for the network alone, a folder of the nodes'
public keys at the server, where that is reached, the courier's log, and a client's account."""

LOOKED_AT = (
    "warning: defaults were chosen with a look at this corpus, which neither the roster nor the "
    "server knows of your documents: agree on `federated server --tuned-on unaccounted`, and "
    "compare what the certificate says of tuning before you countersign it."
)


def register(actions: Subcommands) -> None:
    """Adds `server` and `client` to `hushdoc federated`."""
    server = _action(
        actions,
        "server",
        run_server,
        "coordinate a run over the network",
        "Waits for all clients, runs the rounds, and writes the model as a checkpoint with its "
        "claim. Ctrl-C finishes the round and saves; the same command goes on. While it waits for "
        "clients, it ends at once.",
    )
    server.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="address to listen on (default: the one that `init` was given)",
    )
    server.add_argument(
        "--name",
        default=PRIVATE_DOCUMENTS,
        help=f"name of the documents in the certificate (default: '{PRIVATE_DOCUMENTS}')",
    )
    add_tuned_on(server, server)
    client = _action(
        actions,
        "client",
        run_client,
        "take part in a run over the network",
        "Reserves all rounds in the ledger, then answers the server till the run ends. Ctrl-C ends "
        "it after the round; the same command goes on. A round that was cut off stays charged.",
    )
    client.add_argument(
        "--server",
        metavar="HOST:PORT",
        help="address of the server (default: the one that `init` was given)",
    )
    client.add_argument(
        "--data", required=True, metavar="SOURCE", help="own documents, as for `hushdoc train kie`"
    )
    client.add_argument(
        "--documents", type=int, metavar="N", help="number of invented documents (default: 1000)"
    )
    client.add_argument(
        "--ledger", type=Path, metavar="FILE", help="the documents' own, of `hushdoc ledger init`"
    )
    client.add_argument(
        "--documents-changed",
        action="store_true",
        help="with --ledger: documents were added, removed or relabelled since its last run; all "
        "runs count for all of them",
    )
    add_number(
        client,
        "--max-epsilon",
        "E",
        8.0,
        "most that the plan may spend on them; inf for one without privacy",
    )
    add_number(client, "--max-delta", "D", 1e-5, "largest delta of a plan")
    client.mark_expert("--documents-changed")


def _action(actions: Subcommands, name: str, run: Any, about: str, more: str) -> CommandParser:
    parser = actions.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}. {more}"
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="this party's own folder")
    parser.add_argument(
        "--approve",
        required=True,
        metavar="DIGEST",
        help="the roster's digest, as compared with all other parties",
    )
    parser.add_argument(
        "--start",
        default="minilm",
        metavar="MODEL",
        help="the model that the roster starts from (default: minilm)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed of fresh weights, as of `init`"
    )
    parser.add_argument(
        "--flower-python",
        type=Path,
        metavar="FILE",
        help="a Python that has Flower (default: the one that runs this)",
    )
    add_number(parser, "--wait", "SECONDS", 600.0, "how long to wait for others")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=run, parser=parser, extra="training")
    return parser


def write_doors(folder: Path, clients: Sequence[str], address: str) -> None:
    """Writes what the parties of a new run need to meet: the authority's key is kept nowhere."""
    from hushdoc.system import atomic_files
    from hushdoc_training.federated.flower import certificates
    from hushdoc_training.federated.roster import COORDINATOR

    host, _, _ = address.rpartition(":")
    authority: Authority = certificates.Authority.new("hushdoc federation")
    server = authority.server([host.strip("[]")])
    nodes = {name: certificates.node() for name in clients}
    (folder / COORDINATOR / NODES).mkdir()
    public: Mapping[str, bytes] = {
        f"{COORDINATOR}/{SERVER}": server.public,
        **{f"{COORDINATOR}/{NODES}/{name}.pem": node.public for name, node in nodes.items()},
        **{f"{name}/{AUTHORITY}": authority.pem for name in (COORDINATOR, *clients)},
        **{f"{name}/{ADDRESS}": f"{address}\n".encode() for name in (COORDINATOR, *clients)},
    }
    private = {
        f"{COORDINATOR}/{SERVER_KEY}": server.private,
        **{f"{name}/{NODE_KEY}": node.private for name, node in nodes.items()},
    }
    for name, content in {**public, **private}.items():
        mode = 0o600 if name in private else 0o644
        atomic_files.write_file(folder / name, content, mode=mode)


def run_server(options: argparse.Namespace) -> int:
    """Coordinates a run; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    from hushdoc.system import atomic_files
    from hushdoc.system.progress import TaskProgress
    from hushdoc_training.federated.flower import courier, resident
    from hushdoc_training.federated.flower.transport import Door
    from hushdoc_training.recipes import federated_parties
    from hushdoc_training.runs import state
    from hushdoc_training.runs.run_folder import CHECKPOINT

    roster, key = approved(options)
    atomic_files.require_free(options.folder / CHECKPOINT)
    host, port = _address(options, options.listen)
    door = Door(
        host=host,
        port=port,
        certificate=options.folder / SERVER,
        key=options.folder / SERVER_KEY,
        nodes={
            party.name: _read(options.folder / NODES / f"{party.name}.pem")
            for party in roster.clients
        },
        python=courier.flower_python(options.flower_python),
        log=options.folder / LOG,
    )
    start = _start(options, roster)
    with federated_parties.coordinator_of(
        roster, key, start, folder=options.folder, seconds=options.wait
    ) as coordinator:
        rounds = roster.plan["rounds"]
        with (
            state.interrupts() as interrupted,
            TaskProgress("round", begun=coordinator.begun, quiet=options.quiet) as progress,
        ):

            def seen(run: Coordinator) -> None:
                missing = run.attempts[-1].missing if run.attempts else ()
                progress.show(run.begun, rounds, f"  without {', '.join(missing)}" * bool(missing))

            try:
                resident.coordinate(coordinator, door, seen=seen, stop=interrupted)
            except KeyboardInterrupt:
                raise _interrupted(coordinator.begun, "saved") from None
        if coordinator.phase == "paused":
            raise _interrupted(coordinator.begun, "saved")
        declared = federated_parties.declared_of(
            roster, start, name=options.name, hyperparameter_tuning=tuned_on(options)
        )
        claim = federated_parties.claim_of(roster, coordinator, declared)
        model = federated_parties.trained(roster, coordinator, start)
        federated_parties.save(options.folder / CHECKPOINT, model, claim)
    print(f"Checkpoint: {printable(options.folder / CHECKPOINT)}")
    return 0


def run_client(options: argparse.Namespace) -> int:
    """Takes part in a run until its coordinator ends it."""
    from hushdoc_training.commands import kie_data
    from hushdoc_training.data import dataset
    from hushdoc_training.federated.client import Limits
    from hushdoc_training.federated.flower import courier, resident
    from hushdoc_training.federated.flower.transport import Way
    from hushdoc_training.federated.plan import FEDAVG, FederatedPlan
    from hushdoc_training.ledger.ledger import Ledger
    from hushdoc_training.recipes import federated_parties
    from hushdoc_training.recipes.federated_tasks import task_of
    from hushdoc_training.recipes.kie.training import best_device
    from hushdoc_training.runs import state

    source = dataset.Source(location=options.data, documents=options.documents, seed=options.seed)
    if options.documents is not None and not source.is_invented:
        options.parser.error(FIRST_DOCUMENTS)
    if options.documents_changed and options.ledger is None:
        options.parser.error("--documents-changed needs --ledger")
    roster, key = approved(options)
    host, port = _address(options, options.server)
    authority = _read(options.folder / AUTHORITY)
    node_key = _read(options.folder / NODE_KEY, private=True)
    plan = FederatedPlan.from_dict(roster.plan)
    anything = plan.algorithm == FEDAVG and options.max_epsilon == math.inf
    limits = Limits(
        max_epsilon=None if anything else options.max_epsilon, max_delta=options.max_delta
    )
    limits.require(plan)  # before a document is read, and a round reserved
    if plan.epsilon is not None and tuned_on(options, kie_data.corpus(source)) == "unaccounted":
        print(LOOKED_AT, file=sys.stderr)
    way = Way(
        server=f"{host}:{port}",
        authority=authority,
        key=node_key,
        python=courier.flower_python(options.flower_python),
        log=options.folder / LOG,
        wait=options.wait,
    )
    start = _start(options, roster)
    documents = dataset.read(source, windows=plan.privacy_unit == "sequence")
    if documents:  # whoever has none takes part all the same
        task_of(start).readable(documents, start)  # or a round would fail by a document
    ledger = None if options.ledger is None else Ledger.open(options.ledger)
    update = federated_parties.update_of(roster, start, documents, device=best_device())
    with federated_parties.account_of(
        options.folder / STATE,
        roster,
        start,
        documents,
        ledger,
        documents_changed=options.documents_changed,
    ) as account:
        client = federated_parties.client_of(
            roster, key, update, account=account, limits=limits, seconds=options.wait
        )

        def report(why: str) -> None:
            print(printable(why, 1000), file=sys.stderr)

        with state.interrupts() as interrupted:
            try:
                resident.take_part(client, way, report, stop=interrupted)
            except KeyboardInterrupt:
                raise _interrupted(account.taken, "charged") from None
        if not client.closed:
            raise _interrupted(account.taken, "charged")
        print(f"The run has ended; {account.taken} rounds were charged.")
    return 0


def _interrupted(rounds: int, done: str) -> KeyboardInterrupt:
    """Returns what ends a command after Ctrl-C, and says how to go on."""
    return KeyboardInterrupt(
        f"after {counted(rounds, 'round')}, {done}; go on with the same command"
    )


def approved(options: argparse.Namespace) -> tuple[Roster, PrivateKey]:
    """Returns the roster that was approved, and this party's key of it."""
    from hushdoc.signing import keys
    from hushdoc_training.federated import roster as rosters
    from hushdoc_training.federated.standing import ROSTER
    from hushdoc_training.recipes import federated_parties

    roster = rosters.load(options.folder / ROSTER)
    roster.require_approved(options.approve)
    key = keys.load_private_key(options.folder / federated_parties.KEY)
    roster.party_of(key)
    federated_parties.require_readable(roster)
    return roster, key


def _start(options: argparse.Namespace, roster: Roster) -> Start:
    """Returns the roster's start: what it reads and how is the roster's, weights are compared."""
    from hushdoc.labels import LabelSet
    from hushdoc_training.recipes import federated_parties
    from hushdoc_training.recipes.docvqa import start as docvqa_start
    from hushdoc_training.recipes.kie import start as kie_start

    found: Start
    if roster.task["task"] == "docvqa":
        asking = roster.task["asking"]
        found = docvqa_start.start_from(
            options.start,
            max_tokens=asking["max_tokens"],
            max_question=asking["max_question"],
            box_level=asking["box_level"],
            seed=options.seed,
        )
    else:
        prepared = roster.task["preprocessing"]
        found = kie_start.start_from(
            options.start,
            LabelSet(fields=tuple(roster.task["labels"])),
            max_tokens=prepared["max_tokens"],
            box_level=prepared["box_level"],
            word_order=prepared["word_order"],
            seed=options.seed,
        )
    federated_parties.require_start(roster, found)
    return found


def _address(options: argparse.Namespace, given: str | None) -> tuple[str, int]:
    text = given or _read(options.folder / ADDRESS).decode("utf-8", "replace").strip()
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        options.parser.error(f"{printable(text)} is no address; expected HOST:PORT")
    return host, int(port)


def _read(path: Path, *, private: bool = False) -> bytes:
    from hushdoc.errors import InputError
    from hushdoc.system import atomic_files

    try:
        return atomic_files.read_file(path, max_bytes=1 << 16, private=private)
    except OSError as error:
        raise InputError(
            f"'{printable(path)}' can't be read: {error.strerror or error}. It is one of the files "
            "that `hushdoc federated init --address` writes for a party."
        ) from error
