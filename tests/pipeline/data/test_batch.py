from __future__ import annotations

from small_blocks import batch

from headrace.pipeline.data.batch_words import _INSTEAD


def test_words_of_other_libraries_are_no_attributes_of_a_batch():
    assert not [word for word in _INSTEAD if hasattr(batch(), word)]
