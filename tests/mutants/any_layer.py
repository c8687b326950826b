"""Faults in layers whose messages are computed part by part: levels, merged reductions, gradients, what is refused."""

from __future__ import annotations

from mutants.mutant import Mutant

_PARTS = "pipeline/models/by_parts/"
_SAR = "pipeline/models/sar/"
_PYG = "pipeline/models/adapters/"
_TESTS = "tests/behaviour/models/sar/test_any_layer.py::"
_EDGES = "tests/behaviour/models/sar/test_values_of_edges.py::"
_ROWS = _TESTS + "test_ranks_compute_what_pyg_does"
_REFUSED = "tests/behaviour/models/sar/test_messages_of_layers.py::test_messages_that_look_at_other_edges_are_refused"

ANY_LAYER = (
    Mutant(
        _PARTS + "seam.py",
        "        self._of_rows[storage_of(out)] = out\n        if not is_known",
        "        if not is_known",
        "tests/behaviour/models/sar/test_messages_of_layers.py::test_rows_behind_reductions_are_watched[update-centred]",
    ),
    Mutant(
        _PARTS + "seam.py",
        "            self._mark_rows(of_rows, out)\n",
        "",
        "tests/behaviour/models/sar/test_messages_of_layers.py::"
        "test_rows_behind_reductions_are_watched[update-rescaled]",
    ),
    Mutant(
        _PARTS + "statistics.py",
        "self.value[rows] = torch.logaddexp(self.value[rows], value)",
        "self.value[rows] = torch.maximum(self.value[rows], value)",
        _ROWS + "[transformer]",
    ),
    Mutant(
        _PARTS + "statistics.py",
        "self.ties[rows] = self.ties[rows].where(before == merged, 0) + here",
        "self.ties[rows] = here",
        _TESTS + "test_equal_messages_share_the_gradient_evenly",
    ),
    Mutant(
        _PARTS + "statistics.py",
        "here = ties.where(value == self.value[rows], 0)",
        "here = ties",
        _ROWS + "[graph_max]",
    ),
    Mutant(
        _PARTS + "statistics.py",
        "return gradient[rows] * part.where(value > -torch.inf, 0.0)",
        "return gradient[rows]",
        _ROWS + "[gatv2]",
    ),
    Mutant(
        _PARTS + "seam.py",
        "if not is_known:\n            self._unknown[storage_of(out)] = out\n        return out\n\n    def _dropped",
        "return out\n\n    def _dropped",
        _ROWS + "[two_softmaxes]",
    ),
    Mutant(
        _PARTS + "seam.py",
        'problem = problem_of_rows(func, name, args, kwargs, of_edges) if of_edges else ""',
        'problem = ""',
        _REFUSED,
    ),
    Mutant(
        _PARTS + "seam.py",
        "if plain not in _OF_DESTINATIONS:",
        "if False:",
        _REFUSED,
    ),
    Mutant(
        _PARTS + "seam.py",
        "self._num_masks), self._edge_ids, p)",
        "self._num_masks), torch.arange(len(rows)), p)",
        _TESTS + "test_masks_belong_to_edges",
    ),
    Mutant(
        _PARTS + "gradients.py",
        "self._of_known[place] = torch.zeros_like(one)",
        "pass",
        _ROWS + "[transformer]",
    ),
    Mutant(
        _PARTS + "gradients.py",
        "torch.zeros_like(one) if total is None else total\n",
        "total\n",
        _ROWS + "[gine]",
    ),
    Mutant(
        _PARTS + "gradients.py",
        "add_to(self._of_known, self._pull([out], [gradient], self._known))",
        "self._pull([out], [gradient], self._known)",
        _ROWS + "[gine]",
    ),
    Mutant(
        _PARTS + "row_rules.py",
        "return any(one is None or one % max(1, number) == place for one in along)",
        "return False",
        _REFUSED,
    ),
    Mutant(
        _PYG + "pyg_functions.py",
        "return looped, torch.cat([edge_attr, loop_values(graph, edge_attr, fill)])",
        "return looped, torch.cat([edge_attr, torch.zeros_like(loop_values(graph, edge_attr, fill))])",
        _ROWS + "[gatv2_edges]",
    ),
    Mutant(
        _PYG + "values_of_edges.py",
        "return values if self.weight is None else values * edges.of_edges(self.weight)",
        "return values",
        _ROWS + "[appnp]",
    ),
    Mutant(
        _PYG + "pyg_layers.py",
        "own = {**values, **{name: given[name] for name in names if name in given}}",
        "own = values",
        _TESTS + "test_rows_that_update_asks_for_are_whole",
    ),
    Mutant(
        _PYG + "pyg_functions.py",
        "if number == 1:",
        "if False:",
        _TESTS + "test_functions_of_pyg_are_as_they_were",
    ),
    # Layers for DGL's graphs; those of DGL itself are not in the environment of mutants.
    Mutant(
        _SAR + "rounds.py",
        "if not tables:",
        "if False:",
        _TESTS + "test_messages_that_need_no_sources_are_all_computed[1]",
    ),
    Mutant(
        _SAR + "rounds.py",
        "if tables is not None and not tables:",
        "if False:",
        _TESTS + "test_messages_that_need_no_sources_are_all_computed[1]",
    ),
    Mutant(
        _SAR + "edge_parts.py",
        "if self.ends is None or positions is None:",
        "if True:",
        _EDGES + "test_values_of_edges_are_those_of_torch",
    ),
    Mutant(
        _SAR + "edge_expressions.py",
        'return End(context, "e", value) if is_aligned else value',
        "return value",
        _EDGES + "test_ranks_compute_what_one_does[3-hash]",
    ),
    Mutant(
        _SAR + "edge_parts.py",
        "self._seam.used.clear()",
        "pass",
        _EDGES + "test_rows_are_released_with_the_output",
    ),
    Mutant(
        _SAR + "edge_expressions.py",
        "if self.rows._version != self._version:",
        "if False:",
        _EDGES + "test_what_changes_before_it_is_reduced_is_refused",
    ),
    Mutant(
        _SAR + "edge_parts.py",
        "computed if value.has_gradients else tree_map(_detached, computed)",
        "computed",
        _EDGES + "test_values_without_gradients_have_none",
    ),
    Mutant(
        _SAR + "edge_functions.py",
        "with part.edges.seam.masks_of(self._key):",
        "if True:",
        _EDGES + "test_masks_belong_to_an_operation_and_to_edges",
    ),
    Mutant(
        _SAR + "dgl_graph.py",
        "frame.values_by_name = values",
        "pass",
        _EDGES + "test_values_of_edges_are_those_of_torch",
    ),
)
