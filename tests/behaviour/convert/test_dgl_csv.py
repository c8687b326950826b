"""Folders of DGL's CSVDataset: what DGL leaves out of them."""

from __future__ import annotations

import pytest
import torch

import headrace as hr


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_that_pandas_writes_is_left_out_with_a_word(tmp_path, name):
    """Without a name, and read and written again with this one."""
    (tmp_path / "meta.yaml").write_text(
        "dataset_name: d\nnode_data:\n- file_name: nodes.csv\nedge_data:\n- file_name: edges.csv\n"
    )
    (tmp_path / "nodes.csv").write_text(f"{name},node_id,h\n0,0,0.5\n1,1,1.5\n")
    (tmp_path / "edges.csv").write_text(f"{name},src_id,dst_id,w\n0,0,1,2.5\n")
    with pytest.warns(UserWarning, match="left out of .* the column .*, which has no name") as told:
        data = hr.convert(tmp_path, tmp_path / "out", progress=False)
    for file, one in zip(("nodes", "edges"), told, strict=True):
        assert f"left out of {tmp_path}/{file}.csv the column {name!r}," in str(one.message)
    assert list(data.store.node) == ["h"]
    assert list(data.store.edge) == ["w"]
    assert data.store.node["h"].read(torch.arange(2)).rows.tolist() == [0.5, 1.5]


def test_fields_that_may_be_numbers_are_lists_as_dgl_reads_them(tmp_path):
    (tmp_path / "meta.yaml").write_text(
        "dataset_name: d\nnode_data:\n- file_name: nodes.csv\nedge_data:\n- file_name: edges.csv\n"
    )
    (tmp_path / "nodes.csv").write_text('node_id,h\n0,"1,234"\n1,"3,99"\n')
    (tmp_path / "edges.csv").write_text('src_id,dst_id,w\n0,1,"5,6"\n')
    data = hr.convert(tmp_path, tmp_path / "out", progress=False)
    assert data.store.node["h"].read(torch.arange(2)).rows.tolist() == [[1.0, 234.0], [3.0, 99.0]]
    assert data.store.edge["w"].read(torch.arange(1)).rows.tolist() == [[5.0, 6.0]]
    (tmp_path / "edges.csv").write_text('src_id,dst_id,w\n0,1,"5,6"\n1,0,"7"\n')
    with pytest.raises(hr.InputError, match="lists of numbers in quotes, in 'w', got texts"):
        hr.convert(tmp_path, tmp_path / "out", overwrite=True, progress=False)
