"""Faults of padding."""

from __future__ import annotations

from mutants.mutant import Mutant

_DOOR = "ops/sampling/pad.py"
_EDGES = "tests/ops/sampling/test_pad.py::test_edges_are_those_of_the_oracle_and_padding_joins_padding"
_KINDS = "tests/ops/sampling/test_pad.py::test_padding_edges_are_divided_among_padding_rows_of_each_kind"
_LAYOUT = "pipeline/lowered/_pad_layout.py"
_STAGE = "tests/behaviour/stages/test_pad.py::"
_RELATIONS = _STAGE + "test_relations_have_two_shapes_and_are_the_same_but_for_padding[blocks]"
_LAYERS = "tests/behaviour/models/nn/test_padding.py::"
_BITS = _LAYERS + "test_outputs_and_gradients_do_not_depend_on_padding_in_any_bit"
_SHAPES = "pipeline/lowered/_shapes.py"

_TYPED = "tests/behaviour/interop/test_padded.py::test_types_have_two_shapes_and_masks"

PADDING = (
    Mutant("pipeline/interop/typed.py", "of_type &= batch.seed_mask", "pass", _TYPED),
    Mutant("pipeline/interop/labels.py", "padded.sizes.nodes[0][number] == 1", "False", _TYPED),
    Mutant("pipeline/data/padded_block.py", "torch.where(edge_ids < 0, -1, within)", "within", _TYPED),
    Mutant(
        "pipeline/stages/pad.py",
        "tuple(zip(*(chosen[one] for one in types.names), strict=True))",
        "tuple(zip(*chosen.values(), strict=True))",
        _STAGE + "test_sizes_by_type_are_those_of_all_batches[blocks]",
    ),
    Mutant(_DOOR, "degrees[start : start + rest] += 1", "degrees[start : start + rest] += 0", _EDGES),
    Mutant(_DOOR, "kinds.get(rows, 0) + one.number", "one.number", _KINDS),
    Mutant(
        _LAYOUT,
        "behind = min(hop + 1, layer.src_hops - 1)",
        "behind = layer.src_hops - 1",
        "tests/behaviour/interop/test_padded.py::test_layers_of_pyg_trim_them_and_have_the_same_outputs_and_gradients",
    ),
    Mutant(_LAYOUT, "key=lambda number: self.ends[number][1]", "key=lambda number: 0", _RELATIONS),
    Mutant(
        "pipeline/models/nn/norms.py",
        "variance * count / (count - 1).clamp(min=1)",
        "variance",
        "tests/behaviour/models/nn/test_norms.py::test_they_are_those_of_pyg_without_padding[batch-sources]",
    ),
    Mutant(
        "pipeline/models/nn/norms.py",
        "several = count > 1",
        "several = count > 0",
        "tests/behaviour/models/nn/test_norms.py::test_a_single_real_row_changes_no_statistics[0.1]",
    ),
    Mutant(
        _SHAPES, "needed.fits(self.short)", "True", _STAGE + "test_larger_batches_of_later_epochs_have_larger_sizes"
    ),
    Mutant(
        _SHAPES,
        "hops = 1 - self.num_shapes",
        "hops = 0",
        _STAGE + "test_where_batches_differ_much_there_are_more_shapes",
    ),
    Mutant(
        _SHAPES,
        "loader.epochs(epochs)",
        "loader.epochs(1)",
        _STAGE + "test_larger_batches_of_later_epochs_have_larger_sizes",
    ),
    Mutant(
        _SHAPES,
        "for rank in range(world_size)",
        "for rank in [settings.rank]",
        _STAGE + "test_ranks_have_the_same_shapes",
    ),
    Mutant(
        "pipeline/stages/pad.py",
        "(needed or stage.wants is None)",
        "stage.wants is None",
        "tests/pipeline/passes/test_pad.py::test_fires_with_all_that_a_function_of_the_user_may_read",
    ),
    Mutant(
        "pipeline/lowered/pad_batch.py",
        "return -100",
        "return -1",
        _LAYERS + "test_labels_of_padding_are_no_part_of_a_mean",
    ),
    Mutant(
        "pipeline/models/nn/sage.py",
        "self.lin_r, ends_without_padding(own, block))",
        "self.lin_r, own)",
        f"{_BITS}[sage]",
    ),
    Mutant("pipeline/models/nn/gat.py", "without_padding(x, block)", "x", f"{_BITS}[gat]"),
    Mutant(
        "pipeline/models/nn/aggregate.py",
        '"_real_sources", None) if is_block(block)',
        '"_real_sources", None) if isinstance(block, Block)',
        _LAYERS + "test_a_model_in_hr_cooperative_on_one_process_masks_padding",
    ),
    Mutant(
        "pipeline/interop/padded.py",
        "found = one_for_each(labels[real], batch.seed_index[real]",
        "found = one_for_each(labels[real], batch.seed_index[real].flip(0)",
        "tests/behaviour/interop/test_padded.py::test_seeds_that_repeat_have_a_label_each",
    ),
)
