"""What turns a plan into a loader: the method ``loader`` of plans, which know of nothing that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.ops.names import load
from headrace.pipeline.plan.plan import Plan

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch
    from headrace.pipeline.distributed.channel import Comm
    from headrace.pipeline.partition.edge_partition import EdgePartition
    from headrace.pipeline.partition.partition import Partition
    from headrace.pipeline.plan.machine import Machine
    from headrace.pipeline.run.loader import Loader


def loader(
    plan: Plan,
    *,
    machine: Machine | None = None,
    num_threads: int | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    comm: Comm | None = None,
    partition: Partition | EdgePartition | None = None,
    progress: bool = False,
    **passes: bool,
) -> Loader[MiniBatch]:
    """Rewrite the plan for the machine and return the loader that runs it.

    Parameters
    ----------
    machine
        The machine to plan for; by default the one at hand.
    num_threads
        Threads that one kernel call may use at most; by default the machine's cores. A call takes as many as its
        work is worth. The minibatches do not depend on it.
    rank, world_size
        Place among the processes that share every batch; by default from torch.distributed when it is initialised,
        otherwise 0 of 1. Where they come from torch.distributed, or from `comm`, all ranks make the same loaders in the
        same order, and compare plan, items and seed when they do; a source without a seed takes that of rank 0. A rank
        that waits there for others names them after 10 seconds, and gives up after the ``timeout`` of
        ``init_process_group``. ``rank=0, world_size=1`` makes a loader for this rank alone, which goes through all
        items and waits for nobody, as for validation on rank 0. Numbers given by hand are not compared.
    comm
        What carries the exchanges of ``cooperative=True``; by default a process group of torch.distributed, where a
        rank that does not come is given up after the ``timeout`` of ``init_process_group``. An `hr.LocalGroup` has
        one for each thread that plays a rank. Without ``cooperative=True`` ranks compare their plans on it, no more.
    partition
        The owner of each node for ``cooperative=True``; by default `hr.Partition.hash`. By an `hr.EdgePartition` ranks
        share edges (see the notes).
    progress
        Show a progress bar for each epoch, where stderr is a terminal or a notebook.
    **passes
        One switch per pass, for example ``fuse_sampling=False``; see ``headrace.pipeline.passes``. All are on but
        ``cooperative``, by which the ranks make each batch together: no two ranks sample or fetch the same node.

    Raises
    ------
    PlanError
        If the plan is not legal or a switch names no pass, on all ranks if theirs are not the same: it says what
        differs, and what to write.
    InputError
        If the data of two stages do not fit together.
    PeerError
        If another rank fails, now or while the loader runs: with its traceback. All ranks run the same plan and leave
        their loops at the same batch; one that leaves earlier is named ("rank 1 left epoch 0 behind batch 3").

    Notes
    -----
    With several ranks, what each holds decides who works, and in how many *rounds* for a minibatch of L layers and one
    feature. In a round every rank sends something to every other one; ids come with their counts, so it takes one or
    two collectives. The second and third line are what FastSample calls hybrid and full partitioning.

    ==============================  =======================  ============================================  ===========
    each rank holds                 ``.loader(...)``         who samples and fetches                       rounds
    ==============================  =======================  ============================================  ===========
    graph and features              ``()``                   each rank its share, common nodes repeatedly  0
    graph; features in shards       ``()``                   owners fetch                                  2
    both in shards                  ``()``                   owners sample and fetch                       2 L
    any of these                    ``(cooperative=True)``   owners, for all ranks                         L + 2
    ==============================  =======================  ============================================  ===========

    Cooperation takes one more round for each layer of the model, each way (`hr.cooperative`). Every sampler with
    ``expand="all"`` can be used but GraphSAINT's; LABOR-1 to LABOR-* and (P)LADIES take more rounds, by which ranks
    agree on the whole frontier. Fetch right behind the sampler: behind a ``transform`` each rank fetches for itself.
    With four cores or more, the next minibatch is sampled while rows are on their way.

    With ``partition=hr.EdgePartition.grid(graph, num_ranks)``, or one by source or destination, each rank works on the
    edges that it holds, whatever the degrees of their nodes (hybrid-parallel execution, GraphTheta, arXiv 2104.10569).
    It takes ``sample_in_subgraph``, behind any source. Features are read by the masters of nodes. Layers of `hr.nn`
    exchange rows with the mirrors by themselves, in two collectives each way; those of PyG and DGL cannot. For each hop
    there are two rounds, and four for all hops within a boundary. Stages count ``rows_to_mirrors``,
    ``rows_to_masters`` and ``messages``: what the model will exchange once in each direction.

    Features are read straight to where they go, once for each rank that wants a row; ``fuse_exchange=False`` reads a
    row once, for files that are far larger than memory. ``loader.stats()`` counts rounds, collectives and bytes.
    """
    # What runs plans is loaded with the first loader, so that importing headrace stays cheap.
    load("headrace.pipeline.run.loader")
    from headrace.pipeline.distributed.channel import check_channel
    from headrace.pipeline.run.loader import Loader

    check_channel(comm, "loader")
    return Loader(
        plan,
        machine=machine,
        num_threads=num_threads,
        rank=rank,
        world_size=world_size,
        comm=comm,
        partition=partition,
        progress=progress,
        passes=passes,
    )


Plan.loader = loader  # type: ignore[method-assign, assignment]
