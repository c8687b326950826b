"""Tables of arrays."""

import numpy as np
import pytest

import headrace as hr
from headrace.pipeline.convert.table import ArrayTable, Column


def test_arrays_come_in_chunks_in_their_order():
    table = ArrayTable("edges", {"src": np.arange(5), "name": np.array(["a", "b", "c", "d", "e"]), "x": np.eye(5)})
    assert table.num_rows == 5
    assert table.columns["name"].is_text
    assert table.column("x") == Column(np.dtype("float64"), (5,))
    chunks = list(table.chunks(["src", "name"], 2))
    assert [chunk["src"].tolist() for chunk in chunks] == [[0, 1], [2, 3], [4]]
    assert chunks[0]["name"].dtype == object
    assert chunks[0]["name"].tolist() == ["a", "b"]


def test_columns_of_other_lengths_and_kinds_are_refused():
    with pytest.raises(hr.InputError, match="one length"):
        ArrayTable("edges", {"src": np.arange(5), "dst": np.arange(4)})
    with pytest.raises(hr.InputError, match="numbers or texts, got complex128"):
        ArrayTable("edges", {"src": np.zeros(3, complex)})
    with pytest.raises(hr.InputError, match=r"edges has no column 'to'; its columns are \['src'\]"):
        ArrayTable("edges", {"src": np.arange(5)}).column("to")
