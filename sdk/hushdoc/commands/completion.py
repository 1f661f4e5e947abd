"""The subcommand `completion`: prints a completion script for a shell, made from the parsers.

A script lists every subcommand, the usual and expert options of each, and the values of options
that have choices; anything else is completed as a file name. It starts no program.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from hushdoc.commands.parsing import CommandParser, Subcommands


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word that can be completed, with the values it takes where those are listed."""

    text: str
    about: str
    choices: tuple[str, ...] = ()
    takes_value: bool = False


Level = tuple[tuple[str, ...], tuple[Word, ...], tuple[Word, ...]]
"""Names of subcommands one below the other, the subcommands below them, and their options."""


def register(subcommands: Subcommands, program: CommandParser) -> None:
    """Adds `hushdoc completion` for a program."""
    parser = subcommands.add_parser(
        "completion",
        help="print a completion script for bash, zsh or fish",
        description="""Prints a completion script of all subcommands and options.

To install it for one user:

  bash   hushdoc completion bash > ~/.local/share/bash-completion/completions/hushdoc
  zsh    hushdoc completion zsh > a file _hushdoc in a folder of $fpath
  fish   hushdoc completion fish > ~/.config/fish/completions/hushdoc.fish""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=partial(run, program))


def run(program: CommandParser, options: argparse.Namespace) -> int:
    """Prints the script and returns 0."""
    print(script(program, options.shell), end="")
    return 0


def script(parser: CommandParser, shell: str) -> str:
    """Returns the completion script of a program for a shell."""
    return "\n".join(_SCRIPTS[shell](tuple(_levels(parser, ())))) + "\n"


def _levels(parser: CommandParser, names: tuple[str, ...]) -> Iterator[Level]:
    """Yields a parser and all below it."""
    below = dict(parser.subcommands())
    abouts = {
        item.dest: item.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for item in action._get_subactions()
    }
    options = tuple(
        Word(
            text=text,
            about=action.help or "",
            choices=tuple(map(str, action.choices or ())),
            takes_value=action.nargs != 0,
        )
        for action in parser._actions
        for text in action.option_strings
    )
    values = tuple(
        Word(text=str(choice), about=action.help or "")
        for action in parser._actions
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
        for choice in action.choices or ()
    )
    yield names, (*(Word(text=name, about=abouts[name]) for name in below), *values), options
    for name, child in below.items():
        yield from _levels(child, (*names, name))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _joined(words: tuple[Word, ...] | tuple[str, ...]) -> str:
    return " ".join(word.text if isinstance(word, Word) else word for word in words)


def _place(levels: tuple[Level, ...], indent: str) -> Iterator[str]:
    """Yields the branches of a shell's `case` that follow the subcommands in a line."""
    for names, _, _ in levels:
        if names:
            yield f"{indent}{_quoted(' '.join(names))}) place={_quoted(' '.join(names))} ;;"


def _choices(levels: tuple[Level, ...]) -> Iterator[tuple[str, str]]:
    """Yields where and after which option which values are completed; none: file names are."""
    for names, _, options in levels:
        for option in options:
            if option.takes_value:
                yield f"{' '.join(names)}/{option.text}", _joined(option.choices)


def _bash(levels: tuple[Level, ...]) -> Iterator[str]:
    yield from (
        "# bash completion for hushdoc",
        "_hushdoc() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
        "    local place= word below= options=",
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '        case "${place:+$place }$word" in',
        *_place(levels, " " * 12),
        "        esac",
        "    done",
        '    case "$place/$previous" in',
    )
    for where, values in _choices(levels):
        yield f"        {_quoted(where)}) below={_quoted(values)} ;;"
    yield "        *)"
    yield '            case "$place" in'
    for names, below, options in levels:
        yield (
            f"                {_quoted(' '.join(names))}) below={_quoted(_joined(below))} "
            f"options={_quoted(_joined(options))} ;;"
        )
    yield from (
        "            esac",
        "            [[ $current == -* ]] && below=$options ;;",
        "    esac",
        '    COMPREPLY=($(compgen -W "$below" -- "$current"))',
        "}",
        "complete -o default -F _hushdoc hushdoc",
    )


def _zsh(levels: tuple[Level, ...]) -> Iterator[str]:
    yield from (
        "#compdef hushdoc",
        "_hushdoc() {",
        "    local place= word",
        "    local -a found",
        '    for word in "${(@)words[2,CURRENT-1]}"; do',
        '        case "${place:+$place }$word" in',
        *_place(levels, " " * 12),
        "        esac",
        "    done",
        '    case "$place/${words[CURRENT-1]}" in',
    )
    for where, values in _choices(levels):
        action = f"compadd -- {values}" if values else "_files"
        yield f"        {_quoted(where)}) {action}; return ;;"
    yield from ("    esac", '    case "$place" in')
    for names, below, options in levels:
        yield f"        {_quoted(' '.join(names))})"
        yield "            if [[ $PREFIX == -* ]]; then found=("
        yield from (f"                {_described(word)}" for word in options)
        yield "            ); else found=("
        yield from (f"                {_described(word)}" for word in below)
        yield "            ); fi ;;"
    yield from (
        "    esac",
        "    if (( ${#found} )); then _describe hushdoc found; else _files; fi",
        "}",
        'if [[ $funcstack[1] == _hushdoc ]]; then _hushdoc "$@"; else compdef _hushdoc hushdoc; fi',
    )


def _described(word: Word) -> str:
    """Returns a word and its meaning as zsh's `_describe` takes them."""
    text = word.text.replace(":", r"\:")
    return _quoted(f"{text}:{word.about}")


def _fish(levels: tuple[Level, ...]) -> Iterator[str]:
    yield from (
        "# fish completion for hushdoc",
        "function __hushdoc_at",
        "    set -l place ''",
        "    for word in (commandline -opc)[2..-1]",
        '        switch (string trim "$place $word")',
    )
    for names, _, _ in levels:
        if names:
            yield f"            case {_quoted(' '.join(names))}"
            yield f"                set place {_quoted(' '.join(names))}"
    yield from (
        "        end",
        "    end",
        '    test "$place" = "$argv"',
        "end",
    )
    for names, below, options in levels:
        start = f"complete -c hushdoc -n {_quoted('__hushdoc_at ' + _quoted(' '.join(names)))}"
        for word in below:
            yield f"{start} -f -a {_quoted(word.text)} -d {_quoted(word.about)}"
        for option in options:
            name = option.text.lstrip("-")
            kind = "-l" if option.text.startswith("--") else "-s"
            takes = f" -x -a {_quoted(_joined(option.choices))}" if option.choices else " -r"
            value = takes if option.takes_value else ""
            yield f"{start} {kind} {name}{value} -d {_quoted(option.about)}"


_SCRIPTS: Mapping[str, Callable[[tuple[Level, ...]], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""What writes the script for each shell."""
