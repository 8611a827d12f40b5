"""``kiln experiment``: every experiment runs on the CPU, small, and says what is wrong with a command line."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import kiln
import pytest
from kiln.experiments import trace_sql
from kiln.experiments.catalogue import SUMMARIES
from kiln.experiments.gather_kernels import series_op
from kiln.experiments.gather_rows import LIMITED, Rows
from kiln.experiments.offload_layers import share_beside_copies
from kiln.experiments.report import Table, lines_of
from nvrtc_here import needs_nvrtc
from script_process import environment

PNG = b"\x89PNG\r\n\x1a\n"
SMALL = {
    "adaptive": "--sizes 1K,4K --iters 5 --budget 0.01 --tune 0.2",
    "decode": "--layers 2 --bs 3 --context 40 --heads 2 --dim 16 --steps 2 --iters 2 --warmup 0",
    "gather": "--bs 4 --topk 32 --row-bytes 64 --iters 2 --warmup 0",
    "graphs": "--calls 10 --durations 1,20 --iters 3 --warmup 1",
    "offload": "--tensors 3 --layers 4 --shape 1x64x48 --small 20 --iters 2 --warmup 0 --depths 1,2",
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kiln", "experiment", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
        env=environment(),
    )


def run_small(name: str, *arguments: str) -> Any:
    done = run(name, "--device", "cpu", "--json", *SMALL[name].split(), *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_is_small_here() -> None:
    assert set(SMALL) == set(SUMMARIES)


@pytest.mark.parametrize("name", SMALL)
def test_each_runs_and_is_drawn(name: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.png"
    report = run_small(name, "--plot", str(path))
    assert report["experiment"] == name and report["device"] and report["claims"]
    assert all(table["rows"] for table in report["tables"].values())
    assert path.read_bytes().startswith(PNG)
    assert list(tmp_path.iterdir()) == [path]


def test_the_table_is_for_people() -> None:
    done = run("graphs", "--device", "cpu", *SMALL["graphs"].split())
    assert done.returncode == 0, done.stderr
    assert "over dispatch" in done.stdout and "beside the write-up" in done.stdout and "1 + o / t" in done.stdout


def test_what_graphs_find() -> None:
    tables = run_small("graphs")["tables"]
    short, long = tables["durations"]["rows"]
    assert 0.3 < short["kernel_us"] < 10 < long["kernel_us"] < 100
    assert short["over_dispatch"] > long["over_dispatch"] > 0.5  # 0.84 on a machine with much else to do
    assert [row["calls"] for row in tables["submissions"]["rows"]][-1] == 200


def test_what_offload_finds() -> None:
    report = run_small("offload")
    tables, timelines = report["tables"], report["data"]["timelines"]
    assert {row["memory"] for row in tables["copies"]["rows"]} == {"pageable", "pinned each time", "preallocated"}
    assert [row["wrong_bytes"] for row in tables["mistakes"]["rows"]] == [0, 0, 0, 0], (
        "on the CPU copies are done at once"
    )
    assert len(tables["layers"]["rows"]) == 2 + 2 + 3
    assert list(timelines) == ["sequential", "two alternating streams", "pipeline, depth 1", "pipeline, depth 2"]
    for name, spans in timelines.items():
        assert sorted(stage for stage, _, _ in spans) == 4 * ["compute"] + 4 * ["load"] + 4 * ["store"], name
        assert all(0 <= start <= stop for _, start, stop in spans), name
    shares = {row["schedule"]: row["copies_beside_compute"] for row in tables["layers"]["rows"]}
    assert all(shares[name] == (0 if name in timelines else None) for name in shares), "nothing overlaps on the CPU"


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        ([], 0),
        ([("load", 0, 5)], 0),
        ([("load", 0, 1), ("compute", 1, 2), ("store", 2, 3)], 0),
        ([("compute", 0, 4), ("load", 1, 3), ("store", 2, 3)], 0.5),
        ([("compute", 0, 2), ("load", 0, 2), ("compute", 3, 5), ("store", 4, 9)], 0.75),
    ],
)
def test_copies_beside_compute(spans: list[tuple[str, float, float]], share: float) -> None:
    assert share_beside_copies(spans) == share


def test_what_gather_finds() -> None:
    rows = run_small("gather")["tables"]["gather"]["rows"]
    assert [row["variant"] for row in rows][:2] == ["NumPy", "Kiln"]
    assert all(row["gb_s"] > 0 for row in rows)
    alone = run("gather", "--device", "cpu", *SMALL["gather"].split(), "--ncu", "Kiln")
    assert alone.returncode == 0 and "ncu --set full --kernel-name regex:" in alone.stdout
    assert "gather --device cpu --bs 4 --topk 32 --slots 146 --row-bytes 64 --ncu Kiln\n" in alone.stdout


WARPS = [f"warp per row, {sms} SMs" for sms in (2, 3, 16)]


@pytest.mark.parametrize(
    ("limit", "variants"),
    [
        ([], [*WARPS, "4 rows in flight, 4 SMs", "4 rows in flight, 16 SMs"]),
        (["bytewise"], ["bytewise, 2 SMs", "bytewise, 3 SMs", *WARPS]),
        (["4 rows in flight"], [*WARPS, *(f"4 rows in flight, {sms} SMs" for sms in (2, 3, 4, 16))]),
        (["2 rows in flight", "Kiln"], ["2 rows in flight, 3 SMs", "Kiln, 2 SMs", "Kiln, 3 SMs"]),
        (
            ["all"],
            ["16 bytes a thread, 2 SMs", "bytewise, warp per row, 3 SMs", "2 rows in flight, 2 SMs", "Kiln, 2 SMs"],
        ),
    ],
)
def test_any_variant_runs_on_any_number_of_processors(
    monkeypatch: pytest.MonkeyPatch, limit: list[str], variants: list[str]
) -> None:
    options = argparse.Namespace(device="cpu", bs=2, topk=4, slots=9, row_bytes=64, sms=[2, 3], limit=limit, ncu=None)
    if "all" in limit:
        options.limit = list(LIMITED)
    monkeypatch.setattr(Rows, "way", lambda *_: "no GPU")
    rows = Rows(options)
    ways = {**rows.series(), **rows.variants()}
    assert [name for name in ways if name in variants] == variants, list(ways)
    assert all(rows.sms_of[name] == int(name.split()[-2]) and rows.kernel_of[name] for name in variants)
    for name in ("Kiln, 2 SMs", "Kiln"):
        call = ways.get(name)
        assert call is None or (not isinstance(call, str) and rows.arrive(call))


def test_what_decode_finds(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.json"
    tables = run_small("decode", "--trace", str(path))["tables"]
    assert [row["way"] for row in tables["decode"]["rows"]][0] == "slices and cats"
    assert {row["region"] for row in tables["regions"]["rows"]} == {"append", "gather", "attention"}
    calls = {(row["region"], row["name"]): row["calls"] for row in tables["within"]["rows"]}
    assert calls == {("append", "kv_append_layers"): 2, ("gather", "kv_gather_paged"): 8, ("attention", "attention"): 4}
    found = trace_sql.query(trace_sql.open_trace(path), trace_sql.BY_CATEGORY)
    assert found == tables["categories"]["rows"] and {row["category"] for row in found} >= {"region", "dispatch"}


@pytest.mark.parametrize(
    ("kernel", "width"),
    [("thread_per_row", 1), ("thread_per_row", 16), ("warp_per_row", 1), ("rows_in_flight", 4), ("contiguous_read", 8)],
)
def test_the_published_kernels_compile(kernel: str, width: int) -> None:
    needs_nvrtc()
    tensors = [kiln.TensorMeta("u8", (100, 656)), kiln.TensorMeta("u8", (1000, 656)), kiln.TensorMeta("i32", (100, 2))]
    ptx = kiln.inspect(series_op(kernel), *tensors, sms=16, width=width, target="sm_90a", emit="ptx")
    assert kernel in ptx and ("v4" in ptx) == (width != 1)


def test_what_adaptive_finds() -> None:
    report = run_small("adaptive")
    assert [row["elements"] for row in report["tables"]["times"]["rows"]] == [1024, 4096]
    assert all(entry["tried"] for entry in report["data"]["history"])


def test_the_list() -> None:
    assert [line.split()[0] for line in run("list").stdout.splitlines()] == list(SUMMARIES)
    assert [row["name"] for row in json.loads(run("list", "--json").stdout)] == list(SUMMARIES)
    assert run("--help").returncode == run("graphs", "--help").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "needs the name of one, or list"),
        ("grap", "invalid choice: 'grap'"),
        ("graphs 5", "unexpected argument '5'"),
        ("graphs --bogus", "unexpected argument '--bogus'"),
        ("graphs --calls 0", "'0' is no number above 0"),
        ("graphs --durations 1,x", "'x' is no number above 0"),
        ("graphs --device tpu", "'tpu' is not a device"),
        ("graphs --device cuda:99", "no device cuda:99"),
        ("graphs --plot x.jpg", "expected a file name that ends in .png"),
        ("graphs --plot /nowhere/x.png", "there is no directory '/nowhere'"),
        ("graphs --plot /proc/x.png", "'/proc/x.png' cannot be written"),
        ("adaptive --sizes 4K:1K", "ends before it begins"),
        ("adaptive --op softmax", "has no BLOCK_SIZE"),
        ("adaptive --op ad", "did you mean 'add'?"),
        ("adaptive --dtype f31", "unknown dtype 'f31'"),
        ("decode --dim 300", "heads of up to 256 numbers"),
        ("decode --device cpu --context 1G", "GiB of memory are needed"),
        ("decode --trace /nowhere/t.json", "there is no directory for '/nowhere/t.json'"),
        ("gather --bs 0", "--bs: '0' is no number above 0, such as 4096, 64K or 16M\n"),
        ("gather --slots 5", "no row is taken twice: expected 262144"),
        ("gather --device cpu --slots 2000M", "GiB of the host's memory are needed"),
        ("gather --slots 3G", "are more than 32 bits count"),
        ("gather --row-bytes 100", "expected a multiple of 16"),
        ("gather --device cpu --bs 4 --ncu x", "expected one of: NumPy, Kiln"),
        ("gather --device cpu --limit bytewise", "--limit is of multiprocessors, and the CPU has none"),
        ("gather --ncu Kiln --plot x.png", "leave --plot out"),
        ("offload --shape 5", "expected two extents or more"),
        ("offload --shape 1x0", "'0' is no number above 0"),
        ("offload --device cpu --shape 1M1M", "'1m1m' is no number"),
        ("offload --device cpu --shape 1Mx1M", "GiB of the host's memory are needed"),
        ("offload --depths 0", "'0' is no number above 0"),
    ],
)
def test_what_is_wrong_is_one_message(arguments: str, says: str) -> None:
    done = run(*arguments.split())
    assert done.returncode == 2
    assert done.stderr.startswith("kiln: error: ") and says in done.stderr and "Traceback" not in done.stderr
    as_json = run(*arguments.split(), "--json") if arguments else None
    if as_json is not None and "bogus" not in arguments:
        assert says.rstrip() in json.loads(as_json.stderr)["error"]


def test_the_c_command_hands_its_words_on(tmp_path: pathlib.Path) -> None:
    program = pathlib.Path(kiln.__file__).parents[2] / "bin" / "kiln"
    if not program.exists():
        pytest.skip("the package is not of a build tree")
    nowhere = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run([program, "experiment", "list"], capture_output=True, check=False, text=True, env=nowhere)
    assert done.returncode == 0, done.stderr  # by the Python that the tree was built for
    assert done.stdout == run("list").stdout
    elsewhere = pathlib.Path(shutil.copy(program, tmp_path / "kiln"))
    for words in ["list"], ["--json"]:
        done = subprocess.run(
            [elsewhere, "experiment", *words], capture_output=True, check=False, text=True, env=nowhere
        )
        assert done.returncode == 1 and "experiments need python3" in done.stderr


def test_tables_leave_out_what_no_row_has() -> None:
    table = Table("", ["name", "us", "none"], [{"name": "a", "us": 1.234567}, {"name": "bcd", "us": 12345.6}])
    assert list(lines_of(table)) == ["name     us", "a      1.23", "bcd   12346"]
