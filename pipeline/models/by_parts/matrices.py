"""Sparse matrices of edges in layers that are watched: destinations in rows, sources in columns."""

from __future__ import annotations

import torch
from torch import Tensor

#: Operations that return a matrix in another form.
OF_MATRICES = {
    "to", "to_sparse", "to_sparse_csr", "to_sparse_coo", "to_sparse_csc", "coalesce", "float", "double", "detach",
    "requires_grad_", "cuda", "cpu", "clone", "type", "half", "bfloat16",
}  # fmt: skip

PRODUCTS_OF_MATRICES = {"matmul", "mm", "__matmul__", "sparse_mm", "_sparse_mm", "spmm", "smm"}


def is_matrix(value: object) -> bool:
    """Whether something is a sparse tensor of two dimensions."""
    return isinstance(value, Tensor) and value.layout != torch.strided and value.dim() == 2


def ends_of_matrix(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns and rows of the entries of a sparse matrix, in any order."""
    entries = matrix.detach().to_sparse(layout=torch.sparse_coo).coalesce().indices()
    return entries[1], entries[0]
