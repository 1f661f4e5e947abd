"""docs/papers.md, and the figures of docs/federated.md, say what is computed and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
FEDERATED = (ROOT / "docs" / "federated.md").read_text(encoding="utf-8")
COMPARED = FEDERATED.partition("figures: begin")[2].partition("figures: end")[0]
NUMBER = re.compile(r"(?<![\w./-])\d+\.\d+(?![\w/])")

PUBLISHED = {
    "7.01": "PrIeD-KIE, table 3, PRV",
    "6.96": "PrIeD-KIE, table 3, GDP",
    "18.07": "PrIeD-KIE, table 3, PRV of XFUND at 20",
    "0.063": "Hash the Universe, table 4, average",
    "0.578": "Hash the Universe, section 6",
    "0.2": "Privacy-Aware DocVQA, table 12, client sampling probability",
    "0.7715": "Privacy-Aware DocVQA, table 12, noise multiplier",
    "0.07": "Hash the Universe, section 5: the 100th most common term, in per cent",
    "1.5013": "the noise that Renyi accounting makes for PrIeD-KIE's target",
}


def rounds_to(value: float, number: str) -> bool:
    digits = len(number.partition(".")[2])
    # The engine's upper bound lies above the truth by up to one part in ten thousand.
    return any(f"{value * factor:.{digits}f}" == number for factor in (1.0, 1 - 1e-4))


def test_every_decimal_is_computed_or_published(figures: ModuleType) -> None:
    computed = figures.computed().values()
    unknown = [
        number
        for number in NUMBER.findall(PAGE + COMPARED)
        if number not in PUBLISHED and not any(rounds_to(value, number) for value in computed)
    ]
    assert unknown == []


def test_every_computed_figure_stands_there(figures: ModuleType) -> None:
    numbers = set(NUMBER.findall(PAGE + COMPARED))
    missing = [
        name
        for name, value in figures.computed().items()
        if name != "window, RDP" and not any(rounds_to(value, number) for number in numbers)
    ]
    assert missing == []


def test_every_row_of_the_federated_table(figures: ModuleType) -> None:
    found = figures.computed()
    for clients, rate in ((2, "1"), (4, "1/2"), (8, "1/2"), (16, "1/2")):
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {clients}, {rate} |")]
        cells = [cell.strip() for cell in row.strip("|").split("|")][2:]
        for cell, adversary in zip(cells, ("model-recipient", "co-client", "server"), strict=True):
            assert rounds_to(found[f"FeAm-DP, {clients} clients, {adversary}"], cell)


def test_every_row_of_the_forms(figures: ModuleType) -> None:
    found = figures.computed()
    for clients in (4, 16):
        (row,) = [line for line in COMPARED.splitlines() if line.startswith(f"| {clients} | ")]
        cells = [cell.strip() for cell in row.strip("|").split("|")][1:]
        for cell, whom in zip(cells, ("model-recipient", "co-client", "server"), strict=True):
            assert rounds_to(found[f"forms, {clients} clients, {whom}"], cell)


def test_every_way_to_take_part(figures: ModuleType) -> None:
    found = figures.computed()
    providers, feam = (
        next(line for line in COMPARED.splitlines() if line.startswith(f"| {name}: "))
        for name in ("FL-PROVIDER-DP", "FeAm-DP")
    )
    shown = [
        (providers, ["providers, as published", "providers, noise, all"]),
        (providers, ["providers, rota", "providers, noise, rota"]),
        (providers, ["providers", "providers, noise, drawn"]),
        (feam, ["window"]),
        (feam, ["FeAm-DP, rota", "FeAm-DP, noise, rota"]),
        (feam, ["FeAm-DP, 16 clients, model-recipient", "FeAm-DP, noise, drawn"]),
    ]
    for place, (row, names) in enumerate(shown):
        numbers = NUMBER.findall(row.split("|")[2 + place % 3])
        assert len(numbers) == len(names)
        assert all(rounds_to(found[name], n) for name, n in zip(names, numbers, strict=True))


def test_every_test_it_names_is_there() -> None:
    tests = (ROOT / "tests" / "papers" / "test_corrections.py").read_text(encoding="utf-8")
    named = re.findall(r"`(Test\w+)`", PAGE)
    assert sorted(named) == sorted(re.findall(r"^class (Test\w+)", tests, flags=re.MULTILINE))
    for file in re.findall(r"`(test_\w+\.py)`", PAGE):
        assert any((ROOT / "tests").rglob(file))


def test_every_certificate_it_names_is_there() -> None:
    for name in re.findall(r"Certificate `([\w-]+)`", PAGE):
        assert (ROOT / "samples" / "certificates" / name).is_dir()
