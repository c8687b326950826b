"""The site has an entry for each public name and message, pages that exist, and links that lead to pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace as hr

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_public_name_has_one_entry():
    import reference

    names = [name for _, _, names in reference.GROUPS.values() for name in names]
    assert sorted(names) == sorted(hr.__all__)
    assert reference.documented() == set(names)


def test_pages_of_the_reference(tmp_path):
    import reference

    reference.write(tmp_path)
    plans = (tmp_path / "reference/plans.md").read_text()
    assert ".. autoclass:: headrace.ItemSampler" in plans
    assert "changes_batches" in plans.split("headrace.ItemSampler")[1].split(":exclude-members:")[1].splitlines()[0]
    assert ".. automethod:: headrace.Plan.sample_neighbor" in (tmp_path / "reference/verbs.md").read_text()
    assert ".. autofunction:: headrace.ops.gather_rows" in (tmp_path / "reference/headrace.ops.md").read_text()
    listed = re.findall(r"\]\((.*?)\.md\)", (tmp_path / "reference/index.md").read_text())
    assert {path.stem for path in (tmp_path / "reference").glob("*.md")} == {*listed, "index"} - {"../errors"}


def test_stages_show_their_parameters():
    import reference

    shown, _ = reference.sign(None, "class", "headrace.ItemSampler", hr.ItemSampler)
    assert shown.startswith("(items, *, batch_size=None, ")
    assert reference.sign(None, "class", "headrace.Graph", hr.Graph) is None


def test_loaders_of_pyg_show_what_users_call(tmp_path):
    import reference

    import headrace.pyg

    reference.write(tmp_path)
    page = (tmp_path / "reference/headrace.pyg.md").read_text()
    members = dict(re.findall(r"autoclass:: headrace\.pyg\.(\w+)\n   :members: (.*)", page))
    assert members["NeighborLoader"] == "runner, plan, state_dict, load_state_dict, set_epoch"
    assert members["Sampler"] == "plan, set_epoch, sample_from_nodes, sample_from_edges"
    assert "inherited-members" not in page
    assert not {name for name in headrace.pyg.__all__ if f"headrace.pyg.{name}\n" not in page}


@pytest.mark.slow
def test_messages_are_those_that_are_raised(tmp_path):
    import errors

    with pytest.raises(hr.PlanError) as raised:
        hr.ItemSampler(9).copy_to("a toaster")
    found = errors.messages()
    assert len(found) > 900
    patterns = [
        (one, re.escape(one.text).replace("…", ".*"))
        for one in found
        if one.error == "PlanError" and one.subject == "stages"
    ]
    (match,) = [one for one, pattern in patterns if re.fullmatch(pattern, str(raised.value))]
    assert match.reason.startswith("copy_to: expected the name of a device of torch")
    assert match.remedy == 'write "cuda", "cuda:1" or "cpu"'
    assert {one.error for one in found} == set(errors.MEANING)
    assert set(errors.MEANING) == {name for name in hr.__all__ if name.endswith("Error")}
    errors.write(tmp_path)
    text = (tmp_path / "errors.md").read_text()
    assert "copy\\_to: expected the name of a device of torch" in text
    assert text.count("\n| ") == len(found) + text.count("\n| message |")


def test_every_page_is_listed_once():
    import pages

    listed = [name for part in pages.PARTS.values() for name in part]
    assert sorted(name for name in listed if not name.startswith("generated/")) == sorted(
        path.stem for path in DOCS.glob("*.md") if path.stem != "index"
    )
    copied = {f"generated/{name}" for name in pages.COPIED}
    assert {name for name in listed if name.startswith("generated/")} == copied | {
        "generated/reference/index",
        "generated/errors",
    }


def test_links_lead_to_pages():
    import pages

    text = [
        "[a](docs/gpus.md#streams) [b](CHANGELOG.md) [c](pyproject.toml) [d](https://x.y) ![e](docs/figures/sar.svg)"
    ]
    assert pages._with_links(text[0], Path(), "../") == (
        "[a](../gpus.md#streams) [b](../generated/changelog.md) c [d](https://x.y) ![e](../figures/sar.svg)"
    )
    text = ["[f](../CONTRIBUTING.md) [g](sampling.md) [h](#here)"]
    pages.adapt(None, "extending", text)
    assert text == ["[f](generated/contributing.md) [g](sampling.md) [h](#here)"]
    text = ["# Title"]
    pages.adapt(None, "index", text)
    assert text[0].count("{toctree}") == len(pages.PARTS)


def test_figures_are_there_and_drawn_by_the_script():
    used = {name for page in DOCS.glob("*.md") for name in re.findall(r"\]\(figures/(\w+)\.svg\)", page.read_text())}
    assert used == {path.stem for path in (DOCS / "figures").glob("*.svg")}
    assert used == {"explain", "timeline", "tiers", "cooperation", "sar"}


def test_figures_of_recorded_runs(tmp_path, monkeypatch):
    import figures

    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figures.cooperation()
    figures.sar()
    assert (tmp_path / "cooperation.svg").stat().st_size > 10_000
    assert (tmp_path / "sar.svg").stat().st_size > 10_000
