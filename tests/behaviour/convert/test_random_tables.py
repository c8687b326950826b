"""Random tables against a slow reader of them, row by row: a conversion is right, or refuses them by name.

``pytest "tests/behaviour/convert/test_random_tables.py::test_random_tables_are_right_or_refused[1234]"`` runs one seed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import headrace as hr

from random_tables.differences import differences
from random_tables.dirt import draw
from random_tables.files import Layout
from random_tables.judgement import judged, outcomes, problem_of
from random_tables.scenarios import Scenario
from random_tables.tables import Column, Numbers, Table
from random_tables.values import KINDS

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

#: Seeds that run where each change is checked, and those of `make test-thorough`.
FEW, MANY = 60, 3_000

#: Kinds of tables that a conversion does not read yet, or reads wrong; they are not drawn.
NOT_READ_YET: frozenset[str] = frozenset()


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [*range(FEW), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(FEW, MANY))]
)
def test_random_tables_are_right_or_refused(seed):
    scenario = draw(seed, NOT_READ_YET)
    with tempfile.TemporaryDirectory() as folder:
        problem = judged(scenario, Path(folder))
    assert problem is None, f"seed {seed}, {scenario.dirt or 'without dirt'}, {sorted(scenario.kinds)}\n{problem}"


def test_kinds_that_are_not_read_yet_are_drawn():
    assert NOT_READ_YET <= KINDS


def _altered(rows: Numbers) -> None:
    rows.values[-1] = 12_345.5


#: What is another data set.
ALTERATIONS = {
    "an id": lambda answer: answer.nodes["node"].order.__setitem__(0, "other"),
    "a node": lambda answer: answer.nodes["node"].order.append("more"),
    "an edge": lambda answer: answer.edges[None].ends.__setitem__(0, answer.edges[None].ends[1]),
    "a weight": lambda answer: _altered(answer.edge_attrs["weight"][None]),
    "a time": lambda answer: _altered(answer.edge_attrs["time"][None]),
    "a feature": lambda answer: _altered(answer.features["node", "node", "x"]),
    "a label": lambda answer: _altered(answer.features["edge", None, "y"]),
    "an item": lambda answer: answer.items["train"][None].ids.pop(),
    "a label of an item": lambda answer: _altered(answer.items["train"][None].labels),
    "a time of an item": lambda answer: _altered(answer.items["train"][None].times),
    "a count": lambda answer: answer.counts.__setitem__("more", 1),
    "a class": lambda answer: answer.classes["e.csv", "y"].reverse(),
    "a unit": lambda answer: setattr(answer, "time_unit", "s"),
}


def small_scenario() -> Scenario:
    """Tables of a bit of everything."""
    nodes = {"id": ["a", "b", "c"], "x": ["1.5", "2", "3"]}
    edges = {
        "src": ["a", "b", "a"],
        "dst": ["b", "c", "c"],
        "w": ["1", "2", "3"],
        "t": ["2024-05-31", "2024-06-01", "2024-06-02"],
        "y": ["red", "green", "blue"],
        "part": ["train", "", "train"],
    }
    tables = {
        section: Table(section, {name: Column(name, cells) for name, cells in columns.items()}, 3)
        for section, columns in (("nodes.node", nodes), ("edges.", edges))
    }
    description = {
        "nodes": {"node": {"files": "n.csv", "id": "id", "features": "x"}},
        "edges": {"": {"files": "e.csv", "weight": "w", "time": "t", "labels": "y", "split": "part"}},
        "items": {},
        "options": {},
    }
    layouts = {"nodes.node": Layout([("n.csv", 3)], "n.csv"), "edges.": Layout([("e.csv", 3)], "e.csv")}
    return Scenario(description, tables, layouts, set())


def test_the_reader_finds_every_difference(tmp_path):
    """Of a data set that is right, once the answer is altered."""
    scenario = small_scenario()
    assert judged(scenario, tmp_path) is None
    data = hr.open_dataset(tmp_path / "data")
    for what, alter in ALTERATIONS.items():
        answer, _ = next(outcomes(scenario, []))
        assert not [*differences(data, answer)]
        alter(answer)
        assert [*differences(data, answer)], what
    # Neither is a data set of tables that are to be refused right, nor an error of other tables.
    scenario.tables["edges."].columns["src"].cells[1] = "z"
    assert "got a data set" in str(problem_of(scenario, data, [], ""))
    assert problem_of(scenario, hr.InputError("e.csv, row 3: there is no node 'z'"), [], "") is None
    for message in ("e.csv, row 2: there is no node 'z'", "n.csv, row 3: there is no node 'z'", "no node 'z'"):
        assert problem_of(scenario, hr.InputError(message), [], "") is not None
