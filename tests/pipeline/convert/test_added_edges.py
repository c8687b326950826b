"""Reverse edges and loops that are added, and repeats that are counted, in any memory."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert import convert_tables as door
from headrace.pipeline.convert.bit_set import BitSet
from headrace.pipeline.convert.description import Description, EdgeTable, Options
from headrace.pipeline.convert.table import ArrayTable


def convert(folder, description, room=1 << 30):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "room", lambda *_: room)
        patch.setattr("headrace.pipeline.convert.sort_edges.LEAST_AT_ONCE", 2)
        report = door.convert_tables(description, folder, progress=False, overwrite=True)
    data = hr.open_dataset(folder)
    data.verify()
    return data, report


def test_repeats_are_counted_in_any_memory(tmp_path, monkeypatch):
    """Also those of a node whose edges are not in memory at a time, and by type."""
    rng = np.random.default_rng(6)
    edges = []
    for number, name in enumerate(("a", "b", "a")):
        src, dst = rng.integers(0, 30, (2, 300))
        dst[:100] = number % 2
        edges.append(EdgeTable(ArrayTable(f"t{number}", {"src": src, "dst": dst}), ("n", name, "n")))
    expected = {}
    for name in ("a", "b"):
        pairs = [
            pair
            for one in edges
            if one.type[1] == name
            for chunk in one.table.chunks(["src", "dst"], 300)
            for pair in zip(chunk["src"].tolist(), chunk["dst"].tolist(), strict=True)
        ]
        expected[name] = len(pairs) - len(set(pairs))
    for room, most_keys in ((1 << 30, 1 << 62), (20_000, 1), (300, 1 << 62)):
        monkeypatch.setattr("headrace.pipeline.convert.unique_edges._MOST_KEYS", most_keys)
        for reverse in (False, True):
            options = Options(reverse=reverse)
            data, report = convert(tmp_path / "data", Description(edges, options=options), room)
            assert report.counts == {f"edges of n {one} n that repeat another one, kept": expected[one] for one in "ab"}
            assert data.graph.num_edges == 900 * (1 + reverse)


@pytest.mark.parametrize(
    "options",
    [
        Options(duplicate_edges="drop"),
        Options(undirected=True, loops="add"),
        Options(undirected=True, loops="add", duplicate_edges="drop"),
        Options(reverse=True, duplicate_edges="drop"),
    ],
    ids=["drop", "add", "add and drop", "reverse and drop"],
)
def test_edges_go_in_any_memory(options, tmp_path):
    """Also those of a node whose edges are not in memory at a time."""
    rng = np.random.default_rng(8)
    edges = []
    for number, name in enumerate(("a", "b", "a")):
        src, dst = rng.integers(0, 40, (2, 400))
        (src if number == 2 else dst)[:200] = number % 2  # also many reverse edges to one node
        edges.append(EdgeTable(ArrayTable(f"t{number}", {"src": src, "dst": dst}), ("n", name, "n")))
    much, report = convert(tmp_path / "much", Description(edges, options=options))
    little, other = convert(tmp_path / "little", Description(edges, options=options), 1500)
    assert little.graph.content_digest() == much.graph.content_digest()
    assert other.counts == report.counts
    assert sum(report.counts.values()) > 100


def test_sets_of_bits():
    rng = np.random.default_rng(7)
    for size in (1, 63, 64, 65, 1000):
        numbers = rng.integers(0, size, size // 2 + 1)
        bits, plain = BitSet(size), np.zeros(size, bool)
        for some in np.array_split(numbers, 3):
            bits.add(some)
            plain[some] = True
        assert (bits.has(np.arange(size)) == plain).all()
        below = np.concatenate([[0], np.cumsum(plain)])
        assert (bits.num_below(np.arange(size + 1, dtype=np.int32)) == below).all()
        for start, stop in rng.integers(0, size + 1, (20, 2)):
            assert (bits.between(start, max(start, stop)) == plain[start : max(start, stop)]).all()
