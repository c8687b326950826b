"""Graphs as PyG keeps them."""

from pyg_graphs import data, hetero, stores, typed_stores, undirected  # noqa: F401 - fixtures
