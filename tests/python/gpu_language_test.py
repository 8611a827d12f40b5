"""benchmarks/gpu_language.py and gpu_attention.py, what of it needs no GPU: arguments, drawn shapes, rows and their demands, compile times."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import kiln
import pytest
from nvrtc_here import needs_nvrtc
from script_process import PATIENCE_S, ROOT, environment

sys.path.insert(0, str(ROOT / "benchmarks"))

import attention_draw
import language_draw
import language_row
import result_file

BUILD = pathlib.Path(kiln.__file__).parents[2]


def run_command(*arguments: str, script: str = "gpu_language.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("script", "arguments", "what"),
    [
        (
            "gpu_language.py",
            [str(BUILD), "--only", "matmul,conv"],
            "there is no section conv; the sections are compile, matmul",
        ),
        ("gpu_language.py", [str(BUILD), "--draws", "0"], "0 is not above 0"),
        ("gpu_language.py", [str(BUILD), "--budget", "-1"], "-1 is not above 0"),
        ("gpu_language.py", ["nowhere"], "there is no Python package in"),
        (
            "gpu_attention.py",
            [str(BUILD), "--only", "paged"],
            "there is no section paged; the sections are prefill, decode, latent, drawn",
        ),
        ("gpu_attention.py", ["nowhere"], "there is no Python package in"),
    ],
)
def test_arguments_that_mean_nothing_are_errors(script: str, arguments: list[str], what: str) -> None:
    ran = run_command(*arguments, script=script)
    assert ran.returncode == 2
    assert what in ran.stderr
    assert ran.stdout == ""


def test_compile_times_need_no_gpu() -> None:
    needs_nvrtc()
    ran = run_command(str(BUILD), "--only", "compile", "--quick")
    assert ran.returncode == 0, ran.stderr
    result = result_file.parse(ran.stdout)
    rows = {row["case"]: row for row in result["compile"]}
    assert list(rows)[:2] == ["compile built-in matmul", "compile matmul"]
    assert all(row["median_us"] > 0 for row in rows.values())
    (demand,) = rows["compile attention"]["demands"].values()
    assert demand["met"] == (demand["share"] >= 1)


def test_drawn_attention_follows_from_the_seed() -> None:
    for shapes in (attention_draw.prefills, attention_draw.decodes):
        assert shapes(7, 30) == shapes(7, 30) != shapes(8, 30)
    for _, length, queries, heads, size, _ in attention_draw.prefills(7, 100):
        assert 32 <= length <= 16384
        assert queries % heads == 0
        assert size in attention_draw.HEAD_SIZES
    assert all(min(lengths) >= 1 for lengths, *_ in attention_draw.decodes(7, 30))


def test_drawn_shapes_follow_from_the_seed() -> None:
    drawn = language_draw.products(7, 24)
    assert drawn == language_draw.products(7, 24) != language_draw.products(8, 24)
    assert len(drawn) == 24
    for place, extents in enumerate(drawn.values()):
        multiple, of_none = language_draw.MULTIPLES[place % 3]
        for extent in extents:
            assert language_draw.LEAST <= extent <= language_draw.MOST
            assert extent % multiple == 0
            assert of_none is None or extent % of_none
    attentions = language_draw.attentions(7, 8)
    assert len(attentions) == 8
    assert all(length % 256 == 0 for _, length, _, _ in list(attentions.values())[::2])


def test_a_row_says_what_is_met() -> None:
    times = {"kiln": [10.0] * 9, "triton": [12.0] * 9, "library a": [9.0] * 9, "library b": [8.0] * 9}
    row = language_row.row_of("case", {"dtype": "bf16", "config": "X=1"}, times, {"triton": {"config": "t"}}, 4e6, 2e4)
    assert row["over"]["triton"] == {"speed": 1.2, "mean_speed": 1.2}
    assert row["over"]["library"] == {"speed": 0.8, "mean_speed": 0.8}
    assert row["kiln"]["tflops"] == pytest.approx(0.4)
    assert row["triton"]["config"] == "t"
    either = language_row.Demand({"triton": 1.1, "library": 0.95})
    both = language_row.Demand({"library": 0.9})
    language_row.hold(row, [either, both, language_row.Demand({"absent": 1.0})], times)
    assert {name: of["met"] for name, of in row["demands"].items()} == {
        "1.1 of triton or 0.95 of library": True,
        "0.9 of library": False,
    }
    assert row["demands"]["0.9 of library"]["share"] == pytest.approx(0.8 / 0.9)
    line = language_row.line_of(row, "tflops")
    assert "SHORT" in line
    assert "[X=1]" in line
    assert language_row.worst_of([row], 3) == [{"case": "case bf16", "speed": 0.8}]
    assert result_file.parse(result_file.text_of([row]))[0]["over"]["library"]["speed"] == 0.8
