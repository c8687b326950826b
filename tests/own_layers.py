"""Layers of users' own, exact over ranks or not, in several forms of call."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.utils import add_self_loops, degree, scatter, softmax

import headrace as hr


class OfDegrees(nn.Module):
    """A user's own graph convolution."""

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        weight = degree(src, len(h)).clamp(min=1).rsqrt()[src]
        return scatter(h[src] * weight[:, None].to(h.dtype), dst, dim=0, dim_size=len(h), reduce="sum")


class OfInDegrees(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        degrees = degree(dst, len(h), dtype=h.dtype)
        return scatter((h * degrees[:, None])[src], dst, dim=0, dim_size=len(h), reduce="mean")


class OfOutEdges(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        weight = softmax(h[src, 0] - h[dst, 0], src, num_nodes=len(h))
        return scatter(h[src] * weight[:, None], dst, dim=0, dim_size=len(h), reduce="sum")


class OfAllRows(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        return scatter((h - h.mean(0))[src], dst, dim=0, dim_size=len(h), reduce="mean")


class OfTheirNumber(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        return scatter(h[src] / len(h) ** 0.5, dst, dim=0, dim_size=len(h), reduce="mean")


class Backwards(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        return h + scatter(h[dst], src, dim=0, dim_size=len(h), reduce="sum")


class OfTheirBatch(OfDegrees):
    """One that looks at all rows where it learns, as norms of batches do."""

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        h = h - h.mean(0) if self.training else h
        return scatter(h[src], dst, dim=0, dim_size=len(h), reduce="mean")


class OfBlock(nn.Module):
    """A user's own layer of a block."""

    def forward(self, h: Tensor, block: hr.Block) -> Tensor:
        return block.aggregate(h, reduce="mean")


class OfSourceDegrees(OfBlock):
    def forward(self, h: Tensor, block: hr.Block) -> Tensor:
        degrees = torch.bincount(block.indices, minlength=block.num_src).clamp(min=1)
        return block.aggregate(h / degrees[:, None])


class OfFirstRow(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        return scatter(h[src], dst, dim=0, dim_size=len(h), reduce="mean") + h[0]


class OfNumberOfEdges(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        return scatter(h[src], dst, dim=0, dim_size=len(h), reduce="sum") / edge_index.shape[1]


class OfPositions(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = edge_index
        return scatter(h[src], dst, dim=0, dim_size=len(h)) * torch.arange(len(h), dtype=h.dtype)[:, None]


class OfEdgesOfBlock(OfBlock):
    def forward(self, h: Tensor, block: hr.Block) -> Tensor:
        return block.aggregate(h) / block.num_edges


class OfEdgeIdsOfBlock(OfBlock):
    def forward(self, h: Tensor, block: hr.Block) -> Tensor:
        return block.aggregate(h) * block.edge_ids.sum().to(h.dtype)


class OfFirstRowOfBlock(OfBlock):
    def forward(self, h: Tensor, block: hr.Block) -> Tensor:
        return block.aggregate(h) + h[0]


class OfDestinationsOfBlock(OfBlock):
    def forward(self, h: Tensor, block: hr.Block) -> Tensor:
        return block.aggregate(h) * torch.arange(block.num_dst, dtype=h.dtype)[:, None]


class OfPair(nn.Module):
    """Of a pair of rows, numbers of nodes, and weights of edges."""

    def forward(self, pair: tuple[Tensor, Tensor], edges: Tensor, weight: Tensor, size: tuple[int, int]) -> Tensor:
        src, dst = edges
        rows = scatter(pair[0][src] * weight[:, None], dst, dim=0, dim_size=size[1], reduce="mean")
        return rows + pair[1]


class OfPairAndNumber(OfPair):
    def forward(self, pair: tuple[Tensor, Tensor], edges: Tensor, weight: Tensor, size: tuple[int, int]) -> Tensor:
        return super().forward(pair, edges, weight, size) / size[1]


class OfPairAndWeights(OfPair):
    def forward(self, pair: tuple[Tensor, Tensor], edges: Tensor, weight: Tensor, size: tuple[int, int]) -> Tensor:
        return super().forward(pair, edges, weight / weight.sum(), size)


class WithLoops(OfDegrees):
    """Loops that are there before the layer, and a mean of in-edges: exact."""

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        src, dst = add_self_loops(edge_index, num_nodes=len(h))[0]
        return scatter(h[src], dst, dim=0, dim_size=len(h), reduce="mean")


class Drawing(OfDegrees):
    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return WithLoops().forward(h, edge_index) + torch.rand(1).item() * 0
