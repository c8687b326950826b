"""Faults in what heeds types."""

from __future__ import annotations

from mutants.mutant import Mutant

_HOP = "tests/ops/sampling/test_typed_hop.py"
_ROWS = "tests/ops/sampling/test_typed_rows.py"
_STAGES = "tests/behaviour/stages/test_types.py"
_SHARDS = "tests/behaviour/storage/test_shards_of_types.py"
_ON_DISK = "tests/behaviour/storage/parts/test_types_of_parts.py"
_IDENTITY = "tests/behaviour/storage/parts/test_part_identity.py"
_HOSTILE = "tests/behaviour/storage/parts/test_hostile_parts.py"
_REFUSED = "tests/behaviour/storage/parts/test_parts_refusals.py"
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
        "pipeline/storage/parts/write_parts.py",
        "if not isinstance(name, str):\n            of_type",
        "if of == 'edge' and not isinstance(name, str):\n            of_type",
        f"{_ON_DISK}::test_what_is_loaded_is_what_was_cut",
    ),
    Mutant(
        "pipeline/storage/parts/write_parts.py",
        "        counts_of(graph.edge_types),\n",
        "        None,\n",
        f"{_ON_DISK}::test_what_is_loaded_is_what_was_cut",
    ),
    Mutant(
        "ops/sampling/typed_rows.py",
        "rows = first_rows[kinds] + (own_nodes - firsts[kinds]) * counts",
        "rows = first_rows[kinds] + (own_nodes - firsts[kinds])",
        f"{_ON_DISK}::test_any_types",
    ),
    Mutant(
        "pipeline/partition/part_owners.py",
        "counts[self.part] = self._ranks.num_below(node)",
        "pass",
        "tests/pipeline/partition/test_part_owners.py::test_nodes_of_a_type_are_as_those_of_all",
    ),
    Mutant(
        "pipeline/storage/parts/open_parts.py",
        "if counts != sizes:",
        "if False:",
        f"{_HOSTILE}::test_sources_and_owners_out_of_range",
    ),
    Mutant(
        "pipeline/storage/parts/open_parts.py",
        "if checksum != stated.sha256:",
        "if False:",
        f"{_HOSTILE}::test_a_field_of_a_part_that_lies_is_refused[graph.edge_attrs-hash-as it was]",
    ),
    Mutant(
        "pipeline/storage/parts/open_parts.py",
        "if checksum_of_manifest(data) != parts.source:",
        "if False:",
        f"{_REFUSED}::test_parts_of_a_data_set_that_was_replaced",
    ),
    Mutant(
        "pipeline/storage/parts/open_parts.py",
        "reader = Reader(folder, memory_map=memory_map, compare=True)",
        "reader = Reader(folder, memory_map=memory_map)",
        f"{_IDENTITY}::test_a_file_of_another_part_is_refused",
    ),
    Mutant(
        "pipeline/storage/parts/open_parts.py",
        "if world_size != parts.num_parts:",
        "if world_size not in (1, parts.num_parts):",
        f"{_REFUSED}::test_what_has_to_be_named",
    ),
    Mutant(
        "pipeline/storage/parts/part_set.py",
        "if parts.identity != parts.identified().identity:",
        "if False:",
        f"{_REFUSED}::test_what_is_no_parts_is_not_opened",
    ),
    Mutant(
        "pipeline/storage/parts/part_set.py",
        "if total != (parts.num_nodes, parts.num_edges):",
        "if False:",
        f"{_REFUSED}::test_what_is_no_parts_is_not_opened",
    ),
    Mutant(
        "pipeline/storage/parts/write_parts.py",
        "digest=digest)",
        "digest=None)",
        f"{_ON_DISK}::test_what_is_loaded_is_what_was_cut",
    ),
    Mutant(
        "pipeline/storage/dataset/folder_writer.py",
        'safe=",")',
        'safe=",/")',
        "tests/behaviour/storage/parts/test_parts.py::test_what_is_loaded_is_what_was_cut",
    ),
)
