"""Faults where ranks share edges: who holds what, what is merged in which order, what goes back to whom."""

from __future__ import annotations

from mutants.mutant import Mutant

_KINDS = "tests/behaviour/models/test_hybrid_parallel.py::test_every_kind_of_message"
_CASES = "tests/behaviour/models/test_hybrid_parallel_cases.py::"
_WORK = "tests/behaviour/models/test_hybrid_parallel_work.py::"
_PYG = "tests/behaviour/models/test_pyg_on_shared_edges.py::"
_EVERY = "tests/behaviour/models/test_every_kind.py::"
_SHARED = "pipeline/models/shared_edges.py"
_SHARDS = "tests/pipeline/distributed/test_edge_shard.py::"
_REWRITES = "tests/behaviour/passes/test_shared_edges.py::"

HYBRID = (
    Mutant(
        "pipeline/plan/checks.py",
        "source.num_nodes not in (None, graph.num_nodes)",
        "False",
        "tests/behaviour/stages/test_cluster_sampler.py::test_clusters_and_global_batches_of_another_graph_are_refused",
    ),
    Mutant(
        "pipeline/models/replace_modules.py",
        "if isinstance(module, _BatchNorm) or _is_norm_of_many_rows(module):",
        "if isinstance(module, _BatchNorm):",
        "tests/behaviour/models/test_local_modules.py::test_other_kinds_are_refused_before_anything_is_replaced",
    ),
    Mutant(
        "pipeline/distributed/edge_shard.py",
        "present.nonzero()[:, 1] * columns + part % columns",
        "present.nonzero()[:, 1] * columns",
        _SHARDS + "test_every_edge_is_in_one_shard_and_masters_know_where",
    ),
    Mutant(
        "pipeline/distributed/mirrors.py",
        "int(at_masters[: self.num_own].sum())",
        "self.num_own",
        "tests/pipeline/distributed/test_mirrors.py::test_what_is_kept_is_kept_on_both_sides",
    ),
    Mutant(
        "pipeline/distributed/mirrors.py",
        "pieces[kind :: len(parts)]",
        "pieces[kind * comm.world_size : (kind + 1) * comm.world_size]",
        "tests/pipeline/distributed/test_mirrors.py::test_rows_of_several_kinds_are_one_message",
    ),
    Mutant(
        "pipeline/distributed/shared_edges.py",
        "inside = places < len(nodes)",
        "inside = places >= 0",
        _WORK + "test_counted_work_does_not_depend_on_the_number_of_ranks[cluster with boundary-grid]",
    ),
    Mutant(
        "pipeline/distributed/shared_edges.py",
        "mirrored.kept(heard, left)",
        "mirrored",
        _KINDS + "[sum-6]",
    ),
    Mutant(
        "pipeline/distributed/shared_aggregation.py",
        "(alike & (name < holder))",
        "(alike & (name > holder))",
        _CASES + "test_any_graph",
    ),
    Mutant(
        "pipeline/distributed/shared_aggregation.py",
        "torch.where(won, mirrors.pick(gradients[0]), 0)",
        "mirrors.pick(gradients[0])",
        _KINDS + "[max-6]",
    ),
    Mutant(
        "pipeline/distributed/shared_aggregation.py",
        "counted = ctx.counted and received is not None",
        "counted = False",
        _KINDS + "[weighted mean-6]",
    ),
    Mutant(
        "pipeline/distributed/shared_attention.py",
        "(before - largest[mirrors.rows]).exp()",
        "1",
        _KINDS + "[attention-6]",
    ),
    Mutant(
        "pipeline/distributed/shared_attention.py",
        "torch.ones_like(came[..., :1])",
        "torch.zeros_like(came[..., :1])",
        _KINDS + "[attention-6]",
    ),
    Mutant(
        "pipeline/distributed/shared_attention.py",
        "AttentionDropout.of(dropout, key, block.edge_ids)",
        "AttentionDropout.of(dropout, key)",
        _CASES + "test_dropout_of_attention_belongs_to_edges[grid]",
    ),
    Mutant(
        "pipeline/passes/shared_edges.py",
        "if stage.takes_all:",
        "if True:",
        _REWRITES + "test_refuses_what_needs_all_edges_of_a_node",
    ),
    # Layers of PyG on shared edges.
    Mutant(
        _SHARED,
        "statistic.add(value[of_rank], None if ties is None else ties[of_rank], mirrors.rows[of_rank])",
        "statistic.add(value[:0], None if ties is None else ties[:0], mirrors.rows[:0])",
        _PYG + "test_rows_and_gradients_are_those_of_one_process[sage max]",
    ),
    Mutant(
        _SHARED,
        "add_to(self._of_rows, [*of_sources, *of_destinations])",
        "self._of_rows = [*of_sources, *of_destinations]",
        _PYG + "test_rows_and_gradients_are_those_of_one_process[attending]",
    ),
    Mutant(
        _SHARED,
        "own = (sources < self.sources.num_own) & (ends < self.targets.num_own)",
        "own = sources < 0",
        _PYG + "test_layers_that_take_one_table[gcn]",
    ),
    Mutant(
        _SHARED,
        "places = torch.cat([mirrors.rows[:num_own], others])",
        "places = torch.cat([own[:num_own], others])",
        _PYG + "test_layers_that_take_one_table[gat edges]",
    ),
    Mutant(
        _SHARED,
        "return dataclasses.replace(self, edges=part, num_edges=int(mask.sum()))",
        "return dataclasses.replace(self, edges=part)",
        _PYG + "test_rows_and_gradients_are_those_of_one_process[by kind]",
    ),
    Mutant(
        _SHARED,
        "torch.cat([self.edges.ids[kept], IDS_OF_LOOPS + self.nodes[:number]]),",
        "torch.cat([self.edges.ids[kept], own]),",
        _PYG + "test_masks_of_dropout_belong_to_edges",
    ),
    Mutant(
        "pipeline/models/running_batch.py",
        "return bool(exchanges) and exchanges[self.layer or 0].stays",
        "return False",
        _PYG + "test_batch_normalisation_inside_a_layer_goes_over_all_ranks",
    ),
    Mutant(
        "pipeline/models/adapters/pyg_layers.py",
        "if graph.origin is not self._origin:",
        "if False:",
        _PYG + "test_what_cannot_be_equal_is_refused[kept edges]",
    ),
    Mutant(
        "pipeline/models/adapters/pyg_functions.py",
        "watch.check((args, kwargs), some=True)",
        "pass",
        _PYG + "test_what_cannot_be_equal_is_refused[forward]",
    ),
    Mutant(
        "pipeline/models/adapters/pyg_layers.py",
        "return (widened(rows), reduce) if is_plain else None",
        "return widened(rows), reduce",
        _PYG + "test_rows_and_gradients_are_those_of_one_process[gen sum]",
    ),
    Mutant(
        _SHARED,
        "return block, _positions(part)[order]",
        "return block, _positions(part)",
        _EVERY + "test_a_layer_is_that_of_one_process[hr.nn.GCNConv, weighted-grid-2]",
    ),
)
