"""Moving arrays into huge pages changes nothing but where they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace.ops import InputError, use_huge_pages

MANY = 3 << 21  # bytes: at least two huge pages lie within, wherever they begin


@pytest.mark.parametrize("make", [lambda size: torch.arange(size // 8), lambda size: np.arange(size // 8)])
def test_contents_and_addresses_stay(make):
    array = make(MANY)
    before = (array.data_ptr(), array.clone()) if isinstance(array, torch.Tensor) else (array.ctypes.data, array.copy())
    moved = use_huge_pages(array)
    assert moved % (1 << 21) == 0
    assert 0 <= moved <= MANY
    address = array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data
    assert address == before[0]
    assert bool((array == before[1]).all())
    assert use_huge_pages(array) == moved  # what is in huge pages already counts


def test_files_are_left_alone(tmp_path):
    table = np.memmap(tmp_path / "table", np.uint8, "w+", shape=(MANY,))
    assert use_huge_pages(table) == 0
    assert use_huge_pages(torch.from_numpy(table)) == 0


def test_small_and_empty_arrays_have_no_huge_page():
    assert use_huge_pages(torch.arange(10)) == 0
    assert use_huge_pages(np.zeros((0, 5))) == 0


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (torch.zeros(10, 10)[:, :5], r"contiguous .* got Tensor\[10, 5\], which is not"),
        (np.zeros((10, 10)).T[:5], r"contiguous .* got ndarray\[5, 10\], which is not"),
        (torch.zeros(3, 3).to_sparse(), "contiguous CPU tensor"),
        ([1, 2], "got list"),
        (None, "got NoneType"),
    ],
)
def test_refuses_what_it_cannot_move(array, words):
    with pytest.raises(InputError, match=words):
        use_huge_pages(array)
