"""Tensors around other ones."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import Index

import headrace as hr


def test_gather_of_a_tensor_around_another_one():
    with pytest.raises(hr.InputError, match="expected a tensor with memory of its own, got a Index around another"):
        hr.ops.gather_rows(Index(torch.arange(9)), torch.arange(3))
