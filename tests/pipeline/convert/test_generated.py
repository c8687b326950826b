"""Generated tables: rows do not depend on chunks, and the laws of the models hold."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert.generated import MODELS, Shape, generated

SHAPE = Shape(num_nodes=1000, num_edges=4000, features=3, classes=4, blocks=10, seed=7)


def columns(table, rows: int) -> dict:
    chunks = list(table.chunks(list(table.columns), rows))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in table.columns}


@pytest.mark.parametrize("model", MODELS)
def test_rows_do_not_depend_on_chunks(model):
    description = generated(model, SHAPE)
    tables = [one.table for one in (*description.edges, *description.nodes) if one.table is not None]
    assert tables
    for table in tables:
        whole = columns(table, 1 << 20)
        for name, rows in columns(table, 37).items():
            assert len(rows) == table.num_rows
            assert rows.tolist() == whole[name].tolist()


def test_another_seed_is_another_graph():
    one, other = (columns(generated("rmat", Shape(1000, 50, seed=seed)).edges[0].table, 50) for seed in (0, 1))
    assert one["src"].tolist() != other["src"].tolist()


def test_identity_has_what_decides_rows():
    one, other = (generated("chung-lu", Shape(100, 50, exponent=exponent)).edges[0].table for exponent in (0.5, 0.6))
    assert one.identity != other.identity
    assert one.name == other.name


def test_recorded_edges():
    """The first edges as they were when they were first written."""
    found = {model: columns(generated(model, SHAPE).edges[0].table, 4000) for model in MODELS}
    assert {model: [rows["src"][:3].tolist(), rows["dst"][:3].tolist()] for model, rows in found.items()} == RECORDED


RECORDED = {
    "rmat": [[256, 816, 28], [521, 136, 166]],
    "chung-lu": [[916, 769, 895], [404, 769, 390]],
    "dc-sbm": [[916, 769, 895], [937, 769, 390]],
    "relational": [[916, 769, 895], [170, 350, 163]],
}


def test_popularity_falls_as_a_power_of_the_rank():
    shape = Shape(num_nodes=1000, num_edges=200_000, exponent=0.6)
    counts = np.bincount(columns(generated("chung-lu", shape).edges[0].table, 1 << 20)["src"], minlength=1000)
    expected = (np.arange(1000) + 1.0) ** -0.6
    expected *= 200_000 / expected.sum()
    got = np.sort(counts)[::-1]
    for start in (0, 10, 100, 500):
        part = slice(start, start + 100)
        assert got[part].sum() == pytest.approx(expected[part].sum(), rel=0.05)


def test_edges_are_within_blocks():
    shape = Shape(num_nodes=1000, num_edges=50_000, blocks=10, inside=0.8)
    edges = columns(generated("dc-sbm", shape).edges[0].table, 1 << 20)
    within = (edges["src"] // 100 == edges["dst"] // 100).mean()
    assert within == pytest.approx(0.8 + 0.2 * 0.1, abs=0.02)
    labels = columns(generated("dc-sbm", shape).nodes[0].table, 1 << 20)["y"]
    assert labels.tolist() == [node // 100 % 8 for node in range(1000)]


def test_quadrants_of_rmat():
    edges = columns(generated("rmat", Shape(num_nodes=1 << 10, num_edges=50_000)).edges[0].table, 1 << 20)
    upper = (edges["src"] < 512).mean(), (edges["dst"] < 512).mean()
    assert upper == pytest.approx((0.76, 0.76), abs=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": 1}, "num_nodes"),
        ({"num_edges": 0}, "num_edges"),
        ({"inside": 1.5}, "inside"),
        ({"exponent": -1.0}, "exponent"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_numbers_are_refused(changes, message):
    with pytest.raises(hr.InputError, match=message):
        generated("dc-sbm", Shape(**{"num_nodes": 10, "num_edges": 10, **changes}))
    with pytest.raises(hr.InputError, match="expected a model of"):
        generated("erdos", SHAPE)
