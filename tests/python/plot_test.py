"""Pictures: that they are drawn, of what they are drawn, and what is said without matplotlib."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import kiln
import numpy
import pytest
from refusal import refused

pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def table() -> kiln.TuningTable:
    x = numpy.ones((64, 48), numpy.float32)
    return kiln.autotune("transpose", x, budget_s=60, record=False, progress=False)


def test_a_tuning(table: kiln.TuningTable, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tuning.png"
    figure = kiln.plot_tuning(table, str(path))
    assert path.read_bytes().startswith(PNG)
    times, rates = figure.axes
    assert times.get_title().startswith("transpose f32 64x48: ")
    assert times.get_ylabel() == "us"
    assert [text.get_text() for text in times.get_legend().get_texts()] == ["default", "chosen"]
    assert rates.get_ylabel() == "GB/s"
    assert len(rates.patches) == 2
    assert table.plot(str(path)).axes[0].get_title() == times.get_title()


def test_several_tunings_as_the_command_prints_them(table: kiln.TuningTable, tmp_path: pathlib.Path) -> None:
    report = json.loads(json.dumps(table.report))
    figure = kiln.plot_tuning([table, report], str(tmp_path / "tunings.svg"))
    assert len(figure.axes) == 4
    refused(ValueError, "empty", lambda: kiln.plot_tuning([]))


def test_the_command_draws_the_same(table: kiln.TuningTable, tmp_path: pathlib.Path) -> None:
    """The kiln command starts the text of plot.py with python3."""
    from kiln import plot

    (tmp_path / "input.json").write_text(json.dumps([table.report]))
    text = pathlib.Path(plot.__file__).read_text(encoding="utf-8")
    assert len(text) < 60000  # a raw string of the command holds it
    image = tmp_path / "image.png"
    subprocess.run([sys.executable, "-I", "-c", text, "tuning", str(tmp_path / "input.json"), str(image)], check=True)
    assert image.read_bytes().startswith(PNG)


def test_a_sweep_of_the_command(tmp_path: pathlib.Path) -> None:
    """As ``kiln bench --sweep --json`` prints it; few samples have no interval."""
    from kiln import plot

    points = [
        {"data_bytes": 1024 * 2**i, "median_us": 2.0**i, "interval_us": interval, "gb_s": 10.0 + i, "tflop_s": 0.1 * i}
        for i, interval in enumerate([[0.9, 1.2], [1.9, 2.2], None])
    ]
    report = {
        "op": "matmul",
        "pattern": "--shape NxN",
        "device_name": "a GPU",
        "policy": "eager, flushed L2",
        "peak_gb_s": 20.0,
        "matmul_peak_tflop_s": 0.5,
        "cache_bytes": 2048,
        "is_compute_bound": False,
        "points": points,
    }
    path = tmp_path / "sweep.png"
    rates, times = plot.draw_sweep(report, str(path)).axes
    assert path.read_bytes().startswith(PNG)
    assert rates.get_ylabel() == "GB/s"
    assert [text.get_text() for text in rates.get_legend().get_texts()] == [
        "measured peak: 20 GB/s",
        "last-level cache",
    ]
    assert list(rates.lines[0].get_ydata()) == [10, 11, 12]
    assert times.get_ylabel() == "us"
    assert plot.draw_sweep(report | {"is_compute_bound": True}, str(path)).axes[0].get_ylabel() == "TFLOP/s"


def test_a_roofline(tmp_path: pathlib.Path) -> None:
    x = numpy.ones((64, 64), numpy.float32)
    benchmarks = [
        kiln.benchmark("add", x, x, samples=6),
        kiln.benchmark("matmul", x, x, samples=6),
        kiln.benchmark("copy", x, samples=6),
    ]
    path = tmp_path / "roofline.png"
    figure = kiln.plot_roofline(benchmarks, str(path), peak_gb_s=20, peak_tflop_s=0.1)
    assert path.read_bytes().startswith(PNG)
    (axes,) = figure.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    roof, add, matmul, copy = axes.get_lines()
    assert roof.get_xdata()[1] == pytest.approx(5)  # flops per byte where the roofs meet
    assert roof.get_ydata()[1] == pytest.approx(0.1)
    assert add.get_xdata()[0] == pytest.approx(1 / 12)
    assert add.get_ydata()[0] == pytest.approx(benchmarks[0].tflop_s)
    assert matmul.get_xdata()[0] == pytest.approx(benchmarks[1].flops / benchmarks[1].bytes)
    assert copy.get_marker() == "<"
    names = [text.get_text().split(":")[0] for text in axes.get_legend().get_texts()]
    assert names == ["add", "matmul", "copy"]


def test_roofs_that_nobody_names_are_measured(tmp_path: pathlib.Path) -> None:
    from kiln import roofline

    measured = roofline.measure_roofline("cpu")
    peak = kiln.measured_peak("cpu")  # measured once
    assert measured.gb_s == peak.bandwidth_gb_s > 0
    assert measured.gb_s_source == f"{peak.rates[0].op}, measured"
    assert measured.tflop_s == kiln.measured_matmul_peak("cpu", "f32").tflop_s > 0
    x = numpy.ones(1000, numpy.float32)
    figure = kiln.plot_roofline(kiln.benchmark("add", x, x, samples=6), str(tmp_path / "roofline.png"))
    texts = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert measured.gb_s_source in texts
    assert "f32 matmul, measured" in texts


@pytest.mark.parametrize("what", ["x", 3, ["x"], numpy.ones(3), None], ids=repr)
def test_what_is_nothing_to_plot_is_refused_by_name(what: object) -> None:
    with pytest.raises(TypeError, match=r"^benchmarks.*expected what kiln\.benchmark returned"):
        kiln.plot_roofline(what)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^table.*expected what kiln\.autotune returned"):
        kiln.plot_tuning(what)  # type: ignore[arg-type]


def test_what_cannot_be_plotted_is_refused() -> None:
    refused(ValueError, "empty", lambda: kiln.plot_roofline([]))
    refused(ValueError, "bytes and flops", lambda: kiln.plot_roofline(kiln.benchmark(sum, [1, 2], samples=1)))


def test_without_a_path_pyplot_has_the_figure(table: kiln.TuningTable, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = table.plot()
    assert pyplot.fignum_exists(figure.number)
    pyplot.close(figure)


def test_without_matplotlib_it_says_how_to_get_it(table: kiln.TuningTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    refused(ImportError, r"pip install kiln\[plot\]", lambda: kiln.plot_tuning(table, "never.png"))
    x = numpy.ones(8, numpy.float32)
    with pytest.raises(ImportError, match=r"pip install kiln\[plot\]"):
        kiln.plot_roofline(kiln.benchmark("add", x, x, samples=1))
