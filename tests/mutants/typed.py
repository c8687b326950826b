"""Faults in what heeds types."""

from __future__ import annotations

from mutants.mutant import Mutant

_HOP = "tests/ops/sampling/test_typed_hop.py"
_ROWS = "tests/ops/sampling/test_typed_rows.py"
_STAGES = "tests/behaviour/stages/test_types.py"
_SHARDS = "tests/behaviour/storage/test_shards_of_types.py"
_ON_DISK = "tests/behaviour/storage/test_types_of_shards_on_disk.py"
_MODELS = "tests/behaviour/models/test_types.py"

TYPED = (
    Mutant(
        "ops/native/sampling/relations.hpp",
        "first_row + (node - first_node) * stride",
        "first_row + (node - first_node)",
        f"{_HOP}::test_typed_hop_equals_reference",
    ),
    Mutant(
        "ops/native/sampling/typed_hop.cpp",
        "one.part.frontier(), call.rules[r],",
        "one.part.frontier(), call.rules[0],",
        f"{_HOP}::test_typed_hop_equals_reference",
    ),
    Mutant(
        "ops/native/sampling/typed_rows.cpp",
        "while (node >= types.first_nodes[type + 1]) ++type;",
        "if (node >= types.first_nodes[type + 1]) ++type;",
        f"{_ROWS}::test_rows_of_many_nodes_are_found_in_parts",
    ),
    Mutant(
        "ops/native/sampling/typed_rows.cpp",
        "} else if (rank + 1 < written) {",
        "} else if (rank < 0) {",
        f"{_ROWS}::test_refusals",
    ),
    Mutant(
        "ops/native/sampling/typed_rows.cpp",
        "if (!faults.elsewhere) faults.elsewhere",
        "faults.elsewhere",
        f"{_ROWS}::test_the_first_edge_that_ends_elsewhere_is_named",
    ),
    Mutant(
        "ops/sampling/typed_rows.py",
        "return [max(stride, 1) for stride in strides]",
        "return strides",
        f"{_ROWS}::test_nodes_in_which_no_relation_ends_have_a_row",
    ),
    Mutant(
        "pipeline/data/graph_types.py",
        "return keys.argsort(stable=True)",
        "return None",
        f"{_STAGES}::test_graph_in_csc_form_is_sorted_by_edge_type",
    ),
    Mutant(
        "pipeline/data/relation_block.py",
        "types.types[: block.num_dst] == type_number",
        "types.types == type_number",
        f"{_STAGES}::test_relations_of_a_block_are_its_edges",
    ),
    Mutant(
        "pipeline/data/feature_names.py",
        "ids = batch.seeds - nodes.start",
        "ids = batch.seeds",
        f"{_STAGES}::test_labels_of_seeds_of_another_type",
    ),
    Mutant(
        "pipeline/distributed/exchange.py",
        "send_rows=owned.numbers[exchange.send_rows[is_sent]]",
        "send_rows=exchange.send_rows[is_sent]",
        f"{_MODELS}::test_ranks_together_make_the_batches_of_one",
    ),
    Mutant(
        "pipeline/passes/sample_at_owners.py",
        "if not _is_apart(hop, facts, machine) or (hop.layer == 0 and seeds_are_owned)",
        "if not _is_apart(hop, facts, machine) or seeds_are_owned",
        f"{_MODELS}::test_owners_sample_for_others",
    ),
    Mutant(
        "pipeline/partition/kinds.py",
        "self.whole.position(nodes) - self._copies.beside(ids, self._before)[self.whole.owner(nodes)]",
        "self.whole.position(nodes)",
        f"{_SHARDS}::test_owners_of_a_type_are_those_of_its_nodes",
    ),
    Mutant(
        "pipeline/storage/sharded_feature.py",
        "RankRouter(whole, self._part, self._cached + self._nodes.start)",
        "RankRouter(whole, self._part, self._cached)",
        f"{_SHARDS}::test_copies_are_not_asked_for",
    ),
    Mutant(
        "pipeline/storage/sharded_feature.py",
        "torch.equal(self._asked + self._nodes.start, other._asked + other._nodes.start)",
        "torch.equal(self._asked, other._asked)",
        f"{_SHARDS}::test_copies_that_are_alike_in_number_alone_travel_apart",
    ),
    Mutant(
        "pipeline/plan/checks.py",
        "if source.nodes != nodes:",
        "if len(source.nodes) != len(nodes):",
        f"{_SHARDS}::test_owners_of_other_nodes_are_refused",
    ),
    Mutant(
        "pipeline/storage/write_shards.py",
        "nodes = owned if isinstance(name, str) else owners_of_rows(name, partition, graph).owned(part)",
        "nodes = owned",
        f"{_ON_DISK}::test_what_is_loaded_is_what_was_cut",
    ),
    Mutant(
        "pipeline/storage/write_shards.py",
        "edge_types=counts_of(graph.edge_types),",
        "",
        f"{_ON_DISK}::test_what_is_loaded_is_what_was_cut",
    ),
    Mutant(
        "pipeline/storage/shard_meta.py",
        "if not any(fields[name] for name in SINCE_2):",
        "if True:",
        f"{_ON_DISK}::test_versions_say_what_readers_have_to_know",
    ),
    Mutant(
        "pipeline/storage/shard_meta.py",
        "if not any(fields[name] for name in SINCE_2):",
        "if False:",
        f"{_ON_DISK}::test_versions_say_what_readers_have_to_know",
    ),
    Mutant(
        "pipeline/storage/shard_meta.py",
        "num_rows = self.num_nodes if isinstance(name, str) else of_nodes.get(name[0], -1)",
        "num_rows = feature.num_rows",
        f"{_ON_DISK}::test_fields_that_contradict_each_other_are_refused",
    ),
    Mutant(
        "pipeline/storage/rows_meta.py",
        "quote(as_utf8(part, 'a name'), safe='')",
        "part.replace('/', '')",
        f"{_ON_DISK}::test_names_with_commas_have_files_of_their_own",
    ),
)
