"""Minibatches as text, and the numbers of one that are no tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.pipeline.data.arrays import describe

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch


def text_of(batch: MiniBatch) -> str:
    """Return what a batch holds, a line for each field that has something."""
    lines = [f"MiniBatch(epoch={batch.epoch}, index={batch.index}, seeds={describe(batch.seeds)}"]
    if isinstance(batch.y, Mapping):
        lines += [f"  y[{name!r}]={describe(rows)}" for name, rows in batch.y.items()]
    elif batch.y is not None:
        lines.append(f"  y={describe(batch.y)}")
    if batch.blocks:
        lines.append(f"  n_id={describe(batch.n_id)}")
    lines += [
        f"  {name}={describe(one)}" for name in ("slot", "seed_time") if (one := getattr(batch, name)) is not None
    ]
    lines += [f"  node[{name!r}]={describe(tensor)}" for name, tensor in batch.node.items()]
    lines += [f"  edge[{name!r}]={', '.join(map(describe, tensors))}" for name, tensors in batch.edge.items()]
    lines += [f"  blocks[{layer}]={block!r}" for layer, block in enumerate(batch.blocks)]
    lines += [f"  exchanges[{layer}]={exchange!r}" for layer, exchange in enumerate(batch.exchanges)]
    return ",\n".join(lines) + ")"


def _num_positives(batch: MiniBatch) -> tuple[int, ...]:
    return () if batch.num_positives is None else (batch.num_positives,)


def integers_of(batch: MiniBatch) -> list[tuple[str, Tensor]]:
    """Return counts, sizes and the place of a batch under names, int64 each, as its digest takes them in."""
    counts = {
        "num_sampled_nodes": batch.num_sampled_nodes,
        "num_sampled_edges": batch.num_sampled_edges,
        "block_sizes": tuple(size for block in batch.blocks for size in (block.num_src, block.num_dst)),
        "exchanges": tuple(
            count for one in batch.exchanges for count in (one.num_own, *one.send_counts, *one.receive_counts)
        ),
        "position": (batch.epoch, batch.index, batch.num_global_seeds, *_num_positives(batch)),
    }
    return [(name, torch.tensor(values, dtype=torch.int64, device="cpu")) for name, values in counts.items()]
