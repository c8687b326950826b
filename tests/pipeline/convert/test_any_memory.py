"""The same bytes in any memory, for any number of threads, and wherever batches end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert import convert_tables as door
from headrace.pipeline.convert import database, ends, fed_rows
from headrace.pipeline.convert.description import Description, EdgeTable, Items, NodeTable, Options
from headrace.pipeline.convert.sorted_edges import Repeats, RowEnds
from headrace.pipeline.convert.table import ArrayTable

from described_tables import differences

pytest.importorskip("duckdb")


def typed_edges():
    """Two tables of one type and one of another, each with a node that has half of the edges."""
    rng = np.random.default_rng(8)
    for number, name in enumerate(("a", "b", "a")):
        src, dst = rng.integers(0, 400, (2, 9_000))
        (src if number == 2 else dst)[:4_000] = number % 2
        columns = {"src": src, "dst": dst, "w": rng.random(9_000), "f": rng.integers(0, 9, 9_000)}
        yield EdgeTable(ArrayTable(f"t{number}", columns), ("n", name, "n"), weight="w", features={"f": "f"})


def of_texts():
    """Edges between nodes whose ids are texts, of which a table has half."""
    rng = np.random.default_rng(5)
    names = np.array([f"{'ab'[i % 2] * (i % 5)}é{i:05}" for i in rng.permutation(2_000)], object)
    src, dst = names[rng.integers(0, 2_000, (2, 12_000))]
    node = NodeTable(
        table=ArrayTable("nodes", {"name": names[:900], "x": np.arange(900)}), id="name", features={"x": "x"}
    )
    edge = EdgeTable(ArrayTable("edges", {"src": src, "dst": dst, "w": np.arange(12_000)}), attributes={"w": "w"})
    items = Items("some", ArrayTable("items", {"id": dst[:5_000], "y": np.arange(5_000)}), labels="y")
    return Description([edge], [node], [items], Options(unknown_ids="create"))


POLICIES = {
    "plain": Options(),
    "drop": Options(duplicate_edges="drop", loops="drop"),
    "add": Options(undirected=True, loops="add"),
    "add and drop": Options(undirected=True, loops="add", duplicate_edges="drop"),
    "reverse and drop": Options(reverse=True, duplicate_edges="drop"),
}


def converted(folder, description, monkeypatch, *, threads, room, rows):
    with monkeypatch.context() as patch:
        patch.setattr(database, "_threads", lambda _: threads)
        patch.setattr(door, "room", lambda *_: room)
        patch.setattr(database.Database.batches, "__defaults__", (rows,))
        patch.setattr(fed_rows, "rows_within", lambda *_: rows)
        if room < 1 << 27:  # keys are joined to one end, and then to the other
            patch.setattr(ends, "_SHARE_OF_JOINS", 0)
            patch.setattr(fed_rows, "_GROUPED_BYTES", 1 << 15)  # of 24,000 keys 2,048 at a time
        report = door.convert_tables(description, folder, progress=False)
    hr.open_dataset(folder).verify()
    return report


@pytest.mark.slow
@pytest.mark.parametrize("name", [*POLICIES, "texts"])
def test_bytes_do_not_depend_on_threads_memory_or_batches(name, tmp_path, monkeypatch):
    description = of_texts() if name == "texts" else Description(list(typed_edges()), options=POLICIES[name])
    counts = []
    for place, (threads, room, rows) in enumerate(((1, 1 << 30, 1 << 17), (2, 1 << 20, 1_000), (4, 1 << 27, 5_000))):
        folder = tmp_path / str(place)
        counts.append(converted(folder, description, monkeypatch, threads=threads, room=room, rows=rows).counts)
        assert counts[-1] == counts[0]
        assert not differences(folder, tmp_path / "0")
    assert sum(counts[0].values()) > 100


def test_edges_in_their_order_have_no_numbers_wherever_batches_end(tmp_path, monkeypatch):
    dst = np.repeat(np.arange(3_000), 3)
    edges = EdgeTable(ArrayTable("edges", {"src": dst[::-1], "dst": dst}))
    converted(tmp_path / "data", Description([edges]), monkeypatch, threads=2, room=1 << 27, rows=2048)
    assert not (tmp_path / "data/graph.edge_ids.npy").exists()


def test_repeats_and_rows_wherever_batches_end():
    rng = np.random.default_rng(6)
    for trial in range(60):
        num_nodes, num_kinds = int(rng.integers(1, 400)), int(rng.integers(1, 4))
        count = int(rng.integers(0, 600))
        dst = np.sort(rng.integers(0, num_nodes, count))
        dst[: count // 2] = dst[0] if count else 0
        src, kinds = rng.integers(0, num_nodes, count), rng.integers(-1, num_kinds, count)
        repeats, ends = Repeats(num_nodes, num_kinds), RowEnds(num_nodes)
        indptr = [ends.begin()]
        for some in np.split(np.arange(count), np.sort(rng.integers(0, count + 1, trial % 9))):
            repeats.add(src[some], dst[some], kinds[some])
            indptr += ends.add(dst[some])
        indptr += ends.end()
        assert np.concatenate(indptr).tolist() == np.searchsorted(dst, np.arange(num_nodes + 1)).tolist()
        for kind in range(num_kinds):
            pairs = [(s, d) for s, d, k in zip(src, dst, kinds, strict=True) if k == kind]
            assert repeats.counts[kind] == len(pairs) - len(set(pairs))


def test_a_database_reads_no_file_and_prints_nothing(tmp_path, capfd):
    (tmp_path / "x.csv").write_text("a\n1\n")
    duckdb = pytest.importorskip("duckdb")
    rows = [1]  # a variable of this name would be a table by DuckDB's defaults
    with database.database(tmp_path, 1 << 28) as base:
        for query in (
            f"SELECT * FROM '{tmp_path}/x.csv'",
            f"SELECT * FROM read_text('{tmp_path}/x.csv')",
            f"ATTACH '{tmp_path}/other.duckdb'",
            f"COPY (SELECT 1) TO '{tmp_path}/y.csv'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SELECT * FROM rows",
            "SET memory_limit = '100GB'",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                base.execute(query)
        assert base.value("SELECT current_setting('enable_progress_bar')") is False
    assert rows
    assert capfd.readouterr().out == ""
    assert not (tmp_path / "y.csv").exists()


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
    with pytest.raises(hr.InputError, match=r"a table takes duckdb, .* pip install 'headrace\[convert\]'"):
        door.convert_tables(Description([edge]), tmp_path / "data", progress=False)


def test_files_of_another_version_of_duckdb_are_made_anew(tmp_path):
    """As after an update of it between a run that was killed and the next."""
    (tmp_path / "tables.duckdb").write_bytes(b"of another version" * 1000)
    with database.database(tmp_path, 1 << 28) as base:
        base.execute("CREATE TABLE one AS SELECT 1 AS a")
    with database.database(tmp_path, 1 << 28) as base:
        assert base.value("SELECT a FROM one") == 1


def test_descriptions_are_values():
    description = of_texts()
    assert replace(description, options=Options()).edges is description.edges
