"""The benchmark of types and times, on a small graph and beside no peer."""

from __future__ import annotations

import json
import sys

import numpy as np
import torch


def test_every_case_is_measured_and_compared(bench, tmp_path, monkeypatch):
    typed = bench("typed")
    monkeypatch.setattr(bench("academic_graph"), "CACHE", tmp_path)
    monkeypatch.setattr(bench("harness"), "SPELL", 0)
    monkeypatch.setattr(typed, "open_peers", lambda *_, **__: {})
    monkeypatch.setattr(bench("exclusion"), "BATCH", 16)
    path = tmp_path / "out.json"
    command = ["typed.py", "--scale", "0.002", "--rounds", "1", "--threads", "1", "--batch-size", "32"]
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(path)])
    typed.main()
    records = json.loads(path.read_text())
    kinds = {record["case"].split(",")[0] for record in records}
    assert kinds == {"types", "times", "exclusion", "rows of the graph"}
    gains = {record["system"]: record["metric"] for record in records if record["unit"] == "×"}
    assert gains["headrace, no types over headrace"] == "edge cost gain"
    of_types = [record for record in records if record["case"].startswith("types") and record["metric"] == "edges"]
    edges = {record["system"]: record["median"] for record in of_types}
    assert abs(edges["headrace, no types"] / edges["headrace"] - 1) < 0.25


def test_the_graph_is_what_its_files_say(bench, tmp_path, monkeypatch):
    academic = bench("academic_graph")
    monkeypatch.setattr(academic, "CACHE", tmp_path)
    folder = academic.cached_academic(0.001)
    graph = academic.read_academic(folder)
    relations = np.load(folder / "relations.npy")
    assert list(graph.edge_types.names) == academic.edge_types()
    assert torch.equal(graph.edge_types.type_of(graph.edge_ids.long()), torch.from_numpy(relations).long())
    dst = torch.arange(graph.num_nodes).repeat_interleave(graph.indptr.diff())
    for number, (source, _, destination) in enumerate(academic.edge_types()):
        chosen = torch.from_numpy(relations == number)
        for ends, name in ((graph.indices, source), (dst, destination)):
            assert set(graph.node_types.type_of(ends[chosen]).tolist()) == {graph.node_types.names.index(name)}
    pairs = torch.stack([graph.indices.long(), dst, torch.from_numpy(relations).long()])
    assert pairs.unique(dim=1).shape == pairs.shape
    assert academic.cached_academic(0.001) == folder
