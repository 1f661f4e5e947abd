"""The subcommand `federated`: rosters, simulations and where a federated run stands."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushdoc.arguments import counted, printable
from hushdoc.commands.parsing import CommandParser, Subcommands, usage_errors
from hushdoc.errors import InputError
from hushdoc_training.commands import (
    configuration,
    federated_evidence,
    federated_network,
    kie_data,
)
from hushdoc_training.commands.training_options import (
    FIRST_DOCUMENTS,
    PRIVATE_DOCUMENTS,
    add_choice,
    add_max_tokens,
    add_number,
    add_out,
    add_overlap,
    add_tuned_on,
    print_audits,
    require_installed,
    seed,
    tuned_on,
    warn_of_overlap,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hushdoc.labels import LabelledDocument
    from hushdoc_training.data.dataset import Source
    from hushdoc_training.federated.partition import Partition
    from hushdoc_training.federated.plan import FederatedPlan
    from hushdoc_training.recipes.federated_parties import FederatedSettings
    from hushdoc_training.recipes.federated_tasks import Start

DESCRIPTION = """Trains one model over the documents of several parties, none of whom shows them.

  hushdoc federated simulate --data invented:form --clients 4 --rounds 20 --out runs/simulated
  hushdoc federated init runs/acme --label date --label total --client north --client south
  hushdoc federated status runs/simulated
  hushdoc federated server runs/acme/coordinator --approve DIGEST
  hushdoc federated client north --approve DIGEST --data forms --ledger forms.ledger
  hushdoc federated countersign north model --approve DIGEST --receipts receipts

Each client sends clipped sums with its share of the noise, masked so that the coordinator learns
their sum alone. `simulate` runs all parties in one process, on documents that it divides among
them; its certificate says so. `init` writes what real parties begin with: a roster, which all of
them approve by its digest, and a folder for each; `server` and `client` are one party each, on
machines of their own, over TLS. Clients `countersign` a certificate that says what they said, and
whoever has roster and receipts can `check` it."""

ALGORITHMS = ("feam-dp", "fl-provider-dp", "fedavg-dp", "fedavg")  # plan.ALGORITHMS, without torch
SCALABLE = ("feam-dp", "fedavg-dp")  # those that clip gradients
TASKS = ("kie", "docvqa")  # federated_tasks.TASKS, without torch
_MODES = ("all-or-nothing", "threshold", "individual-updates")
_EACH_WITH_PROVIDER = (
    "each client has documents of some provider, also in neighbouring data sets: a run of "
    "documents divided by their provider is refused where a client is left without any"
)
_PARTITIONS = ("equal", "provider", "size", "dirichlet")


def register(subcommands: Subcommands) -> None:
    """Adds `hushdoc federated`; torch is imported only when it runs."""
    parser = subcommands.add_parser(
        "federated",
        help="train one model over the documents of several parties",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    _register_simulate(actions)
    _register_init(actions)
    federated_network.register(actions)
    federated_evidence.register(actions)
    status = actions.add_parser(
        "status",
        help="print where a federated run stands",
        description="Prints the parties of a run with their keys, its plan, the public data of its "
        "start, its rounds, and who missed which.",
    )
    status.add_argument("folder", type=Path, metavar="FOLDER", help="the run's folder")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    status.set_defaults(run=run_status)


def _register_simulate(actions: Subcommands) -> None:
    parser = actions.add_parser(
        "simulate",
        help="run all parties in one process",
        description="Divides documents among clients and trains as they would, in one process. "
        "Ctrl-C finishes the round and saves; go on with --resume.",
    )
    group = parser.add_argument_group("documents")
    group.add_argument("--data", required=True, metavar="SOURCE", help="as for `hushdoc train kie`")
    group.add_argument(
        "--documents", type=int, metavar="N", help="number of invented documents (default: 1000)"
    )
    group.add_argument(
        "--name",
        help=f"name of the documents in the certificate (default: '{PRIVATE_DOCUMENTS}'; --data "
        "for invented ones)",
    )
    add_number(group, "--clients", "K", 4, "number of clients")
    add_choice(group, "--partition", _PARTITIONS, "equal", "how documents are divided among them")
    add_number(
        group, "--concentration", "A", 1.0, "of the Dirichlet partition: small for unlike clients"
    )
    add_number(
        group, "--seed", "N", 0, "seed of documents, partition and weights, never of privacy noise"
    )
    add_out(group)
    add_number(
        group,
        "--canaries",
        "N",
        0,
        "with --task docvqa: invented providers that take part by coins and bound this run's "
        "epsilon from below",
    )
    group.add_argument(
        "--resume", action="store_true", help="continue the interrupted run in --out"
    )
    add_tuned_on(parser, group)
    group.add_argument("--quiet", action="store_true", help="show no progress")
    _add_plan(parser)
    parser.earlier = configuration.note_typed
    parser.set_defaults(run=run_simulate, parser=parser, extra="training")


def _register_init(actions: Subcommands) -> None:
    parser = actions.add_parser(
        "init",
        help="write the roster of a new run, and a folder with a key for each party",
        description="Writes a folder for each party: the signed roster and, unless its owner made "
        "one, a private key, which goes to that party alone. All parties compare the roster's "
        "digest and approve it.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new folder")
    parser.add_argument(
        "--client",
        action="append",
        required=True,
        metavar="NAME[=KEY]",
        dest="names",
        help="a client, with the file of its public Ed25519 key if its owner made one; once for "
        "each",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="where clients will reach the server; writes certificates and keys for the network",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="seed of fresh weights (default: 0)"
    )
    _add_plan(parser)
    parser.earlier = configuration.note_typed
    parser.set_defaults(run=run_init, parser=parser, extra="training")


def _add_plan(parser: CommandParser) -> None:
    """Adds what is planned and trained; a roster has all of it."""
    group = parser.add_argument_group("plan")
    add_choice(group, "--algorithm", ALGORITHMS, "feam-dp", "what clients compute")
    add_number(group, "--rounds", "T", 100, "number of rounds, aborted ones included")
    add_choice(
        group,
        "--participation",
        ("all", "rota", "drawn"),
        "all",
        "which clients take part in a round: all; by turns; or drawn anew",
    )
    group.add_argument(
        "--clients-per-round", type=int, metavar="M", help="clients of a round (default: all)"
    )
    add_number(
        group, "--sampling-rate", "Q", 0.2, "probability of each protected unit to be in a round"
    )
    add_choice(
        group,
        "--privacy-unit",
        ("document", "sequence", "provider"),
        "document",
        "what the guarantee protects; of fl-provider-dp always provider",
    )
    add_number(group, "--epsilon", "E", 8.0, "privacy budget, against every adversary")
    add_number(group, "--delta", "D", 1e-5, "delta of the guarantee")
    add_number(group, "--clipping-norm", "C", 0.1, "norm to which what a unit adds is clipped")
    add_number(
        group, "--expected-records", "N", 32, "divisor of the sum: about how many units a round has"
    )
    add_choice(
        group,
        "--mode",
        _MODES,
        "all-or-nothing",
        "how updates are added up: by masks that need all clients of a round, by masks that "
        "survive some, or in the coordinator's sight",
    )
    add_number(group, "--silent", "T", 0, "clients of a round that may stay silent (threshold)")
    add_number(group, "--colluding", "C", 0, "clients that may tell all they know to others")
    add_number(group, "--places", "G", 1, "places that one unit may have: clients, or records")
    add_number(group, "--local-steps", "N", 1, "of fedavg-dp: private steps of a client in a round")
    add_choice(group, "--accountant", ("pld", "rdp"), "pld", "how noise is calibrated")
    group.add_argument(
        "--plan",
        action="store_true",
        help="print the plan and what each adversary learns; then end",
    )
    group = parser.add_argument_group("model")
    add_choice(group, "--task", TASKS, "kie", "what is trained: fields of forms, or questions")
    group.add_argument("--label", action="append", metavar="NAME", help="name of a field")
    group.add_argument(
        "--schema", metavar="FILE", help="file of such names, or the name of a corpus that has them"
    )
    group.add_argument(
        "--start",
        default="minilm",
        metavar="MODEL",
        help="model to start from, as for `hushdoc train kie` (default: minilm)",
    )
    add_overlap(group)
    add_max_tokens(group)
    add_choice(group, "--box-level", ("word", "segment"), "word", "which boxes the model reads")
    add_choice(group, "--word-order", ("given", "reading"), "given", "how words are sorted")
    group.add_argument(
        "--trained",
        default="encoder",
        metavar="WHAT",
        help="which parameters are trained and sent, as for `hushdoc train kie` (default: encoder)",
    )
    add_choice(
        group,
        "--scaling",
        ("none", "public"),
        "none",
        "public: of feam-dp and fedavg-dp with --trained output, the output layer, or of a pointer "
        "its reader's last layer, learns in directions that invented documents vary in",
    )
    group.add_argument(
        "--directions",
        type=int,
        metavar="N",
        help="most directions of --scaling public: more can learn more, and noise falls on each "
        "(default: 128, of questions 16)",
    )
    group.add_argument(
        "--learning-rate",
        type=float,
        metavar="RATE",
        help="step size of the server, or of clients (default: 5e-4; with --scaling public "
        "0.2, of questions 0.4)",
    )
    add_number(group, "--passes", "N", 1, "of fl-provider-dp and fedavg: local passes in a round")
    add_number(group, "--batch-size", "N", 8, "windows of a local step")
    parser.mark_expert(
        "--places", "--local-steps", "--accountant", "--max-tokens", "--box-level", "--word-order"
    )


def run_simulate(options: argparse.Namespace) -> int:
    """Simulates a run; Ctrl-C is a KeyboardInterrupt that says how to go on."""
    require_installed()
    from hushdoc_training.commands import kie_data
    from hushdoc_training.data import dataset
    from hushdoc_training.recipes import federated_parties, federated_simulation, starts

    if options.canaries < 0 or (
        options.canaries and (options.task != "docvqa" or options.algorithm == "fedavg")
    ):
        options.parser.error(
            "--canaries is a number from 0, for --task docvqa and an algorithm with privacy"
        )
    if (options.privacy_unit, options.partition) == ("sequence", "dirichlet"):
        options.parser.error(
            "--partition dirichlet divides documents by their labels, and a window less may change "
            "these and move all others of its document; expected another with --privacy-unit "
            "sequence"
        )
    source = dataset.Source(location=options.data, documents=options.documents, seed=options.seed)
    if options.documents is not None and not source.is_invented:
        options.parser.error(FIRST_DOCUMENTS)
    documents = dataset.read(source, windows=options.privacy_unit == "sequence")
    start = starts.with_overlap(_start(options, documents, source), options.public_overlap)
    settings = _settings(options)
    plan = _plan(options, federated_parties.numbers_of(start, settings, options.algorithm))
    if options.plan:
        _print_plan(plan)
        return 0
    weights = _weights(options, start)
    if plan.epsilon is not None:
        warn_of_overlap((*starts.history(start), *weights))
    shares = federated_simulation.divided(documents, _partition(options, documents))
    outcome = federated_simulation.simulate(
        start,
        shares,
        plan,
        settings,
        out=options.out,
        name=options.name or (options.data if source.is_invented else PRIVATE_DOCUMENTS),
        public_data=weights,
        hyperparameter_tuning=tuned_on(options, kie_data.corpus(source)),
        caveats=kie_data.kinship(source, options.name or "", start.claim),
        assumes=(_EACH_WITH_PROVIDER,) if options.partition == "provider" else (),
        resume=options.resume,
        quiet=options.quiet,
        num_canaries=options.canaries,
    )
    outcome.require_finished()
    print(f"Checkpoint: {printable(options.out / 'checkpoint')}")
    print_audits(options.out)
    return 0


def run_init(options: argparse.Namespace) -> int:
    """Writes the folders of all parties."""
    require_installed()
    from hushdoc.signing import keys
    from hushdoc.system import atomic_files
    from hushdoc_training.federated import roster as rosters
    from hushdoc_training.federated.roster import COORDINATOR, Party
    from hushdoc_training.federated.standing import ROSTER
    from hushdoc_training.recipes import federated_parties, starts

    start = starts.with_overlap(_start(options, (), None), options.public_overlap)
    settings = _settings(options)
    options.clients = len(options.names)
    plan = _plan(options, federated_parties.numbers_of(start, settings, options.algorithm))
    if options.plan:
        _print_plan(plan)
        return 0
    weights = _weights(options, start)
    if plan.epsilon is not None:
        warn_of_overlap((*starts.history(start), *weights))
    secret, parties = {COORDINATOR: keys.generate_key()}, []
    for given in options.names:
        name, _, path = given.partition("=")
        if path:
            algorithm, public = keys.load_public_key(Path(path))
            if algorithm != keys.ED25519:
                options.parser.error(f"the key of {name} is {algorithm}; expected {keys.ED25519}")
            parties.append(Party(name=name, public_key=public.hex()))
        else:
            secret[name] = keys.generate_key()
            parties.append(Party.of(name, secret[name]))
    made = federated_parties.roster_of(
        plan,
        start,
        settings,
        coordinator=Party.of(COORDINATOR, secret[COORDINATOR]),
        clients=parties,
        public_data=weights,
    )
    with atomic_files.new_folder(options.folder) as partial:
        for party in made.parties:
            (partial / party.name).mkdir()
            rosters.save(partial / party.name / ROSTER, made, secret[COORDINATOR])
            if party.name in secret:
                path = partial / party.name / federated_parties.KEY
                keys.write_private_key(secret[party.name], path)
        if options.address is not None:
            federated_network.write_doors(
                partial, [party.name for party in parties], options.address
            )
    print(f"Roster:   {made.digest}  (all parties compare this digest, and approve it)")
    for party in made.parties:
        about = "its roster and its private key" if party.name in secret else "its roster"
        print(f"{printable(options.folder / party.name)}: {about}, for {party.name} alone")
    return 0


def run_status(options: argparse.Namespace) -> int:
    """Prints where a run stands, from its files alone."""
    from hushdoc.certificate.claim import PublicData
    from hushdoc_training.federated import standing

    found = standing.of(options.folder)
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=True, allow_nan=False))
        return 0
    print(f"Run {found['run']}, roster {found['roster']}")
    plan = found["plan"]
    print(f"  {plan['algorithm']}, {counted(plan['clients'], 'client')}, mode {plan['mode']}")
    for name, key in found["keys"].items():
        print(f"  party     {name}, key id {key}")
    for told in found["task"].get("public_data", ()):
        data = PublicData.from_dict(told, "public_data")
        print(f"  public    {printable(data.name)}, overlap {data.overlap_with_protected}")
    print(f"  privacy   {_promised(plan)}")
    print(
        f"  rounds    {found['begun']} of {plan['rounds']} begun, {len(found['aborted'])} aborted"
    )
    for client, rounds in found["missed"].items():
        print(f"  {client} missed {counted(rounds, 'round')}")
    print(f"  checkpoint {'written' if found['finished'] else 'not written yet'}")
    return 0


def _promised(plan: Mapping[str, Any]) -> str:
    """Returns what a roster's plan says of privacy: what who approves it agrees to."""
    if plan["epsilon"] is None:
        return "none: no noise is added"
    return (
        f"epsilon {plan['epsilon']:g} at delta {plan['delta']:g} for each {plan['privacyUnit']} at "
        f"up to {counted(plan['places'], 'place')}, against {', '.join(plan['against'])}; of "
        f"{plan['clientsPerRound']} clients up to {plan['silent']} silent and "
        f"{plan['colluding']} colluding"
    )


def _start(
    options: argparse.Namespace, documents: Sequence[LabelledDocument], source: Source | None
) -> Start:
    if options.start in ("small", "tiny"):
        options.parser.error(
            f"--start {options.start} has no vocabulary; train it on public documents first"
        )
    if options.task == "docvqa":
        return _pointer_or_vt5(options)
    from hushdoc.labels import LabelSet
    from hushdoc_training.commands.training_options import declared_labels, warn_of_labels
    from hushdoc_training.recipes.kie import start as kie_start

    declared = declared_labels(options)
    labels: LabelSet | None = LabelSet(fields=tuple(declared)) if declared else None
    if labels is None and not kie_start.is_checkpoint(options.start):
        if source is None:
            options.parser.error("--label or --schema is needed: no document is read here")
        labels = LabelSet.from_documents(documents)
        if source is not None and source.is_invented:
            labels = LabelSet(fields=labels.fields)
        else:
            warn_of_labels()
    start = kie_start.start_from(
        options.start,
        labels,
        max_tokens=options.max_tokens,
        box_level=options.box_level,
        word_order=options.word_order,
        seed=options.seed,
    )
    if kie_start.is_checkpoint(options.start):
        configuration.keep_of_start(options, kie_data.settled(start))
    return start


def _pointer_or_vt5(options: argparse.Namespace) -> Start:
    from hushdoc_training.recipes.docvqa import start as docvqa_start

    if options.label or options.schema:
        options.parser.error("--label and --schema are of --task kie; questions have no labels")
    start = docvqa_start.start_from(
        options.start,
        max_tokens=options.max_tokens,
        box_level=options.box_level,
        seed=options.seed,
    )
    configuration.keep_of_start(options, {"max-tokens": start.asking.max_tokens})
    return start


def _settings(options: argparse.Namespace) -> FederatedSettings:
    from hushdoc_training.federated.updates import LocalTraining
    from hushdoc_training.recipes.docvqa import settings as docvqa_settings
    from hushdoc_training.recipes.federated_parties import FederatedSettings
    from hushdoc_training.recipes.kie import recipe
    from hushdoc_training.recipes.kie.settings import PrivateSettings

    scaled = options.scaling == "public"
    if scaled and (options.algorithm not in SCALABLE or options.trained != "output"):
        options.parser.error(
            f"--scaling public is of --trained output with {' or '.join(SCALABLE)}, which clip "
            "gradients"
        )
    rates = {"kie": recipe.RATES["output", "public"], "docvqa": docvqa_settings.ADAM_RATE}
    rate = rates[options.task] if scaled else recipe.OTHER_RATE
    rate = rate if options.learning_rate is None else options.learning_rate
    with usage_errors(options):
        return FederatedSettings(
            training=PrivateSettings(
                learning_rate=rate,
                trained=options.trained,
                scaling=options.scaling,
                directions=options.directions,
            ),
            local=LocalTraining(
                passes=options.passes, batch_size=options.batch_size, learning_rate=rate
            ),
        )


def _plan(options: argparse.Namespace, numbers: int) -> FederatedPlan:
    from hushdoc_training.federated.plan import FEDAVG, IN_THE_CLEAR, PROVIDER, FederatedPlan
    from hushdoc_training.federated.secure_sum import require_size
    from hushdoc_training.recipes import federated_tasks

    provider = options.algorithm == PROVIDER
    common: dict[str, Any] = {
        "algorithm": options.algorithm,
        "clients": options.clients,
        "clients_per_round": options.clients_per_round or options.clients,
        "rounds": options.rounds,
        "participation": options.participation,
        "local_steps": options.local_steps,
        "sampling_rate": options.sampling_rate,
        "silent": options.silent,
        "colluding": options.colluding,
        "mode": options.mode,
        "clipping_norm": options.clipping_norm,
        "expected_records": options.expected_records,
        "privacy_unit": "provider" if provider else options.privacy_unit,
        "places": options.places,
        "accountant": options.accountant,
        "numbers": numbers,
    }
    with usage_errors(options):
        if options.mode != IN_THE_CLEAR:
            require_size(common["clients_per_round"])
        if options.algorithm == FEDAVG:
            plan = FederatedPlan(**common, noise_multiplier=0.0, epsilon=None, delta=None)
        else:
            plan = FederatedPlan.calibrated(epsilon=options.epsilon, delta=options.delta, **common)
        federated_tasks.TASKS[options.task].require_unit(plan)
        return plan


def _print_plan(plan: FederatedPlan) -> None:
    """Prints a plan, and what each adversary learns by it."""
    print(
        f"{plan.algorithm}: {counted(plan.clients, 'client')}, {plan.clients_per_round} in each of "
        f"{plan.rounds} rounds ({plan.participation}), {plan.numbers} numbers of {plan.ring_bits} "
        "bits in an update"
    )
    if plan.epsilon is None:
        print("No privacy: no noise is added, and the certificate will say so.")
        return
    print(f"Noise multiplier {plan.noise_multiplier:.4g}, per {plan.privacy_unit}.")
    for whom in plan.against:
        spent = plan.epsilon_against(whom)
        print(f"  {whom:<17} epsilon {spent:.4g} at delta {plan.delta:g}")
    print("The same rates and rounds need this noise multiplier, by who takes part in a round:")
    for how, needed in _noise_by_participation(plan).items():
        print(f"  {how:<17} {needed}")


def _noise_by_participation(plan: FederatedPlan) -> dict[str, str]:
    """Returns the noise that a plan would need if clients took part in another way."""
    from dataclasses import fields

    from hushdoc_training.federated.participation import ALL, PARTICIPATIONS

    settings = {field.name: getattr(plan, field.name) for field in fields(plan)}
    del settings["noise_multiplier"]
    found = {}
    for how in PARTICIPATIONS:
        each = plan.clients if how == ALL else plan.clients_per_round
        other = {"participation": how, "clients_per_round": each, "most_rounds": None}
        try:
            made = type(plan).calibrated(**{**settings, **other})
            found[how] = f"{made.noise_multiplier:.4g}"
        except ValueError:  # a unit would have to be drawn more often than its client takes part
            found[how] = "not with this sampling rate"
    return found


def _partition(options: argparse.Namespace, documents: Sequence[LabelledDocument]) -> Partition:
    """Returns who holds which document: by that document, or its provider, alone."""
    from hushdoc_training import duplicates
    from hushdoc_training.data import providers
    from hushdoc_training.federated import partition

    by_provider, windows = options.partition == "provider", options.privacy_unit == "sequence"

    def key(labelled: LabelledDocument) -> bytes:
        provider = providers.folded(labelled.provider or "") if by_provider else ""
        pages = labelled.document.pages
        words = (word.text for page in pages for word in page.words)
        texts = [provider] if provider else [labelled.document.id] if windows else words
        return duplicates.key_of(duplicates.words_of(texts))

    def proportions(labelled: LabelledDocument) -> Sequence[float]:
        if options.partition == "dirichlet":
            of = {"concentration": options.concentration, "seed": options.seed}
            return partition.dirichlet(_commonest(labelled), options.clients, **of)
        unlike = options.partition == "size"
        return [float(number + 1) if unlike else 1.0 for number in range(options.clients)]

    keys = [key(labelled) for labelled in documents]
    shares = partition.apart(
        keys, [proportions(labelled) for labelled in documents], seed=options.seed
    )
    empty = [number + 1 for number, share in enumerate(shares) if not share]
    if by_provider and empty:
        raise InputError(
            f"Some of {options.clients} clients have no provider; expected one at least of each. "
            "Give fewer --clients, documents of more providers, or another --seed.",
            code="CLIENT_WITHOUT_PROVIDER",
        )
    return shares


def _commonest(labelled: LabelledDocument) -> str:
    """Returns the label that most spans of a document have."""
    found = sorted(span.label for span in labelled.spans)
    return max(found, key=found.count, default="")


def _weights(options: argparse.Namespace, start: Start) -> Any:
    from hushdoc_training.commands import kie_data

    return kie_data.published_weights(start.name, start.claim, options)
