"""The walks of PinSAGE: those of the reference, for the keys of a batch."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.ops import reference, stream_key
from headrace.ops.random.rng import WALK

from plans import SEED, graph, items, store
from strategies import edge_lists


@settings(max_examples=50)
@given(
    edge_lists(min_nodes=1), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.sampled_from(["all", "new"])
)
def test_blocks_equal_the_reference(edges, num_neighbors, num_walks, walk_length, expand):
    """Walks of the reference, renumbered hop by hop."""
    subject = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    plan = hr.ItemSampler(edges.num_nodes, batch_size=4, shuffle=True, seed=3)
    sampled = plan.sample_pinsage(subject, num_neighbors, num_walks, walk_length, 0.25, 2, expand=expand)
    for batch in sampled.loader(prefetch=False):
        first, blocks = 0, []
        n_id = batch.seeds.numpy()
        for layer in range(2):
            indptr, neighbors, counts = reference.walk.pinsage_neighbors(
                subject.indptr.numpy(),
                subject.indices.numpy(),
                n_id[first:],
                num_neighbors,
                num_walks=num_walks,
                walk_length=walk_length,
                restart=0.25,
                key=stream_key(3, 0, batch.index, layer, WALK),
            )
            seen = len(n_id)
            n_id, local = reference.compact(n_id, neighbors)
            first = seen if expand == "new" else 0
            blocks.append((indptr, local, counts))
        assert batch.n_id.tolist() == n_id.tolist()
        if expand == "all":
            parts = [(block.indptr, block.indices) for block in reversed(batch.blocks)]
        else:
            (shared,) = batch.blocks
            num_rows = len(blocks[0][0]) - 1
            edges_before = int(shared.indptr[num_rows])
            parts = [
                (shared.indptr[: num_rows + 1], shared.indices[:edges_before]),
                (shared.indptr[num_rows:] - edges_before, shared.indices[edges_before:]),
            ]
        for (starts, indices), (indptr, local, _) in zip(parts, blocks, strict=True):
            assert starts.tolist() == indptr.tolist()
            assert indices.tolist() == local.tolist()
        weights = torch.cat([block.weight for block in reversed(batch.blocks) if block.weight is not None])
        expected = [
            row / row.mean() for indptr, _, counts in blocks for row in np.split(counts, indptr[1:-1]) if len(row)
        ]
        assert np.allclose(weights.numpy(), np.concatenate([*expected, []]), rtol=1e-6)


def test_a_weighted_mean_is_importance_pooling():
    batch = next(iter(items().sample_pinsage(graph(), 5, 20, 2).fetch_feature(store(), node=["x"]).loader()))
    (block,) = batch.blocks
    visits = reference.walk.pinsage_neighbors(
        graph().indptr.numpy(),
        graph().indices.numpy(),
        batch.n_id[:1].numpy(),
        5,
        num_walks=20,
        walk_length=2,
        restart=0.5,
        key=stream_key(SEED, 0, 0, 0, WALK),
    )
    assert block.weight is not None
    degree = int(block.indptr[1])
    mean = (batch.x[block.indices[:degree]] * block.weight[:degree, None]).mean(0)
    rows = store().node["x"].read(torch.from_numpy(visits[1])).rows
    expected = (rows * torch.from_numpy(visits[2] / visits[2].sum())[:, None]).sum(0)
    assert torch.allclose(mean, expected.float(), atol=1e-5)
