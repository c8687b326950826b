"""Conversions against the slow obvious one, byte for byte, in any memory."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_files import write

import headrace as hr
from headrace.pipeline.convert import convert_tables
from headrace.pipeline.convert.formats.source import read_source

from described_tables import RefusedError, descriptions, differences, slowly_converted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:convert. .* rows of .* are left out")
@given(descriptions(), st.sampled_from([1 << 30, 3000, 300]), st.booleans())
def test_a_conversion_is_that_of_the_objects_themselves(description, room, packed):
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        tables = read_source(write(description, Path(folder, "tables")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(convert_tables, "room", lambda *_: room)
            patch.setattr("headrace.pipeline.convert.integer_keys.KEY_BYTES", 0)
            patch.setattr("headrace.pipeline.convert.sort_edges.LEAST_AT_ONCE", 2)
            patch.setattr("headrace.pipeline.convert.unique_edges._MOST_KEYS", 1 << 62 if packed else 1)
            try:
                slowly_converted(description, theirs)
            except RefusedError:
                with pytest.raises(hr.InputError, match=r"there is no node|null"):
                    convert_tables.convert_tables(tables, ours, progress=False)
                assert [one.name for one in Path(folder).iterdir()] == ["tables"]
                return
            convert_tables.convert_tables(tables, ours, progress=False)
        assert not differences(ours, theirs)
        hr.open_dataset(ours).verify()
