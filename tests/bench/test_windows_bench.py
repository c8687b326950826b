"""The benchmark of windows of rows on disk, on a small file."""

from __future__ import annotations

import json
import sys


def test_windows_are_measured_beside_a_cache_and_a_scan(bench, tmp_path, monkeypatch):
    windows = bench("windows")
    path = tmp_path / "out.json"
    monkeypatch.chdir(tmp_path)
    command = ["windows.py", "--nodes", "4000", "--rounds", "1", "--batch-size", "32", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", command)
    windows.main()
    records = json.loads(path.read_text())
    assert {record["system"] for record in records if record["metric"] == "time"} == {
        windows.WINDOWS,
        windows.CACHE,
        windows.SCAN,
    }
    rows = {
        metric: {(one["case"], one["system"]): one["median"] for one in records if one["metric"] == metric}
        for metric in ("inputs", "rows read")
    }
    assert len(rows["inputs"]) == 7  # the last case has no cache
    assert all(0 < rows["rows read"][key] <= made for key, made in rows["inputs"].items())
    assert not list(tmp_path.glob("*/x.npy"))
