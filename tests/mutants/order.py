"""Faults in what an epoch is made of: its order, its keys, where a checkpoint stands, what threads hand on."""

from __future__ import annotations

from mutants.mutant import Mutant

_BUDGET = "tests/pipeline/data/test_item_budget.py::"
_LOADER = "tests/behaviour/run/test_loader.py::"
_RESUME = "tests/behaviour/run/test_resume.py::"

ORDER = (
    Mutant(
        "pipeline/stages/item_source.py",
        "stream_key(self._sampler.seed, epoch, self.order_of, 0, SHUFFLE)",
        "stream_key(self._sampler.seed, 0, self.order_of, 0, SHUFFLE)",
        _LOADER + "test_every_epoch_has_an_order_of_its_own",
    ),
    Mutant(
        "pipeline/stages/item_source.py",
        "if known is None or known[0] != epoch:",
        "if known is None:",
        _BUDGET + "test_peers_26_orders_are_those_of_batches_of_one_size",
    ),
    Mutant(
        "pipeline/stages/item_source.py",
        "sampler.cost.numpy()[order]",
        "sampler.cost.numpy()",
        _BUDGET + "test_peers_26_orders_are_those_of_batches_of_one_size",
    ),
    Mutant(
        "pipeline/run/loader.py",
        "Position(self._source.count)\n        self._position.move(epoch, source)",
        "Position(self._position.count)\n        self._position.move(epoch, source)",
        _BUDGET + "test_the_end_of_an_epoch_is_the_beginning_of_the_next",
    ),
    Mutant(
        "pipeline/data/item_budget.py",
        ', "right")), start + 1)',
        ', "left")), start + 1)',
        _BUDGET + "test_peers_26_a_batch_takes_items_while_they_fit",
    ),
    Mutant(
        "pipeline/data/item_budget.py",
        "min(stop, start + most)",
        "min(stop, start + most + 1)",
        _BUDGET + "test_peers_26_a_batch_takes_items_while_they_fit",
    ),
    Mutant(
        "pipeline/stages/item_source.py",
        "stream_key(self._sampler.seed, epoch,",
        "stream_key(0, epoch,",
        "tests/pipeline/data/test_items.py::test_seeds_name_orders",
    ),
    Mutant(
        "pipeline/stages/item_source.py",
        "first + size * (settings.rank + 1) // settings.world_size",
        "first + size // settings.world_size * (settings.rank + 1)",
        _LOADER + "test_shares_of_ranks_make_up_the_batch",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "settings.seed, batch.epoch, batch.index",
        "settings.seed, 0, batch.index",
        _LOADER + "test_every_epoch_and_every_batch_has_picks_of_its_own",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "batch.epoch, batch.index, self.key_layer",
        "batch.epoch, 0, self.key_layer",
        _LOADER + "test_every_epoch_and_every_batch_has_picks_of_its_own",
    ),
    Mutant(
        "pipeline/stages/hop_sampler.py",
        'self.key_layer(layer), f"{self.name}: key_layer({layer})"',
        'layer, ""',
        "tests/behaviour/passes/test_fuse_sampling.py::test_keeps_what_keys_the_randomness",
    ),
    # Dependent batches: windows meet, and steps are those of the batch.
    Mutant(
        "ops/random/dependency.py",
        "epoch, window + 1, layer, WINDOW",
        "epoch, window + (1 << 32), layer, WINDOW",
        "tests/ops/random/test_dependency.py::test_consecutive_batches_have_one_correlation",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "batch.epoch, batch.index, self.key_layer",
        "batch.epoch, batch.index // 2, self.key_layer",
        "tests/pipeline/stages/test_batch_dependency.py::test_the_step_is_that_of_the_batch",
    ),
    # Nothing later than its seed in a tree.
    Mutant(
        "pipeline/lowered/trees.py",
        "bounds = latest_of(batch.seed_time, strictly_before=self.strictly_before)",
        "bounds = latest_of(batch.seed_time, strictly_before=self.strictly_before) + 9",
        "tests/behaviour/stages/test_temporal.py::test_peers_14_equal_times_are_included",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "replace(self, rule=other.rule, key_layer=other.key_layer) == other",
        "replace(self, rule=other.rule, key_layer=other.key_layer, batch_dependency=other.batch_dependency) == other",
        "tests/pipeline/stages/test_batch_dependency.py::test_hops_of_different_dependencies_are_not_fused",
    ),
    Mutant(
        "pipeline/run/iteration.py",
        'if source is not None and source["batch"] == self.count(epoch):',
        "if False:",
        _RESUME + "test_state_behind_the_last_batch_is_the_beginning_of_the_next_epoch",
    ),
    Mutant(
        "pipeline/run/iteration.py",
        "if not resumed:",
        "if True:",
        "tests/behaviour/run/test_torchdata.py::test_no_epoch_is_empty_after_resuming_behind_the_last_batch",
    ),
    Mutant(
        "pipeline/run/checkpoint.py",
        "if theirs[stage] != digest:",
        "if False:",
        _RESUME + "test_a_state_of_another_plan_is_refused_and_changes_nothing",
    ),
    Mutant(
        "pipeline/run/checkpoint.py",
        'if state["batch_size"] != batch_size:',
        "if False:",
        _RESUME + "test_batch_size_per_rank_refuses_another_number_of_ranks",
    ),
    Mutant(
        "pipeline/stages/other_sources.py",
        'self._item = 0 if state is None else int(state["item"])',
        "self._item = 0",
        "tests/behaviour/run/test_torchdata.py::test_a_node_source_resumes_at_any_batch",
    ),
    Mutant(
        "pipeline/run/loader.py",
        "self._position.move(self._position.epoch + 1)",
        "self._position.move(self._position.epoch)",
        _LOADER + "test_an_iteration_after_a_break_is_the_next_epoch",
    ),
    Mutant(
        "pipeline/run/prefetch_node.py",
        "self._slots.give_back()\n            return result",
        "self._slots.give_back()\n            self._slots.give_back()\n            return result",
        _LOADER + "test_prefetch_holds_no_more_than_its_depth",
    ),
    Mutant(
        "pipeline/run/nodes.py",
        "except StopIteration as error:",
        "except GeneratorExit as error:",
        "tests/behaviour/run/test_errors.py::test_a_stop_iteration_of_the_user_does_not_end_the_epoch",
    ),
    Mutant(
        "pipeline/run/stats.py",
        "name: dict(totals) for name, totals in list(self._lowered.items())",
        "name: totals for name, totals in list(self._lowered.items())",
        "tests/behaviour/run/test_stats.py::test_stats_are_those_of_the_moment",
    ),
    Mutant(
        "pipeline/run/stats.py",
        'total if name == "batches" else whole.get(name, 0) + total',
        "whole.get(name, 0) + total",
        "tests/behaviour/run/test_stats.py::test_stats_are_the_same_whatever_passes_run",
    ),
    Mutant(
        "pipeline/passes/shards.py",
        "tuple(one.made_of(stage) for one in stages)",
        "tuple(stages)",
        "tests/pipeline/plan/test_origins.py::test_every_stage_that_passes_make_has_an_origin",
    ),
    Mutant(
        "pipeline/lowered/_fetch_stage.py",
        "read(source, one, counts, decoding) for one in some",
        "read(source, one, counts if one is some[0] else {'rows': 0, 'bytes': 0}, decoding) for one in some",
        "tests/behaviour/run/test_stats.py::test_stats_count_the_rows_of_edges",
    ),
)
