"""Faults of what is refused before work starts: parts of a plan that do not fit, and options that could do nothing."""

from __future__ import annotations

from mutants.mutant import Mutant

_NODES = "tests/behaviour/plan/test_same_nodes.py::"
_CLUSTERS = "tests/behaviour/stages/test_cluster_sampler.py::"
_LABELLED = "tests/behaviour/data/test_labelled_items.py::"
_OPTIONS = "tests/behaviour/plan/test_options_without_effect.py::"

MISFITS = (
    # Stages of one plan know the same nodes.
    Mutant(
        "pipeline/plan/verify.py",
        "if known.num_nodes != first[1].num_nodes:",
        "if False:",
        _NODES + "test_negatives_of_another_graph",
    ),
    Mutant(
        "pipeline/plan/verify.py",
        "if known.types != typed[1].types:",
        "if False:",
        _NODES + "test_other_types_of_as_many_nodes",
    ),
    Mutant(
        "pipeline/plan/verify.py",
        "typed = typed or (stage, known)",
        "typed = (stage, known)",
        _NODES + "test_other_types_of_as_many_nodes",
    ),
    # Clusters without nodes are no batch.
    Mutant(
        "pipeline/stages/cluster_sampler.py",
        "sizes.nonzero().reshape(-1)",
        "torch.arange(len(sizes))",
        _CLUSTERS + "test_no_batch_is_without_seeds",
    ),
    Mutant(
        "pipeline/stages/cluster_sampler.py",
        "(sizes.cumsum(0) - sizes)",
        "sizes.cumsum(0)",
        _CLUSTERS + "test_many_clusters_of_any_size",
    ),
    Mutant(
        "ops/partition/metis.py",
        "if balance_edges else []",
        "if False else []",
        "tests/behaviour/partition/test_partition.py::test_metis_balances_edges_beside_nodes_and_labelled_nodes",
    ),
    Mutant(
        "ops/partition/louvain.py",
        "coarsest = levels[-1] if levels else np.arange(num_nodes)",
        "coarsest = np.arange(num_nodes)",
        "tests/behaviour/partition/test_partition.py::test_communities_are_parts_as_they_are_found",
    ),
    Mutant(
        "pipeline/stages/cluster_sampler.py",
        "or num_empty < smallest",
        "or num_empty <= smallest",
        _CLUSTERS + "test_there_is_no_length_where_empty_clusters_may_fill_a_batch",
    ),
    # Labels with the ids of each type.
    Mutant(
        "pipeline/data/items.py",
        "ids[name], with_ids[name] = one",
        "ids[name], with_ids[name] = one[0], one[0]",
        _LABELLED + "test_labels_stand_with_the_ids_of_each_type",
    ),
    Mutant(
        "pipeline/data/items.py",
        "without = [name for name in ids if name not in with_ids]",
        "without = []",
        "tests/behaviour/data/test_refusals.py::test_what_is_refused",
    ),
    Mutant(
        "pipeline/data/typed_items.py",
        "parts = {name: convert(by_type[name]) for name in names}",
        "parts = {name: convert(some) for name, some in by_type.items()}",
        _LABELLED + "test_labels_of_each_type_are_those_beside_it",
    ),
    # Options that could have no effect.
    Mutant(
        "pipeline/plan/verify.py",
        "        _check_all_is_read(stages)\n",
        "        pass\n",
        _OPTIONS + "test_a_name_of_times_that_no_sampler_goes_by",
    ),
    Mutant(
        "pipeline/plan/verify.py",
        "if source.boundary and not facts.hops:",
        "if False:",
        _OPTIONS + "test_a_boundary_where_nothing_goes_there",
    ),
    Mutant(
        "pipeline/stages/saint.py",
        "source.seed_times is not None",
        "False",
        _OPTIONS + "test_times_of_items_whose_subgraphs_have_other_seeds",
    ),
    # Options without effect or sense, and errors that help.
    Mutant(
        "pipeline/data/checks.py",
        'if no_list or getattr(values, "ndim", 1) == 0:',
        "if no_list:",
        "tests/behaviour/plan/test_hostile_arguments.py::test_no_error_comes_from_inside",
    ),
    Mutant(
        "pipeline/plan/verify.py",
        "source.boundary > facts.hops",
        "False",
        "tests/behaviour/stages/test_cluster_sampler.py::test_a_boundary_beyond_the_hops_is_refused",
    ),
    Mutant(
        "pipeline/models/nn/aggregate.py",
        "if number is None or not math.isfinite(number):",
        "if number is None:",
        "tests/behaviour/models/test_refusals.py::test_options_of_layers",
    ),
    Mutant(
        "ops/memory_limit.py",
        "for room in (memory_bytes(), own_room(), *groups)",
        "for room in (memory_bytes(), *groups)",
        "tests/ops/core/test_memory_limit.py::test_what_limits_forbid_is_refused",
    ),
)
