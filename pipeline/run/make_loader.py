"""What turns a plan into a loader, or shows what one would run: methods of plans, which know of no run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.ops.errors import PlanError
from headrace.ops.names import load
from headrace.pipeline.data.arrays import check_kind
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rules import Pass
from headrace.pipeline.plan.source import source_of

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
    tune: bool = False,
    **passes: bool | Pass,
) -> Loader[MiniBatch]:
    """Rewrite the plan for the machine and return the loader that runs it.

    Parameters
    ----------
    machine
        The machine to plan for; by default that of this process. For others see `explain`.
    num_threads
        The largest number of threads of one kernel call; by default the machine's cores. A small call uses fewer. The
        minibatches do not depend on it.
    rank, world_size
        The rank of this process among those that share every batch, and their number; by default those of
        torch.distributed if it is initialised, otherwise 0 of 1. With the default, or with `comm`, all ranks make the
        same loaders in the same order. They then compare plan, items and seed; a source without a seed takes that of
        rank 0. A rank that waits for others names them after 10 seconds and gives up after the ``timeout`` of
        ``init_process_group``. Each iteration begins and ends at the same epoch and batch on all ranks, otherwise an
        error names the places; ranks do not wait for each other there. ``rank=0, world_size=1`` makes a loader for this
        rank alone, which reads all items and waits for no other rank, for example for validation on rank 0. Ranks that
        are given as numbers are not compared.
    comm
        The channel for the exchanges of ``cooperative=True``; by default a process group of torch.distributed, which
        waits for a rank for the ``timeout`` of ``init_process_group``. An `hr.testing.LocalGroup` has a channel for
        each thread that runs a rank. Without ``cooperative=True`` ranks only compare their plans on it.
    partition
        The owner of each node for ``cooperative=True``; by default `hr.Partition.hash`. With an `hr.EdgePartition`
        ranks share edges (see the notes).
    progress
        Show a progress bar for each epoch, if stderr is a terminal or a notebook.
    tune
        Choose `num_threads` and prefetch workers by short runs of a few seconds, which make batches and train nothing;
        print the choice as the code to write in place of it. For one process. A training loop that needs all cores for
        its model may be faster with fewer: compare ``loader.stats()``.
    **passes
        One switch per pass, for example ``fuse_sampling=False``; see ``headrace.pipeline.passes``. All are on except
        ``cooperative``. With it, the ranks make each batch together: no two ranks sample or fetch the same node. A pass
        of your own, an `hr.ext.Pass` under a name of yours, runs before these.

    Warns
    -----
    PlanWarning
        If the plan is legal and hardly meant: seeds find edges of their future, or those that a model should predict.

    Raises
    ------
    PlanError
        If the plan is not legal or a switch names no pass. If the plans of ranks differ, it is raised on all ranks, and
        names the difference and a remedy.
    InputError
        If the data of two stages do not fit together.
    PeerError
        If another rank fails, now or while the loader runs, with the traceback of that rank. All ranks must run the
        same plan and leave their loops at the same batch; a rank that leaves earlier is named ("rank 1 left epoch 0
        after batch 3").

    Notes
    -----
    With several ranks, the data of each rank decide who samples and fetches, and the number of *rounds* for a minibatch
    of L layers and one feature. In a round every rank sends something to every other one. It takes one collective, or
    two where counts precede ids. FastSample calls the second and third line hybrid and full partitioning.

    ==============================  =======================  ============================================  ===========
    each rank holds                 ``.loader(...)``         who samples and fetches                       rounds
    ==============================  =======================  ============================================  ===========
    graph and features              ``()``                   each rank its share, common nodes repeatedly  0
    graph; features in shards       ``()``                   owners fetch                                  2
    both in shards                  ``()``                   owners sample and fetch                       2 L
    any of these                    ``(cooperative=True)``   owners, for all ranks                         L + 2
    ==============================  =======================  ============================================  ===========

    Cooperation takes one more round for each layer of the model, in each direction (`hr.cooperative`). It works with
    every sampler with ``expand="all"`` except GraphSAINT's. LABOR-1 to LABOR-* and (P)LADIES take more rounds, in which
    ranks agree on the whole frontier. Fetch directly after the sampler: after a ``transform`` each rank fetches for
    itself. With four cores or more, the next minibatch is sampled during the exchange of rows.

    With ``partition=hr.EdgePartition.grid(graph, num_ranks)``, or a partition by source or destination, each rank
    processes its own edges, so that hubs are divided as well (hybrid-parallel execution, GraphTheta, arXiv 2104.10569).
    The sampler must be ``sample_in_subgraph``; the source may be any. Sampled fanouts, times, negatives, excluded
    edges, graphs with types and shards are refused. The masters of nodes read the features. Layers of `hr.nn` exchange
    rows with the mirrors automatically, in two collectives in each direction; layers of PyG and DGL cannot. Each hop
    takes two rounds; within a boundary all hops together take four. Stages count ``rows_to_mirrors``,
    ``rows_to_masters`` and ``messages``: the amounts that the model will exchange once in each direction.

    Owners read a row directly into the message of each rank that wants it, so several times if several ranks want it.
    ``fuse_exchange=False`` reads each row once, for files that are far larger than memory. ``loader.stats()`` counts
    rounds, collectives and bytes.
    """
    # What runs plans is loaded with the first loader, so that importing headrace stays cheap.
    load("headrace.pipeline.run.loader")
    from headrace.pipeline.run.loader import Loader

    check_switches("loader", PlanError, tune=tune)

    def make(plan: Plan, num_threads: int | None) -> Loader[MiniBatch]:
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

    if tune:
        from headrace.pipeline.plan.machine import Machine
        from headrace.pipeline.run.ranks import place_of
        from headrace.pipeline.run.tune import tune as tuned

        _, num_ranks, _ = place_of(comm, machine, rank, world_size)
        cores = Machine.detect(num_ranks).cores if machine is None else machine.cores
        own = {"machine": machine, "rank": rank, "world_size": world_size, "comm": comm, "partition": partition}
        given = {name: one for name, one in own.items() if one is not None} | ({"progress": True} if progress else {})
        plan, num_threads = tuned(plan, make, cores, num_ranks, num_threads, given | passes)
    made = make(plan, num_threads)
    source = source_of(plan)
    if source.gives_pairs or source.seed_times is not None:
        from headrace.pipeline.stages.doubts import warn_of_doubts

        warn_of_doubts(plan)
    return made


def explain(
    plan: Plan,
    *,
    machine: Machine | None = None,
    partition: Partition | EdgePartition | None = None,
    facts: bool = False,
    **passes: bool | Pass,
) -> str:
    """Return the text of the plan that a loader would run on any machine; nothing is run, copied or exchanged.

    ``loader.explain()`` is the same text for a loader that there is.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([1, 2, 2], [0, 0, 1], num_nodes=3)
    >>> plan = hr.ItemSampler(3, batch_size=2).sample_neighbor(graph, [2]).copy_to("cuda")
    >>> gpus = hr.Machine(cores=32, gpus=4, memory=256 << 30, gpu_memory=(80 << 30,) * 4, world_size=4)
    >>> print(plan.explain(machine=gpus, cooperative=True).splitlines()[1])
      item_sampler(items=..., batch_size=2, seed=...)

    Parameters
    ----------
    machine
        The machine of a rank, and their number; by default that of this process. In a job of torch.distributed the
        text is that of a loader of this rank, with the channel of the job, unless the machine is that of another rank
        or of another number of several. Ranks of such a machine with GPUs are taken to have one each, and to exchange
        tensors from GPU to GPU, as by NCCL.
    partition
        As for `loader`.
    facts
        Whether to print the facts about a batch behind each stage.
    **passes
        One switch per pass, as for `loader`.

    Raises
    ------
    PlanError
        If the plan is not legal or a switch names no pass.
    InputError
        If the data of two stages do not fit together.
    """
    from headrace.pipeline.distributed import job
    from headrace.pipeline.plan.machine import Machine
    from headrace.pipeline.run.ranks import at_place, communicates, is_elsewhere, place_of
    from headrace.pipeline.run.rewritten import rewritten

    if machine is not None:
        advice = "leave it out, or pass hr.Machine(cores=...)"
        check_kind(machine, Machine, "explain: expected machine to be an hr.Machine", advice, PlanError)
    if machine is not None and is_elsewhere(machine):
        current = machine.current_gpu or machine.rank % max(machine.gpus, 1)
        machine = replace(machine, current_gpu=current, gpu_channel=machine.gpu_channel or machine.gpus > 0)
    else:
        rank, world_size, _ = place_of(None, machine, None, None)
        machine = at_place(machine, rank, world_size)
        if world_size > 1 and communicates(plan, passes, world_size):
            machine = replace(machine, gpu_channel=job.reaches_gpus(job.all_ranks()))
    return rewritten(plan, machine, passes, partition).rewriting.explain(facts=facts)


Plan.explain = explain  # type: ignore[method-assign, assignment]
Plan.loader = loader  # type: ignore[method-assign, assignment]
