"""One conversion of random tables, judged: right, or refused by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace as hr

from random_tables.answer import Answer
from random_tables.differences import differences
from random_tables.oracle import read_tables
from random_tables.scenarios import Scenario
from random_tables.tables import Judge, Refusal, readings


def judged(scenario: Scenario, folder: Path) -> str | None:
    """Convert the tables of a scenario; return what is wrong with the outcome, or None."""
    source, damage = scenario.write(folder)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            outcome: Any = hr.convert(source, folder / "data", progress=False)
        except hr.InputError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - of whatever the tables have made
            return f"{source.read_text(encoding='utf-8')}\n- expected a data set or an InputError, got {error!r}"
    told = " ".join(str(one.message) for one in warned)
    problem = problem_of(scenario, outcome, damage, told)
    if problem is None and isinstance(outcome, Exception):
        left = [one.name for one in folder.iterdir() if "data" in one.name]
        problem = f"left behind: {left}" if left else None
    return problem and f"{source.read_text(encoding='utf-8')}\n{problem}"


def outcomes(scenario: Scenario, damage: list[Refusal]) -> Iterator[tuple[Answer, list[Refusal]]]:
    """Yield what the data set must have, or why the tables are to be refused, by each reading of the documents."""

    def read(judge: Judge) -> Answer:
        return read_tables(scenario.description, scenario.tables, judge)

    for judge, answer in readings(read):
        yield answer, [*judge.refusals, *damage]


def problem_of(scenario: Scenario, outcome: Any, damage: list[Refusal], told: str) -> str | None:
    """What is wrong with a data set or an error by each reading of the documents; None if one has it so."""
    if isinstance(outcome, Exception):
        allowed = [*damage, *(one for table in scenario.tables.values() for one in table.may_be_refused)]
        if any(one.is_told_by(str(outcome)) for one in allowed):
            return None
    problems: list[str] = []
    for answer, refusals in outcomes(scenario, damage):
        if isinstance(outcome, Exception):
            if any(one.is_told_by(str(outcome)) for one in refusals):
                return None
            expected = "; ".join(_text(one) for one in refusals[:3]) or "no error"
            problems.append(f"expected {expected}, got {type(outcome).__name__}: {outcome}")
        elif refusals:
            problems.append(f"expected an error: {'; '.join(_text(one) for one in refusals[:3])}; got a data set")
        elif unwarned := [name for name in answer.warnings if name not in told]:
            problems.append(f"expected a warning of the columns {unwarned}")
        else:
            first = next(differences(outcome, answer), None)
            if first is None:
                return None
            problems.append(first)
    return "\n".join(f"- {one}" for one in dict.fromkeys(problems))


def _text(refusal: Refusal) -> str:
    rows = sorted(refusal.rows)[:4]
    return f"{refusal.reason} ({', '.join(refusal.files)}{f', row {rows}' if rows else ''})"
