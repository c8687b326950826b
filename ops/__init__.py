"""Array functions on graphs and features, which the stages of headrace.pipeline call.

Functions take and return CPU tensors (NumPy arrays and memory maps are accepted for inputs that are only read).
Functions with a kernel for GPUs run on the GPU if their main argument is there (`headrace.ops.gpu`). They do not depend
on stages or plans, and are *pure*: the result depends on the arguments alone. Random choices are no exception. A draw
is addressed by a 64-bit stream key and a global node id (see `headrace.ops.random.rng`), so results are the same bits
for any number of threads, in any order of calls, in any process, on either device.

====================  ==============================================================================================
Build a graph         `coo_to_csc` sorts an edge list by destination
Renumber a graph      `reorder_csc` puts its nodes into another order
Score nodes           `sum_to_sources` and `reach_sources` work against the direction of messages
Check a graph         `check_csc` and `check_weights`, for arrays not built here; `has_parallel_edges`
Address randomness    `stream_key` returns the key of (seed, epoch, batch, layer, purpose); `dependent_key` that of
                      a LABOR hop whose batches depend on each other
Order items           `shuffled_range` gives any chunk of a shuffled range, of more than 2**20 items without the rest
Pick edges            `sample_hop` applies a rule to a frontier: a `NeighborRule`, `LatestRule`, `LaborRule`,
                      `LaborImportanceRule`, `LadiesRule`; with types, one for each relation (`ByRelation`, `TypedRows`)
Look at a layer       `labor_importance` and `draw_ladies` give the probabilities by which layer-wise rules draw; a
                      `LayerReducer` lets them decide for a frontier that was cut in parts
Find and draw links   `find_edges`, for the edges that samplers are not to pick; `draw_negatives`
Walk                  `random_walk`, and `pinsage_neighbors` for the nodes that walks visit most
Draw subgraphs        `draw_nodes`, `draw_edges`, `induced_subgraph`, and the norms of GraphSAINT (`ops.saint`)
Renumber nodes        `compact`, `Compactor` and `unique_and_inverse`
Fuse these steps      `BlockSampler` runs hop, compact, hop, compact ... in one call, with the same result
Join the hops         `join_hops` lists the edges of a minibatch, each once
Fetch features        `gather_rows`; `decode_rows` for those stored in fewer bytes; `gather_rows_with_grad` and
                      `scatter_add_rows` for gradients
Fetch from tiers      `locate_rows` returns the tables with the rows (`TierSizes`), `gather_tables` reads them
Keep copies of rows   `CacheIndex` finds rows in the slots of a cache; `SetIndex` does so on a GPU
Aggregate messages    `spmm`, `spmm_extreme`, `attend`, and `sddmm` for gradients of weights, on rows that may come in
                      parts; `transpose_csc` for the way back; `aggregate_with_grad`, `attend_with_grad`
Drop elements         `dropout_mask`
Find owners           `hash_owners`, `group_by_owner`, `positions_in_parts`
Place large arrays    `use_huge_pages`
Free or keep memory   `trim_pool`, `keep_freed_memory`
====================  ==============================================================================================

A graph is CSC over in-neighbours: ``indices[indptr[v]:indptr[v + 1]]`` are the sources of the edges into ``v``. Two
hops of ten neighbours look like this::

    csc = ops.coo_to_csc(src, dst, num_nodes)
    sampler = ops.BlockSampler(csc.indptr, csc.indices, csc.edge_ids)
    keys = [ops.stream_key(seed, epoch, batch, layer, ops.rng.NEIGHBOR) for layer in range(2)]
    sampled = sampler.sample(seeds, [ops.NeighborRule(10), ops.NeighborRule(10)], keys)
    x = ops.gather_rows(features, sampled.n_id)

Compiled kernels are in ``ops/native``: plain C++17 without Python. They release the GIL. `headrace.ops.reference` has a
slow, obvious NumPy version of each function; tests compare the bits of both.
"""

from typing import TYPE_CHECKING

from headrace.ops.names import names_of as _names_of

if TYPE_CHECKING:
    from headrace.ops.public import *  # noqa: F403
    from headrace.ops.public import __all__  # noqa: F401
    from headrace.ops.random import rng as rng
    from headrace.ops.sampling import saint as saint
else:
    # What needs one module, such as `headrace --help` its errors, imports neither torch nor the compiled module.
    _MODULES = {"rng": "headrace.ops.random.rng", "saint": "headrace.ops.sampling.saint"}
    __getattr__, __dir__ = _names_of(__name__, "headrace.ops.public", _MODULES)
