"""The page's constant script: made once, and without a cache each time."""

import pytest

from gpu_rsfd.show import charts

vl_convert = pytest.importorskip("vl_convert")
pytest.importorskip("altair")


def test_the_bundle_is_made_once(tmp_path, monkeypatch):
    made = []

    def make(**_):
        made.append(1)
        return "'ε</script>'"

    monkeypatch.setattr(vl_convert, "javascript_bundle", make)
    monkeypatch.setenv("GPU_RSFD_CACHE", str(tmp_path / "cache"))
    assert charts.bundle() == charts.bundle() == "'ε<\\/script>'"
    assert len(made) == 1
    (file,) = (tmp_path / "cache").glob("vega-*.js")
    file.write_text("another script")  # not what its name says
    assert charts.bundle() == "'ε<\\/script>'"
    assert len(made) == 2


def test_without_a_cache_it_is_made_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda **_: "script")
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GPU_RSFD_CACHE", str(tmp_path / "file" / "cache"))
    assert charts.bundle() == "script"
