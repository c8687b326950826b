"""The texts of counters that were made up."""

from __future__ import annotations

import pytest

from headrace.pipeline.run.stats import Stats


@pytest.mark.parametrize(
    ("waited", "worked", "words"),
    [
        (0.0, 0.0, "waited 0% of its time for batches: the loader is not the limit"),
        (0.4, 9.6, "waited 4% of its time for batches: the loader is not the limit"),
        (3.0, 7.0, "waited 30% of its time for batches, the most that a faster loader saves; 75% of the loader's"),
    ],
)
def test_a_verdict_says_whether_the_loader_is_the_limit(waited, worked, words):
    stages = {"sample_neighbor": {"batches": 5, "seconds": 1.0}, "fetch_feature": {"batches": 5, "seconds": 3.0}}
    stats = Stats(stages, waited, worked=worked)
    assert stats.verdict.startswith(f"the training loop {words}")
    assert stats.verdict.endswith("fetch_feature") == (waited > 1)
    assert str(stats).endswith(stats.verdict)
    assert "no batch" in Stats().verdict


def test_text_for_prometheus():
    totals = {"items": {"batches": 5, "seconds": 0.25}, "fetch_feature": {"batches": 5, "seconds": 0.5, "my-rows": 3}}
    stats = Stats(totals, waited=0.25)
    assert stats.prometheus(rank="0", run='a "b"\\\n') == (
        "# HELP headrace_stage_batches_total batches by stage of the plan, see help(headrace.Stats)\n"
        "# TYPE headrace_stage_batches_total counter\n"
        'headrace_stage_batches_total{stage="items",rank="0",run="a \\"b\\"\\\\\\n"} 5\n'
        'headrace_stage_batches_total{stage="fetch_feature",rank="0",run="a \\"b\\"\\\\\\n"} 5\n'
        "# HELP headrace_stage_seconds_total seconds by stage of the plan, see help(headrace.Stats)\n"
        "# TYPE headrace_stage_seconds_total counter\n"
        'headrace_stage_seconds_total{stage="items",rank="0",run="a \\"b\\"\\\\\\n"} 0.25\n'
        'headrace_stage_seconds_total{stage="fetch_feature",rank="0",run="a \\"b\\"\\\\\\n"} 0.5\n'
        "# HELP headrace_stage_my_rows_total my rows by stage of the plan, see help(headrace.Stats)\n"
        "# TYPE headrace_stage_my_rows_total counter\n"
        'headrace_stage_my_rows_total{stage="fetch_feature",rank="0",run="a \\"b\\"\\\\\\n"} 3\n'
        "# HELP headrace_waited_seconds_total seconds that the training loop waited for batches\n"
        "# TYPE headrace_waited_seconds_total counter\n"
        'headrace_waited_seconds_total{rank="0",run="a \\"b\\"\\\\\\n"} 0.25\n'
    )
    assert "headrace_waited_seconds_total 0.25" in stats.prometheus()
    alike = Stats({"items": {"my-rows": 3, "my_rows": 4}}, waited=0.0).prometheus()
    assert alike.count("# TYPE headrace_stage_my_rows_total") == 1
    assert 'headrace_stage_my_rows_total{stage="items"} 7' in alike
