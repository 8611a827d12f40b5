"""What docs/python.md shows of streams, graphs, offloading, profiles and debugging runs as it is printed."""

from __future__ import annotations

import pathlib
import re
import runpy
from typing import Any

import numpy
import pytest

MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def examples_of(*sections: str) -> str:
    """The code of these sections, in order."""
    blocks = []
    for section in sections:
        (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", MANUAL.read_text(), re.DOTALL | re.MULTILINE)
        found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        assert found, section
        blocks += found
    return "".join(blocks)


def test_the_manual_runs_as_printed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "manual.py"
    program.write_text(examples_of("Streams", "Graphs", "Host memory and offloading", "Profiling and debugging"))
    names = runpy.run_path(str(program))
    numpy.testing.assert_allclose(names["total"].numpy(), numpy.full(1000, numpy.exp(2) - 2), rtol=1e-6)
    e = numpy.exp(2 * names["a"])
    numpy.testing.assert_allclose(names["out"], e / e.sum(axis=1, keepdims=True), rtol=1e-6)
    for i, result in enumerate(names["results"]):
        numpy.testing.assert_array_equal(result, numpy.full((256, 256), 2 * i, numpy.float32))
    numpy.testing.assert_array_equal(names["on_device"].numpy(), names["weights"][1])
    numpy.testing.assert_array_equal(names["place"].numpy(), names["tokens"][names["pairs"][0, :, 0]])
    assert names["report"].rows[0].count == 10
    assert names["rows"][0]["op"] == "softmax"
    assert (tmp_path / "trace.json").is_file()
    printed = capfd.readouterr().out
    assert "2 " in printed and "add(f32 (8, 64)" in printed and "step" in printed and "reference" in printed
