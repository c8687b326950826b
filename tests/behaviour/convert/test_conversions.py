"""Conversions against the slow obvious one, byte for byte."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from table_files import converted

import headrace as hr

from described_tables import RefusedError, descriptions, differences, slowly_converted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:convert. .* rows of .* are left out")
@given(descriptions())
def test_a_conversion_is_that_of_the_objects_themselves(description):
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        try:
            slowly_converted(description, theirs)
        except RefusedError:
            with pytest.raises(hr.InputError, match=r"there is no node|null"):
                converted(description, Path(folder), "ours")
            assert [one.name for one in Path(folder).iterdir()] == ["tables"]
            return
        converted(description, Path(folder), "ours")
        assert not differences(ours, theirs)
