"""Folders of OGB as they are downloaded: the graphs that OGB's own reader makes of them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from source_folders import write_gz
from without import edges_by_id

import headrace as hr

#: Three edges between four nodes, one of them a loop, with what OGB has beside edges.
EDGES = np.array([[0, 1], [2, 1], [3, 3]])
WEIGHTS, YEARS, FEATURES = np.array([2, 1, 5]), np.array([1999, 2001, 2000]), np.array([[0.5, 1], [2, 3], [4, 5]])


def edges_of(graph: hr.Graph) -> list[tuple[int, int]]:
    return list(map(tuple, edges_by_id(graph).t().tolist()))


def folder_of(path: Path) -> Path:
    write_gz(path / "raw/edge.csv.gz", EDGES)
    write_gz(path / "raw/num-node-list.csv.gz", np.array([4]))
    write_gz(path / "raw/num-edge-list.csv.gz", np.array([len(EDGES)]))
    return path


def both_ways(folder: Path, **more: np.ndarray) -> hr.Dataset:
    for name, rows in more.items():
        write_gz(folder / f"raw/{name.replace('feat', '-feat')}.csv.gz", rows)
    data = hr.convert(folder, folder.with_name("out"), progress=False)
    data.verify()
    assert edges_of(data.graph) == [(0, 1), (1, 0), (2, 1), (1, 2), (3, 3), (3, 3)]
    return data


@pytest.mark.parametrize("name", ["ogbn_products", "ogbn-proteins", "ogbl_ppa", "ogbl_collab", "ogbl_ddi", "ppassoc"])
def test_each_edge_is_followed_by_its_inverse(name, tmp_path):
    both_ways(folder_of(tmp_path / name))


def test_the_name_of_a_folder_that_is_given_otherwise(tmp_path, monkeypatch):
    folder_of(tmp_path / "ogbn_products")
    monkeypatch.chdir(tmp_path / "ogbn_products")
    assert hr.convert(".", tmp_path / "here", progress=False).graph.num_edges == 6
    (tmp_path / "link").symlink_to("ogbn_products")
    assert hr.convert(tmp_path / "link", tmp_path / "linked", progress=False).graph.num_edges == 6
    (tmp_path / "ogbn_products").rename(tmp_path / "ogbn_products_pyg")
    assert hr.convert(tmp_path / "ogbn_products_pyg", tmp_path / "pyg", progress=False).graph.num_edges == 6


def test_an_inverse_edge_has_the_features_the_weight_and_the_year_of_its_edge(tmp_path):
    folder = folder_of(tmp_path / "ogbl_collab")
    data = both_ways(folder, edge_weight=WEIGHTS, edge_year=YEARS, edgefeat=FEATURES)
    assert data.graph.edge_attrs["weight"].tolist() == np.repeat(WEIGHTS, 2).tolist()
    assert data.graph.edge_attrs["time"].tolist() == np.repeat(YEARS, 2).tolist()
    rows = data.store.edge["x"].read(torch.arange(6)).rows
    assert rows.dtype == torch.float32
    assert rows.tolist() == np.repeat(FEATURES, 2, axis=0).tolist()


def test_an_error_names_the_row_of_the_edge(tmp_path):
    folder = folder_of(tmp_path / "ogbn_products")
    write_gz(folder / "raw/edge.csv.gz", np.array([[0, 1], [2, 1], [9, 1]]))
    with pytest.raises(hr.InputError, match=r"edge\.csv\.gz, row 3: .*9"):
        hr.convert(folder, tmp_path / "out", progress=False)


@pytest.mark.parametrize("name", ["ogbn_arxiv", "ogbl_citation2", "ogbl_wikikg2"])
def test_other_data_sets_have_the_edges_of_the_file(name, tmp_path):
    data = hr.convert(folder_of(tmp_path / name), tmp_path / "out", progress=False)
    assert edges_of(data.graph) == list(map(tuple, EDGES.tolist()))


def test_a_folder_with_another_name_is_warned_of(tmp_path):
    folder = folder_of(tmp_path / "mine")
    message = (
        r"name of a data set of OGB, such as ogbn_products, got 'mine': .*inverse.*undirected=True \(--undirected\)"
    )
    with pytest.warns(UserWarning, match=message):
        data = hr.convert(folder, tmp_path / "out", progress=False)
    assert edges_of(data.graph) == list(map(tuple, EDGES.tolist()))


def test_species_of_proteins_are_read_and_files_without_use_are_named(tmp_path):
    """OGB's own reader gives species.csv.gz the name node_species.csv.gz."""
    folder = folder_of(tmp_path / "ogbn_proteins")
    write_gz(folder / "raw/species.csv.gz", np.array([9606, 3702, 3702, 4932]))
    data = both_ways(folder)
    assert data.store.node["species"].read(torch.arange(4)).rows.tolist() == [9606, 3702, 3702, 4932]
    write_gz(folder / "raw/paper_titles.csv.gz", np.arange(4))
    with pytest.warns(UserWarning, match=r"left out .*paper_titles\.csv\.gz, whose name begins with neither node nor"):
        hr.convert(folder, tmp_path / "again", progress=False)


def test_links_of_splits_are_pairs(tmp_path, monkeypatch):
    """The line of Python in the error writes the files that are read."""
    folder = folder_of(tmp_path / "ogbl_collab")
    (folder / "split/time").mkdir(parents=True)
    for place, name in enumerate(("train", "valid", "test")):
        more = {"weight": WEIGHTS[:1]} if name == "train" else {"edge_neg": EDGES}
        torch.save({"edge": EDGES[place : place + 1], **more}, folder / f"split/time/{name}.pt")
    with pytest.raises(hr.InputError, match=r"train\.pt, which holds Python objects") as caught:
        hr.convert(folder, tmp_path / "out", progress=False)
    monkeypatch.chdir(folder / "split/time")
    exec(re.search("`(.*)`", str(caught.value))[1], {"numpy": np, "torch": torch})  # noqa: S102 - the remedy itself
    with gzip.open("train.csv.gz", "rt") as file:
        assert file.read() == "0,1\n"
    data = hr.convert(folder, tmp_path / "out", progress=False)
    assert {name: items.ids.tolist() for name, items in data.items.items()} == {
        "train": [[0, 1]],
        "val": [[2, 1]],
        "test": [[3, 3]],
    }
