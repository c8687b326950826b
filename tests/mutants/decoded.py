"""Faults in features that are stored in fewer bytes."""

from __future__ import annotations

from mutants.mutant import Mutant

_VALUE = "ops/native/features/decode_value.hpp"
_EVERY = "tests/ops/features/test_decode.py::test_every_number_of_two_bytes"
_ORACLE = "tests/ops/features/test_decode.py::test_equals_the_reference"
_STAGE = "tests/behaviour/stages/test_decoded_features.py::"
_ROWS = _STAGE + "test_rows_are_the_numbers_of_the_oracle"

DECODED = (
    Mutant(_VALUE, "bits + 0x7FFF + (bits >> 16 & 1)", "bits + 0x8000", _EVERY),
    Mutant(_VALUE, "0xFFF + (magnitude >> 13 & 1)", "0x1000", _EVERY),
    Mutant(_VALUE, "moved < std::uint32_t{1} << 23 ? small", "moved == 0 ? small", _EVERY),
    Mutant("ops/native/features/decode.cpp", "- source.zero_point[j]", "- source.zero_point[0]", _ORACLE),
    Mutant(
        "pipeline/storage/wanted.py",
        'return {**decided, "dtype": self.dtype, "scales": scales}',
        'return {**decided, "dtype": self.dtype}',
        _STAGE + "test_the_dtype_is_part_of_the_plan_and_of_its_checkpoints",
    ),
    Mutant("pipeline/storage/wanted.py", "if place < kept else None", "", _ROWS),
    Mutant("pipeline/storage/rows.py", "len(rows) * source.row_bytes", "rows.nbytes", _ROWS),
    Mutant("pipeline/storage/over_source.py", "return self._source.quantization", "return None", _ROWS),
    Mutant(
        "pipeline/passes/shards.py",
        "FetchOwned(of_nodes.as_stored())",
        "FetchOwned(of_nodes)",
        _STAGE + "test_ranks_send_what_is_stored[not fused]",
    ),
    Mutant(
        "pipeline/passes/fetch_at_owners.py",
        "stages.append(DecodeRows(at_owners))",
        "pass",
        _STAGE + "test_ranks_send_what_is_stored[parts]",
    ),
    Mutant(
        "pipeline/storage/dataset/reader.py",
        "with_scale(reader.array(one.rows), one.quantization)",
        "reader.array(one.rows)",
        _STAGE + "test_codes_and_their_scale_survive_files",
    ),
)
