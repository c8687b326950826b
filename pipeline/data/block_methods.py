"""The methods of a block that pass messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

# What messages need is loaded by the methods, so that a first block comes soon.
if TYPE_CHECKING:
    from torch import Tensor

    from headrace.ops.aggregate.autograd import Reduce


class Messages:
    """Message passing over the edges of a block; the base class of `Block`."""

    def aggregate(self, x: Tensor, *, reduce: Reduce = "sum", weight: Tensor | None = None) -> Tensor:
        """Return the reduced messages ``weight[e] * x[source of e]`` of each destination, for your own layers.

        A layer that uses it also works when ranks share edges (`hr.EdgePartition`). `x` and `weight` get gradients. On
        CPUs and GPUs no message is written. The block's own importance weights count only if passed as `weight`.

        >>> import headrace as hr, torch
        >>> block = hr.Block(torch.tensor([0, 2]), torch.tensor([1, 2]), num_src=3, num_dst=1)
        >>> block.aggregate(torch.tensor([[1.0], [2.0], [4.0]]), reduce="mean").tolist()
        [[3.0]]

        Parameters
        ----------
        x: [num_src, ...]
            Of float16, bfloat16, float32 or float64.
        reduce : {"sum", "mean", "max", "min"}
            A mean divides by the number of edges, or by the sum of the weights if given. Among equal extremes the first
            edge gets the gradient. A destination without edges gets 0.
        weight: [num_edges] or [num_edges, heads], optional
            With the dtype of `x`; with heads the rows of `x` are [heads, ...].

        Returns
        -------
        Tensor
            [num_dst, ...].

        Raises
        ------
        InputError
            For an unknown `reduce`, or a wrong number of rows.
            For wrong shapes and dtypes.
        """
        from headrace.pipeline.data import block_messages

        return block_messages.aggregate(self, x, reduce, weight)

    def attend(
        self,
        x: Tensor,
        source_scores: Tensor,
        destination_scores: Tensor,
        *,
        edge_scores: Tensor | None = None,
        slope: float = 0.2,
        dropout: float = 0.0,
        key: int = 0,
    ) -> Tensor:
        """Return sums of ``x`` over in-edges, weighted by the softmax of ``leaky_relu(sum of the three scores)`` (GAT).

        Parameters
        ----------
        x: [num_src, heads, ...]
            Of float16, bfloat16, float32 or float64.
        source_scores: [num_src, heads]
        destination_scores: [num_dst, heads]
        edge_scores: [num_edges, heads], optional
        slope
            The slope of ``leaky_relu`` for negative scores.
        dropout
            The probability that the attention of an edge and head is dropped; the masks depend on `key` and the id of
            the edge.

        Returns
        -------
        Tensor
            [num_dst, heads, ...]. Gradients read it: do not change it in place.

        Raises
        ------
        InputError
            As for `aggregate`; with dropout also if the edges have no ids.
        """
        scores = source_scores, destination_scores, edge_scores
        from headrace.pipeline.data import block_messages

        return block_messages.attend(self, x, *scores, slope, dropout, key)

    def update_all(
        self,
        message: Callable[..., Tensor],
        x: Tensor,
        *,
        reduce: Reduce = "sum",
        destination: Tensor | None = None,
        edge: Tensor | None = None,
        parameters: Iterable[Tensor] = (),
    ) -> Tensor:
        """Return the reduced messages of your own function, as `hr.sar.ShardedGraph.update_all` does over shards.

        ``message(source_rows, destination_rows, edge_rows)`` is called once, with a row for each edge, and None for
        rows that were not passed. It returns a message for each edge.

        >>> import headrace as hr, torch
        >>> block = hr.Block(torch.tensor([0, 2]), torch.tensor([1, 2]), num_src=3, num_dst=1)
        >>> x = torch.tensor([[1.0], [2.0], [4.0]])
        >>> block.update_all(lambda source, own, edge: source - own, x, reduce="max", destination=x[:1]).tolist()
        [[3.0]]

        Parameters
        ----------
        message
            The function.
        x: [num_src, ...]
            Rows of sources.
        reduce : {"sum", "mean", "max", "min"}
            As for `aggregate`.
        destination: [num_dst, ...], optional
            Rows of destinations.
        edge: [num_edges, ...], optional
            Rows of edges.
        parameters
            Tensors with gradients that the function uses besides; only shards need their names.

        Returns
        -------
        Tensor
            [num_dst, ...].

        Raises
        ------
        InputError
            For a wrong number of rows, and messages of another number than there are edges.
        """
        from headrace.pipeline.data import block_messages

        del parameters  # autograd sees them
        return block_messages.update_all(self, message, x, reduce, destination, edge)
