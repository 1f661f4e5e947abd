"""Configurations: files of TOML that set the options of a command, before its command line does.

The options of the parser are the only table of settings: a key is the name of an option without its
dashes, and a value has the type that the option takes. What is given on the command line goes
before what a file says, and that before a preset.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushdoc.arguments import BACKSLASHES, has_controls, printable, short_repr
from hushdoc.commands.parsing import CommandParser
from hushdoc.errors import InputError
from hushdoc_training.commands import training_options

_NEVER_SET = ("help", "help-all", "config")
_PATHS = ("data", "start", "test", "schema", "ledger", "synthetic", "image-encoder")
_LEARNED_FROM = ("data", "start", "synthetic", "image-encoder")
"""What a file's `public-overlap` speaks of (docs/adr/0025)."""

_OF_ONE_RUN = ("out", "resume", "plan", "suggest", "quiet")
"""What a run does not leave in its configuration: they are of one call of the command."""

_KINDS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    training_options.seed: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


def add_option(group: argparse._ActionsContainer) -> None:
    """Adds --config, which `earlier` reads."""
    group.add_argument(
        "--config",
        metavar="FILE",
        help="TOML with any of these options, as epsilon = 8; those given here go before it",
    )


def earlier(
    parser: CommandParser,
    given: Sequence[str],
    presets: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Returns the arguments that a configuration and a preset stand for, but for those given.

    Raises:
        InputError: BAD_CONFIG, where the file can't be read, or a key of it is unknown, stands
            twice or has a value of another type (the message names the line and the nearest key),
            or it declares no overlap for other data than the command line names.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--config", nargs="?")
    first.add_argument("--preset", nargs="?")
    for name in _LEARNED_FROM:
        first.add_argument(f"--{name}", nargs="?")
    named, _ = first.parse_known_args(list(given))
    options = options_of(parser)
    read = {} if named.config is None else _read(Path(named.config), options)
    preset = presets.get(named.preset or read.get("preset", ""), {})
    taken = _given(options, given)
    note_typed(parser, given)
    if read.get("public-overlap") == "none" and id(options["public-overlap"]) not in taken:
        _require_declared_of(vars(named), read)
    arguments: list[str] = []
    for layer in (read, preset):
        names = {
            name
            for name, value in layer.items()
            if not taken & _rivals(parser, options[name]) and not _is_unset(options[name], value)
        }
        arguments = [*_arguments(options, layer, names), *arguments]
        taken |= {id(options[name]) for name in names}
    return arguments


def _require_declared_of(named: Mapping[str, Any], read: Mapping[str, Any]) -> None:
    """Refuses a file that declares no overlap, where the command line names other data than it."""
    for name in _LEARNED_FROM:
        value = named[name.replace("-", "_")]
        if value is not None and value != read.get(name, value):
            raise InputError(
                f"--{name} is '{printable(value)}', and the configuration declares public-overlap "
                f"\"none\" for '{printable(read[name])}'. Give --public-overlap for what is read "
                "now.",
                code="BAD_CONFIG",
            )


def note_typed(parser: CommandParser, given: Sequence[str]) -> list[str]:
    """Has the parsed options name those that stand on a command line, as `typed`."""
    options = options_of(parser)
    there = _given(options, given)
    parser.set_defaults(typed={name for name, action in options.items() if id(action) in there})
    return []


def keep_of_start(options: argparse.Namespace, kept: Mapping[str, Any]) -> None:
    """Refuses typed options that say otherwise than the run in --start, which keeps its own.

    Else its own are noted as those of this run.
    """
    for name, value in kept.items():
        dest = name.replace("-", "_")
        if name in options.typed and getattr(options, dest) != value:
            options.refuse_usage(
                f"the run in --start was trained with --{name} {value}, and keeps that: leave "
                f"--{name} out, or start from published weights"
            )
        setattr(options, dest, value)


def options_of(parser: CommandParser) -> dict[str, argparse.Action]:
    """Returns the options that a configuration may set, by their names without dashes."""
    named = {
        next(option for option in action.option_strings if option.startswith("--"))[2:]: action
        for action in parser._actions
        if action.option_strings
    }
    return {name: action for name, action in named.items() if name not in _NEVER_SET}


def notes_of(options: argparse.Namespace, *settings: Any) -> dict[str, str]:
    """Returns what a run keeps beside itself: its configuration and its environment.

    Options that nobody gave are those that a plan or settings (dataclasses) have by the same names.
    Those that this kind of training does not use are left out.
    """
    from hushdoc_training.runs.environment import environment
    from hushdoc_training.runs.run_folder import CONFIGURATION, ENVIRONMENT

    lines = []
    for name, action in options_of(options.parser).items():
        if name in options.unused:
            continue
        value = getattr(options, action.dest)
        for each in settings if value is None else ():
            value = getattr(each, action.dest, value)
        if name not in _OF_ONE_RUN and value is not None and not _is_outdone(action, options):
            lines.append(line(name, float(value) if action.type is float else value))
    return {CONFIGURATION: "\n".join(lines) + "\n", ENVIRONMENT: environment()}


def set_otherwise(options: argparse.Namespace, own: Mapping[str, object]) -> str:
    """Returns a further line of what options set otherwise than a recipe or preset; none is ''."""
    found = {name: getattr(options, name.replace("-", "_"), None) for name in own}
    other = [line(n, value) for n, value in found.items() if value not in (None, own[n])]
    return f"\n            but for {', '.join(other)}" if other else ""


def line(name: str, value: object) -> str:
    """Returns a line of TOML."""
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    if isinstance(value, int | float):
        return f"{name} = {value!r}"
    if isinstance(value, list):
        return f"{name} = [{', '.join(map(_quoted, value))}]"
    return f"{name} = {_quoted(value)}"


def _quoted(value: object) -> str:
    # The escapes of JSON are those of TOML, which wants one for DEL as well.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(path: Path, options: Mapping[str, argparse.Action]) -> dict[str, Any]:
    name = f"'{printable(path)}'"
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except (OSError, RecursionError, ValueError) as error:
        hint = (
            f". {BACKSLASHES}"
            if isinstance(error, tomllib.TOMLDecodeError) and "\\" in text
            else ""
        )
        raise _bad(f"{name} can't be read as TOML: {_problem(path, error)}{hint}") from error
    for key, value in found.items():
        where = f"{name}{_line_of(text, key)}"
        if isinstance(value, dict) and key not in options:
            raise _bad(f"{where} has a table '{printable(key)}'; expected keys outside of tables")
        if key not in options:
            raise _bad(
                f"{where} sets '{printable(key)}', which is no option; the nearest is "
                f"'{_nearest(key, options)}'"
            )
        if (expected := _refused(options[key], value)) is not None:
            raise _bad(f"{where} sets '{key}' to {short_repr(value)}; expected {expected}")
        if key in _PATHS and has_controls(value):
            raise _bad(f"{where} sets '{key}' to {short_repr(value)}. {BACKSLASHES}")
    return found


def _bad(problem: str) -> InputError:
    return InputError(
        f"{problem}. Keys are options of the command without dashes; correct the file.",
        code="BAD_CONFIG",
    )


def _problem(path: Path, error: Exception) -> str:
    """Returns what is wrong with a file, with the key that stands twice where one does."""
    place = re.search(r"at line (\d+)", str(error))
    if place is None or "overwrite" not in str(error):
        return printable(error)
    number = int(place[1])
    before = path.read_text(encoding="utf-8").splitlines()[:number]
    keys = [key[1] for each in before if (key := re.match(r"\s*\[*[\s\"']*([\w-]+)", each))]
    return f"line {number} sets '{printable(keys[-1])}' again" if keys else printable(error)


def _line_of(text: str, key: str) -> str:
    """Returns the line that sets a key, in words; nothing where it is not found."""
    wanted = re.compile(rf"\s*\[*[\s\"']*{re.escape(key)}[\s\"']*[=.\]]")
    lines = (number for number, each in enumerate(text.splitlines(), 1) if wanted.match(each))
    number = next(lines, None)
    return "" if number is None else f", line {number},"


def _nearest(word: object, names: Iterable[str]) -> str:
    return difflib.get_close_matches(str(word), list(names), n=1, cutoff=0.0)[0]


def _refused(action: argparse.Action, value: Any) -> str | None:
    """Returns what an option expects instead of a value; None where it takes it."""
    if action.nargs == 0:
        return None if isinstance(value, bool) else "true or false"
    if isinstance(action, argparse._AppendAction):
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return None if texts else 'a list of texts, as ["date", "total"]'
    types, words = _KINDS.get(action.type, ((str,), "a text"))
    if isinstance(value, bool) or not isinstance(value, types):
        return words
    if action.choices is not None and value not in action.choices:
        return (
            f"one of {', '.join(action.choices)}; the nearest is {_nearest(value, action.choices)}"
        )
    return None


def _given(options: Mapping[str, argparse.Action], given: Sequence[str]) -> set[int]:
    """Returns the options that stand on a command line."""
    words = {argument.split("=", 1)[0] for argument in given}
    return {id(action) for action in options.values() if words & {*action.option_strings}}


def _is_unset(action: argparse.Action, value: Any) -> bool:
    """Returns whether a value leaves out an option that can only be given."""
    return value is False and not isinstance(action, argparse.BooleanOptionalAction)


def _rivals(parser: CommandParser, action: argparse.Action) -> set[int]:
    """Returns an option and those that it excludes."""
    groups = (group._group_actions for group in parser._mutually_exclusive_groups)
    return {id(action), *(id(each) for group in groups if action in group for each in group)}


def _arguments(
    options: Mapping[str, argparse.Action], layer: Mapping[str, Any], names: Iterable[str]
) -> list[str]:
    arguments = []
    for name in sorted(names):
        value, strings = layer[name], options[name].option_strings
        if isinstance(value, bool):
            arguments.append(strings[0] if value else strings[1])
        elif isinstance(value, list):
            arguments += [f"{strings[0]}={item}" for item in value]
        else:
            arguments.append(f"{strings[0]}={value}")
    return arguments


def _is_outdone(action: argparse.Action, options: argparse.Namespace) -> bool:
    """Returns whether an option stands at its default while one that it excludes does not."""
    groups = (group._group_actions for group in options.parser._mutually_exclusive_groups)
    rivals = [each for group in groups if action in group for each in group]
    changed = [each for each in rivals if getattr(options, each.dest) != each.default]
    return bool(changed) and action not in changed
