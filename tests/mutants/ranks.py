"""Faults between ranks: who owns what, which rows go where, masks and sums that have to be those of one process."""

from __future__ import annotations

from mutants.mutant import Mutant

_NORM = "tests/behaviour/models/test_norm_over_ranks.py::"
_TRAINING = "tests/behaviour/models/test_cooperative_training.py::"
_EXCHANGE = "tests/behaviour/passes/test_fuse_exchange.py::"
_SUBGRAPHS = "tests/behaviour/distributed/test_subgraphs_on_ranks.py::"
_SHARDS = "tests/behaviour/storage/test_shards.py::"
_TRIAL = "tests/behaviour/models/test_cooperative_trial.py::"
_FORMS = "tests/behaviour/models/test_cooperative_forms.py::"
_KEPT = "tests/pipeline/models/test_without_trace.py::"

_OWN = "tests/behaviour/stages/test_items_per_rank.py::"

_PLACE = "tests/behaviour/run/test_same_place.py::"
_ROWS = "tests/behaviour/models/test_row_watch.py::"
_END = "tests/behaviour/run/test_same_end.py::"

_ONE = "tests/behaviour/models/test_forms_on_one_process.py::"
_UP = "tests/behaviour/run/test_given_up.py::"

RANKS = (
    Mutant(
        "pipeline/models/cooperative.py",
        "_hash(modes), _hash(str(seed))",
        "0, _hash(str(seed))",
        "tests/behaviour/models/test_cooperative_agreement.py::test_models_that_differ_are_refused_on_all_ranks[modes]",
    ),
    Mutant(
        "pipeline/models/cooperative.py",
        "if len(batch.blocks) != self._num_layers:",
        "if batch.exchanges and len(batch.blocks) != self._num_layers:",
        _ONE + "test_what_is_refused_on_any_number_of_processes[no layers-None]",
    ),
    Mutant(
        "pipeline/models/running_batch.py",
        "return layer >= self.num_exchanged",
        "return bool(self.batch.exchanges) and layer >= self.num_exchanged",
        _ONE + "test_what_is_refused_on_any_number_of_processes[rows in another form-None]",
    ),
    Mutant(
        "pipeline/distributed/meeting.py",
        'outcome = store.first(f"{key}/outcome", own)',
        "outcome = own",
        "tests/pipeline/run/test_given_up.py::test_a_meeting_at_the_store_is_given_up_for_all[2]",
    ),
    Mutant(
        "pipeline/distributed/local_comm.py",
        "raise self._blame(error) if look else self._given_up(error)",
        "raise self._blame(error)",
        _UP + "test_ranks_meet_again_behind_a_meeting_that_was_given_up[2-False]",
    ),
    Mutant(
        "pipeline/distributed/same_place.py",
        "if place != [epoch, batch]:",
        "if place[0] != epoch:",
        _PLACE + "test_all_ranks_are_told_that_one_alone_moved[resumed midway-True-2]",
    ),
    Mutant(
        "pipeline/distributed/same_place.py",
        "if epoch == self._epoch and batch <= self._reached[1]:",
        "if epoch == self._epoch and batch < 0:",
        _PLACE + "test_a_rank_may_look_at_a_batch_and_begin_anew[2]",
    ),
    Mutant(
        "pipeline/distributed/same_place.py",
        "        self._say_end()\n        key =",
        "        key =",
        _END + "test_a_rank_that_takes_a_batch_alone_is_told[1-2]",
    ),
    Mutant(
        "pipeline/distributed/same_place.py",
        "if num_batches > self._reached[1]:",
        "if num_batches > self._reached[1] + 1:",
        "tests/pipeline/run/test_same_place.py::test_a_rank_that_ends_sees_who_has_more_or_is_seen[True]",
    ),
    Mutant(
        "pipeline/run/iteration.py",
        "            loop.look_back()\n",
        "            pass\n",
        _PLACE + "test_all_ranks_are_told_that_one_alone_moved[another epoch-False-2]",
    ),
    Mutant(
        "pipeline/distributed/same_place.py",
        "            self._begin_anew()\n            raise",
        "            self._num_reported += 1\n            raise",
        _PLACE + "test_ranks_that_were_told_move_and_go_on[2]",
    ),
    Mutant(
        "pipeline/run/same_plan.py",
        'values.pop("seed", None)',
        "values.clear()",
        "tests/behaviour/run/test_agreement.py::test_ranks_with_shares_of_their_own_are_told[batch_size]",
    ),
    Mutant(
        "pipeline/run/same_plan.py",
        '"owners": "".join(_owners(final)),',
        '"owners": "".join(_owners(final)) if together else "",',
        "tests/behaviour/run/test_agreement.py::test_ranks_that_go_by_other_owners_are_told[owners-False]",
    ),
    Mutant(
        "pipeline/stages/item_sampler.py",
        "return None if self.partition is None else self.partition.num_nodes",
        "return None",
        "tests/behaviour/run/test_agreement.py::test_items_go_by_a_partition_of_their_graph",
    ),
    Mutant(
        "pipeline/models/cooperative.py",
        'any(hook is sum_hook for hook, _ in getattr(parameters, "_comm_hooks", ()))',
        "False",
        "tests/behaviour/distributed/test_arguments_of_ranks.py::test_gradients_are_added_up_once",
    ),
    Mutant(
        "pipeline/run/same_plan.py",
        'seeds = [one["seed"] for one in told]',
        'seeds = [one["seed"] and 1 for one in told]',
        "tests/behaviour/run/test_agreement.py::test_ranks_with_shares_of_their_own_are_told[seed]",
    ),
    Mutant(
        "pipeline/data/rank_shares.py",
        "(2 * done * count + self._last) // (2 * self._last)",
        "done * count // self._last",
        "tests/pipeline/stages/test_rank_shares.py::test_even_ranks_take_even_shares",
    ),
    Mutant(
        "pipeline/stages/item_source.py",
        "return before[rank], behind[rank], sum(sizes[:rank]), sum(sizes)",
        "return before[rank], behind[rank], 0, sum(sizes)",
        _OWN + "test_seeds_have_slots_of_their_own",
    ),
    Mutant(
        "pipeline/run/loader.py",
        "digests[name] = digest_of((digests[name], self._ranks.own))",
        "pass",
        _OWN + "test_a_checkpoint_belongs_to_the_items_and_the_number_of_ranks",
    ),
    Mutant(
        "pipeline/passes/cooperative.py",
        "None if facts.shares_layers or _stays(copy, machine, hop) else (hop, compact, copy)",
        "None",
        "tests/pipeline/passes/test_sample_on_cpu.py::test_ranks_that_exchange_ids_sample_on_the_cpu",
    ),
    Mutant(
        "pipeline/distributed/exchange.py",
        "summed[:num_own] = gradient[:num_own]",
        "",
        _TRAINING + "test_training_equals_one_process[Sage-node_plan-2]",
    ),
    Mutant(
        "pipeline/distributed/exchange.py",
        "values[self.num_own :], self.receive_counts, self.send_counts",
        "values[self.num_own :], self.send_counts, self.receive_counts",
        _TRAINING + "test_training_equals_one_process_with_every_sampler[hash-labor_star]",
    ),
    Mutant(
        "pipeline/models/running_batch.py",
        "or num_rows not in expected:",
        "or num_rows < 0:",
        _ROWS + "test_dropout_of_other_than_rows_is_refused",
    ),
    Mutant(
        "pipeline/models/running_batch.py",
        "self.num_dropouts += 1",
        "pass",
        _TRAINING + "test_dropouts_of_one_model_have_masks_of_their_own",
    ),
    Mutant(
        "pipeline/models/cooperative_modules.py",
        "running.dropout_key(self.seed)",
        "running.dropout_key(0)",
        _TRAINING + "test_dropout_drops_and_has_seeds",
    ),
    Mutant(
        "pipeline/models/replace_modules.py",
        "counts * (means - mean).square()",
        "counts * (means.square() - mean.square())",
        _NORM + "test_no_digits_are_lost_far_from_zero[dtype1-100000000.0-1e-07]",
    ),
    Mutant(
        "pipeline/models/replace_modules.py",
        "out.sub_(rest).mul_(scale)",
        "out.mul_(scale)",
        _NORM + "test_ranks_normalise_as_one_process",
    ),
    Mutant(
        "pipeline/models/replace_modules.py",
        "normalised = (rows - near).sub_(rest).mul_(scale)",
        "normalised = (rows - (near + rest)).mul_(scale)",
        _NORM + "test_no_digits_are_lost_far_from_zero[dtype0-10000.0-0.0001]",
    ),
    Mutant(
        "pipeline/models/replace_modules.py",
        "unbiased = variance * count / (count - 1).clamp(min=1.0)",
        "unbiased = variance",
        _TRAINING + "test_running_estimates_are_those_of_one_process",
    ),
    Mutant(
        "pipeline/models/replace_modules.py",
        "sums = ctx.comm.all_reduce_sum(torch.cat([by_bias, by_weight])) / total",
        "sums = torch.cat([by_bias, by_weight]) / total",
        _TRAINING + "test_batch_normalisation_equals_one_process[2]",
    ),
    Mutant(
        "pipeline/storage/sharded_feature.py",
        "gather_rows(rows, found.row[chosen], out=out",
        "gather_rows(rows, found.row[chosen].flip(0), out=out",
        _SHARDS + "test_rows_of_several_copies_come_in_the_order_of_the_request",
    ),
    Mutant(
        "pipeline/lowered/ranks/fetch_owned.py",
        "places=order[:num_own]",
        "places=order[-num_own:]",
        _EXCHANGE + "test_same_result_as_whole_features_without_cooperation[2-None]",
    ),
    Mutant(
        "pipeline/distributed/rank_reducer.py",
        'asked, "amin"\n',
        'asked, "amax", include_self=False\n',
        "tests/behaviour/models/test_cooperative.py::test_union_is_the_batch_of_one_process[ladies-nodes-hash]",
        equivalent="the owner may let any one of those who asked count a node, as long as it is one",
    ),
    Mutant(
        "pipeline/distributed/rank_reducer.py",
        "counted_here = exchange.answer(first[exchange.asked_rows] == asked, self._comm)",
        "counted_here = exchange.answer(torch.ones_like(asked, dtype=torch.bool), self._comm)",
        "tests/behaviour/models/test_cooperative.py::test_union_is_the_batch_of_one_process[ladies-nodes-hash]",
    ),
    Mutant(
        "pipeline/run/ranks.py",
        "if one.part not in (None, rank):",
        "if False:",
        _SHARDS + "test_shards_of_others_are_refused",
    ),
    Mutant(
        "pipeline/lowered/ranks/_together.py",
        "elements = element_keys(elements, of_edges, graph.num_nodes)",
        "elements = element_keys(elements, of_edges * 0, graph.num_nodes)",
        _SUBGRAPHS + "test_ranks_find_together_what_one_process_finds[shadow-hash-False]",
    ),
    Mutant(
        "pipeline/lowered/ranks/exchange_ids.py",
        "while times < len(blocks) and blocks[times] is blocks[0]:",
        "while False:",
        "tests/behaviour/passes/test_within_boundary.py::test_ranks_find_the_edges_within_once_for_all_layers[0]",
    ),
    Mutant(
        "pipeline/lowered/ranks/_together.py",
        "kept &= ~is_left_out(left_out, hop.positions, of_edges)",
        "pass",
        _SUBGRAPHS + "test_edges_between_seeds_are_left_out",
    ),
    Mutant(
        "pipeline/stages/induce_subgraph.py",
        "batch.slot if batch.seed_slot is None else batch.seed_slot[batch.slot]",
        "batch.slot",
        _SUBGRAPHS + "test_each_tree_leaves_out_the_edges_of_its_own_pair[False-trees]",
    ),
    Mutant(
        "pipeline/lowered/compact.py",
        "of_seeds = replace(batch.exchanges[-1], owned=before.n_id, owned_slot=before.slot)",
        "of_seeds = batch.exchanges[-1]",
        _SUBGRAPHS + "test_ranks_find_together_what_one_process_finds[new-hash-False]",
    ),
    Mutant(
        "pipeline/lowered/compact.py",
        'return with_hop(found.batch, found.hop, None, "all", stage.graph)',
        "return with_hop(found.batch, found.hop, None, stage.expand, stage.graph)",
        _SUBGRAPHS + "test_ranks_find_together_what_one_process_finds[new-hash-False]",
    ),
    Mutant(
        "pipeline/lowered/ranks/_at_owners.py",
        "edges.columns[1][kept[subgraph.positions]]",
        "edges.columns[1][subgraph.positions]",
        _SUBGRAPHS + "test_owners_find_trees_for_others[shadow]",
    ),
    Mutant(
        "pipeline/lowered/ranks/_at_owners.py",
        "stays = ~is_left_out(left_out, positions, None)",
        "stays = torch.ones_like(positions, dtype=torch.bool)",
        _SUBGRAPHS + "test_trees_of_shares_leave_out_edges_between_seeds[shards]",
    ),
    Mutant(
        "pipeline/models/cooperative.py",
        "blocks=batch.blocks * num_layers, exchanges=(*[layer] * num_layers, of_seeds)",
        "blocks=batch.blocks * num_layers, exchanges=(layer, *[of_seeds] * num_layers)",
        _SUBGRAPHS + "test_models_of_any_depth_train_as_in_one_process[new]",
    ),
    Mutant(
        "pipeline/models/other_nodes.py",
        "other = 1 - 2 * rows if rows.is_floating_point() else rows",
        "other = rows",
        "tests/behaviour/models/test_types_on_ranks.py::"
        "test_others_are_refused[TwiceOfTypes-of_block-None-to give a node the same row whatever]",
    ),
    Mutant(
        "pipeline/models/by_parts/edge_steps.py",
        "if place.space == DESTINATIONS and end.end != DESTINATION:",
        "if False:",
        _TRIAL + "test_other_layers_are_refused_on_all_ranks[in_degrees]",
    ),
    Mutant(
        "pipeline/models/by_parts/edge_steps.py",
        "if end is None or end.end != DESTINATION:",
        "if end is None:",
        _TRIAL + "test_other_layers_are_refused_on_all_ranks[backwards]",
    ),
    Mutant(
        "pipeline/models/watched_layers.py",
        "or layer.training in watched or",
        "or watched or",
        _FORMS + "test_layers_are_watched_in_both_modes",
    ),
    Mutant(
        "pipeline/models/watched_layers.py",
        'running.comm.fail("".join(format_exception(error)))',
        "pass",
        _TRIAL + "test_refusals_reach_ranks_that_do_not_refuse",
    ),
    Mutant(
        "pipeline/models/without_trace.py",
        "for name, one in attributes.items()}",
        "for name, one in attributes.items()} | {'_buffers': attributes['_buffers']}",
        _KEPT + "test_a_module_is_what_it_was",
    ),
)
