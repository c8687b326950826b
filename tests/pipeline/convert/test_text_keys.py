"""Texts as ids: the same bytes for any threads and memory, and what is malformed."""

from dataclasses import replace

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert import convert_tables as door
from headrace.pipeline.convert import duck_database, text_keys, text_parts
from headrace.pipeline.convert.description import Description, EdgeTable, NodeTable, Options
from headrace.pipeline.convert.table import ArrayTable

from described_tables import differences

pytest.importorskip("duckdb")


def described(num_edges):
    rng = np.random.default_rng(5)
    names = np.array([f"{'ab'[i % 2] * (i % 5)}é{i:05}" for i in rng.permutation(20_000)], object)
    src, dst = names[rng.integers(0, 20_000, (2, num_edges))]
    known = names[:9_000]
    nodes = ArrayTable("nodes", {"name": known, "x": np.arange(len(known))})
    table = ArrayTable("edges", {"src": src, "dst": dst, "w": np.arange(num_edges)})
    edge = EdgeTable(table, attributes={"w": "w"})
    node = NodeTable(table=nodes, id="name", features={"x": "x"})
    return Description([edge], [node], options=Options(unknown_ids="create")), names, (src, dst)


@pytest.mark.thorough
def test_bytes_do_not_depend_on_threads_or_memory(tmp_path, monkeypatch):
    description, names, (src, dst) = described(150_000)
    for name, threads, room, batch in (("one", 1, 1 << 30, 1 << 17), ("other", 4, 1 << 22, 1000)):
        monkeypatch.setattr(duck_database, "_threads", lambda limit, threads=threads: threads)
        monkeypatch.setattr(door, "room", lambda *_, room=room: room)
        monkeypatch.setattr(duck_database, "BATCH_ROWS", batch)
        monkeypatch.setattr(text_keys, "BATCH_ROWS", batch)
        door.convert_tables(description, tmp_path / name, progress=False)
    assert not differences(tmp_path / "one", tmp_path / "other")
    data = hr.open_dataset(tmp_path / "one")
    added = sorted(set(src.tolist()) | set(dst.tolist()), key=str.encode)
    order = names[:9_000].tolist() + [name for name in added if name not in set(names[:9_000].tolist())]
    assert data.ids["node"].external(range(data.graph.num_nodes)) == order
    number = {name: place for place, name in enumerate(order)}
    ends = [[number[one] for one in side.tolist()] for side in (src, dst)]
    expected = hr.Graph.from_coo(*ends, num_nodes=len(order), edge_attrs={"w": np.arange(150_000)})
    assert data.graph.content_digest() == expected.content_digest()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:convert. .* rows of .* are left out")
@pytest.mark.parametrize("policy", ["create", "drop"])
def test_bytes_do_not_depend_on_parts(tmp_path, monkeypatch, policy):
    """Those of texts by their hash, of which one has none of the nodes."""
    description, _, _ = described(3_000)
    description = replace(description, options=Options(unknown_ids=policy))
    for name, text_bytes in (("one", 1), ("many", 1 << 40)):
        monkeypatch.setattr(text_parts, "TEXT_BYTES", text_bytes)
        door.convert_tables(description, tmp_path / name, progress=False)
    assert not differences(tmp_path / "one", tmp_path / "many")
    data = hr.open_dataset(tmp_path / "many")
    texts = data.ids["node"].external(range(data.graph.num_nodes))
    assert texts[9_000:] == sorted(set(texts[9_000:]), key=str.encode)
    assert (len(texts) > 9_000) == (policy == "create")
    table = ArrayTable("nodes", {"name": np.array([*"abcdefghij", "h", "c", "h"], object)})
    with pytest.raises(
        hr.InputError, match=r"nodes, row \d+: expected each id once in 'name', got 'c' again.* nodes, row 2;"
    ):
        door.convert_tables(
            Description(description.edges, [NodeTable(table=table, id="name")]), tmp_path / "odd", progress=False
        )


def test_nothing_is_printed(tmp_path, capfd):
    description, _, _ = described(2_000)
    door.convert_tables(description, tmp_path / "data", progress=False)
    assert capfd.readouterr().out == ""
    with duck_database.database(tmp_path / "spill", 1 << 28) as base:
        assert base.only_row("SELECT current_setting('enable_progress_bar')") == (False,)


def test_a_fault_of_a_table_keeps_its_kind_behind_duckdb(tmp_path):
    class Odd(ArrayTable):
        def chunks(self, columns, rows):
            yield from super().chunks(columns, rows)
            raise hr.InputError("edges.csv, row 9: malformed")

    edge = EdgeTable(Odd("edges", {"src": np.array(["a"], object), "dst": np.array(["b"], object)}))
    with pytest.raises(hr.InputError, match=r"edges.csv, row 9: malformed"):
        door.convert_tables(Description([edge]), tmp_path / "data", progress=False)
    assert not list(tmp_path.iterdir())


def test_objects_that_are_no_texts(tmp_path):
    edge = EdgeTable(ArrayTable("edges", {"src": np.array(["a", 3], object), "dst": np.array(["b", "c"], object)}))
    with pytest.raises(hr.InputError, match="edges: expected texts in 'src', got others"):
        door.convert_tables(Description([edge]), tmp_path / "data", progress=False)


def test_a_library_that_is_missing_is_named(tmp_path, monkeypatch):
    edge = EdgeTable(ArrayTable("edges", {"src": np.array(["a"], object), "dst": np.array(["b"], object)}))
    monkeypatch.setattr("headrace.pipeline.convert.arrow_columns.find_spec", lambda name: None)
    with pytest.raises(hr.InputError, match=r"ids that are texts takes duckdb, .* pip install 'headrace\[convert\]'"):
        door.convert_tables(Description([edge]), tmp_path / "data", progress=False)
