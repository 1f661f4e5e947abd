"""Parsers of the command line: usual options under --help, all of them under --help-all."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from hushdoc.arguments import printable
from hushdoc.errors import HushdocError

Subcommands: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""What a subcommand is added to."""

Earlier: TypeAlias = "Callable[[CommandParser, Sequence[str]], Sequence[str]]"
"""Returns the arguments that count as if they stood before those that are given."""


class CommandParser(argparse.ArgumentParser):
    """A parser whose --help leaves out expert options, and that reports wrong usage in one line."""

    def __init__(self, *, sections: Mapping[str, Sequence[str]] | None = None, **settings: Any):
        """Adds --help-all; subcommands are listed under the headings of `sections`."""
        super().__init__(allow_abbrev=False, **settings)
        self._sections = sections
        self._expert: set[str] = set()
        self._outputs: set[str] = set()
        self.earlier: Earlier | None = None
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show every option and exit")
        self.set_defaults(refuse_usage=self.error)

    def mark_expert(self, *options: str) -> None:
        """Hides options from --help; they are parsed all the same."""
        known = {name for action in self._actions for name in action.option_strings}
        if unknown := set(options) - known:
            raise ValueError(f"{', '.join(sorted(unknown))} is not an option of '{self.prog}'.")
        self._expert.update(options)

    def mark_output(self, *options: str) -> None:
        """Has options refused that name a file to write which another argument names, too."""
        self._outputs.update(option.lstrip("-").replace("-", "_") for option in options)

    def is_expert(self, action: argparse.Action) -> bool:
        """Returns whether --help leaves an option out."""
        return not self._expert.isdisjoint(action.option_strings)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parses what `earlier` returns, as a configuration has it, and then what is given."""
        if self.earlier is not None and args is not None:
            try:
                args = [*self.earlier(self, args), *args]
            except HushdocError as error:
                line = printable(error)
                self.exit(error.exit_code, f"{self.prog}: {error.code}: {line}\n")
        found, rest = super().parse_known_args(args, namespace)
        for name in sorted(self._outputs):
            self._require_apart(name, vars(found))
        return found, rest

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parses all arguments; the subcommand that was given one it does not know says so."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            found.refuse_usage(f"unrecognized arguments: {' '.join(rest)}")
        return found

    def _require_apart(self, output: str, values: Mapping[str, Any]) -> None:
        """Ends the program where another argument names an output, or it is in the artifact."""
        if values[output] in (None, Path()):
            return
        place = Path(os.path.realpath(values[output]))
        for name in values.keys() - {output}:
            listed = values[name] if isinstance(values[name], list) else [values[name]]
            paths = [one for one in listed if isinstance(one, (str, Path)) and os.path.exists(one)]
            named = {Path(os.path.realpath(path)) for path in paths}
            if place in named or (name == "artifact" and not named.isdisjoint(place.parents)):
                self.error(
                    f"--{output.replace('_', '-')} names '{values[output]}', which is read here or "
                    "part of the artifact; name another file"
                )

    def error(self, message: str) -> NoReturn:
        """Ends the program with one line and exit code 2."""
        line = printable(message).rstrip(".")
        self.exit(2, f"{self.prog}: error: {line}. See `{self.prog} --help`.\n")

    def format_help(self) -> str:
        """Returns the help with the usual options."""
        return self._help([action for action in self._actions if not self.is_expert(action)])

    def format_full_help(self) -> str:
        """Returns the help with every option, and that of every subcommand below."""
        below = (parser.format_full_help() for _, parser in self.subcommands())
        return "\n".join((self._help(self._actions), *below))

    def subcommands(self) -> Iterator[tuple[str, CommandParser]]:
        """Yields the name and parser of each subcommand."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.items()

    def _help(self, actions: Sequence[argparse.Action]) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self._action_groups:
            listed = [action for action in group._group_actions if action in actions]
            for title, members in self._sectioned(group.title, listed):
                formatter.start_section(title)
                formatter.add_text(group.description)
                formatter.add_arguments(members)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _sectioned(
        self, title: str | None, actions: list[argparse.Action]
    ) -> Iterator[tuple[str | None, list[argparse.Action]]]:
        """Yields the headings of a group of options, or of the subcommands by section."""
        below = [item for item in actions if isinstance(item, argparse._SubParsersAction)]
        if self._sections is None or not below:
            if actions:
                yield title, actions
            return
        listed = {item.dest: item for item in below[0]._get_subactions()}
        for section, names in self._sections.items():
            yield section, [listed.pop(name) for name in names if name in listed]
        if listed:
            yield "further subcommands", list(listed.values())


class _HelpAll(argparse.Action):
    """Prints the full help and exits."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> NoReturn:
        assert isinstance(parser, CommandParser)
        sys.stdout.write(parser.format_full_help())
        parser.exit()


@contextmanager
def usage_errors(options: argparse.Namespace) -> Iterator[None]:
    """Turns a ValueError, about what an option gave, into one line and exit code 2."""
    try:
        yield
    except ValueError as error:
        options.refuse_usage(str(error))
        raise
