from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from small_blocks import block
from torch.utils._pytree import tree_flatten, tree_unflatten

import headrace as hr
from headrace.pipeline.data import registry
from headrace.pipeline.data.block_messages import is_trusted


def test_an_error_within_a_property_is_not_taken_for_a_missing_one(monkeypatch):
    def fails(block):
        return block.indptr.no_such_method()

    monkeypatch.setitem(registry._FUNCTIONS, "edge_index_of", fails)
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'no_such_method'"):
        block().edge_index  # noqa: B018


def test_edges_of_the_loader_are_known_to_be_valid_and_those_of_others_are_not():
    types = {("a", "to", "a"): ([0, 1, 2], [1, 2, 0])}
    graphs = hr.Graph.from_coo([0, 1, 2], [1, 2, 0]), hr.Graph.from_coo(types, num_nodes={"a": 3})
    made = []
    for graph, items in zip(graphs, (hr.ItemSampler(3), hr.ItemSampler({"a": 3})), strict=True):
        plain, new = items.sample_neighbor(graph, [1, 1]), items.sample_neighbor(graph, [1, 1], expand="new")
        made += [plain, new, plain.pad(), new.pad()]
    made += [plan.induce_subgraph(graphs[0]) for plan in made[:2]] + [
        hr.ItemSampler(3).sample_saint(graphs[0], "node", budget=2)
    ]
    made += [plan.make_bidirectional() for plan in made[:1]]
    for plan in made:
        for switches in ({}, {"fuse_sampling": False}):
            for sampled in next(iter(plan.loader(**switches))).blocks:
                parts = [] if sampled.types is None else [sampled.relation(("a", "to", "a"))]
                assert all(map(is_trusted, (sampled, sampled.to("cpu"), *parts)))
                others = (
                    dataclasses.replace(sampled),
                    copy.copy(sampled),
                    hr.Block(sampled.indptr, sampled.indices, sampled.num_src, sampled.num_dst),
                    sampled.map(torch.clone),
                )
                assert not any(map(is_trusted, others))
                leaves, tree = tree_flatten(sampled)
                assert not is_trusted(tree_unflatten(leaves, tree))
                sampled.indices.add_(0)
                assert not is_trusted(sampled)
