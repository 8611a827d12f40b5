"""kiln.autotune: what it finds, what it leaves behind, and what it says on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import kiln
import numpy
import pytest
from refusal import refused

# On a busy machine times are bad, and results are right all the same: these tests assert no speed.
BUDGET_S = 10.0


@pytest.fixture(scope="module")
def matrix() -> numpy.ndarray:
    return numpy.arange(96 * 80, dtype=numpy.float32).reshape(96, 80)


@pytest.fixture(scope="module")
def table(matrix: numpy.ndarray) -> kiln.TuningTable:
    """The 16 configs of a transpose."""
    return kiln.autotune("transpose", matrix, budget_s=60, record=False, progress=False)


def test_the_table_is_a_sequence_of_candidates(table: kiln.TuningTable) -> None:
    assert len(table) == len(list(table)) > 1
    assert [row["rank"] for row in table if row["rank"]] == list(range(1, len(table) + 1))
    assert sum(row["is_default"] for row in table) == sum(row["is_chosen"] for row in table) == 1
    for row in table:
        assert set(row["config"]) == {"BLOCK_M", "BLOCK_N"}
        assert row["outcome"] in ("measured", "cut")
        assert row["samples"] > 0
        assert row["low_us"] is None or row["low_us"] <= row["median_us"] <= row["high_us"]
    assert table.default["config"] == table.report["default_config"]
    assert table[0] == table[:1][0]


def test_the_gain_is_that_of_the_choice(table: kiln.TuningTable) -> None:
    low, high = table.gain_interval
    assert low <= high
    if table.chosen["is_default"]:
        assert table.gain == 1.0
    else:
        assert table.gain == pytest.approx(table.default["median_us"] / table.chosen["median_us"])
        assert low > 1
    assert table.verdict
    assert table.complete
    assert 0 < table.elapsed_s < 90


def test_the_table_is_data(table: kiln.TuningTable) -> None:
    records = table.to_dict()
    assert records == list(table)
    columns = table.to_dict("list")
    assert columns["median_us"] == [row["median_us"] for row in table]
    assert json.loads(json.dumps(records)) == records
    refused(ValueError, "'records' or 'list'", lambda: table.to_dict("columns"))


def test_pandas_takes_the_table(table: kiln.TuningTable) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table)
    assert len(frame) == len(table)
    assert frame["median_us"].dtype == numpy.float64
    assert frame.loc[frame["is_chosen"], "config"].item() == table.chosen["config"]
    assert "config.BLOCK_M" in pandas.json_normalize(table.to_dict())


def test_the_table_reads_well(table: kiln.TuningTable) -> None:
    text = repr(table)
    assert text.startswith("transpose f32 96x80\n")
    assert "95% interval" in text
    assert "16 of 16 configs measured" in text
    page = table._repr_html_()
    assert page.count("<tr") - 1 in (10, 11, 12)
    assert "BLOCK_M=" in page
    assert page.count("font-weight: bold") == 1


@pytest.mark.parametrize("form", ["name", "op", "keyword"])
def test_later_calls_use_what_was_found(form: str) -> None:
    x = numpy.ones(5000 + len(form), numpy.float32)
    if form == "keyword":
        table = kiln.autotune("neg", x=x, budget_s=BUDGET_S, progress=False)
    else:
        table = kiln.autotune("neg" if form == "name" else kiln.ops.neg, x, budget_s=BUDGET_S, progress=False)
    report = kiln.resolve("neg", x).report
    assert report.config_source == "tuned"
    assert dict(report.config) == table.chosen["config"]
    numpy.testing.assert_array_equal(kiln.ops.neg(x), -x)


def test_record_false_leaves_nothing_behind() -> None:
    x = numpy.ones(6001, numpy.float32)
    kiln.autotune("neg", x, budget_s=BUDGET_S, progress=False, record=False)
    assert kiln.resolve("neg", x).report.config_source == "default"


def test_inputs_are_only_read() -> None:
    x = numpy.arange(4000, dtype=numpy.float32)
    x.flags.writeable = False
    kiln.autotune("neg", x, budget_s=BUDGET_S, progress=False, record=False)
    numpy.testing.assert_array_equal(x, numpy.arange(4000, dtype=numpy.float32))


def test_inputs_that_the_op_changes_are_copied() -> None:
    key = numpy.ones((4, 2, 64), numpy.float32)
    cache = numpy.zeros((8, 4, 2, 64), numpy.float32)
    slots = numpy.arange(4)
    kiln.autotune("kv_append", key, key, cache, cache.copy(), slots, budget_s=1, progress=False, record=False)
    assert not cache.any()


def test_an_op_with_a_seed_is_given_it() -> None:
    x = numpy.ones(1000, numpy.float32)
    kiln.autotune("dropout", x, p=0.5, seed=3, budget_s=1, progress=False)
    assert kiln.resolve("dropout", x, p=0.5, seed=4).report.config_source == "tuned"


KERNEL = """
#include <kiln/tl.hpp>
namespace tl = kiln::tl;

template <typename T, int BLOCK_SIZE>
KILN_KERNEL void shifted(const T* x, T* out, tl::int64_t n, tl::int64_t seed) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets, mask) + static_cast<T>(seed), mask);
}
"""


def test_kernels_are_tuned_and_timed_and_looked_at() -> None:
    kernel = kiln.Kernel(
        KERNEL,
        grid=lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]),
        tunables={"BLOCK_SIZE": [32, 128]},
        not_tuned_for=["seed"],
    )
    x = numpy.ones(1000, numpy.float32)
    out = numpy.zeros_like(x)
    table = kiln.autotune(kernel, x, out, x.size, budget_s=5, seed=3, progress=False)
    assert sorted(row["config"]["BLOCK_SIZE"] for row in table) == [32, 128]
    assert not out.any()
    plan = kiln.inspect(kernel, x, out, n=x.size, seed=4, emit="plan")
    assert plan["config"] == table.chosen["config"]
    assert plan["config_source"] == "tuned"
    measured = kiln.benchmark(kernel, x, out, x.size, 3, samples=6, against="BLOCK_SIZE=32")
    assert measured.name == "shifted"
    assert not out.any()
    kernel(x, out, x.size, 3)
    numpy.testing.assert_array_equal(out, x + 3)


def test_progress_is_told(matrix: numpy.ndarray) -> None:
    states: list[dict[str, Any]] = []
    main = threading.get_ident()
    threads = set()

    def progress(state: dict[str, Any]) -> None:
        states.append(dict(state))
        threads.add(threading.get_ident())

    kiln.autotune("transpose", matrix, budget_s=BUDGET_S, record=False, progress=progress)
    assert states
    assert threads == {main}
    assert {state["candidates"] for state in states} == {16}
    tried = [state["tried"] for state in states]
    assert tried == sorted(tried)
    assert all(state["phase"] in ("warming up", "screening", "playoff", "finished") for state in states)
    assert states[-1]["budget_s"] == BUDGET_S


def test_other_threads_run_meanwhile(matrix: numpy.ndarray) -> None:
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    kiln.autotune("transpose", matrix, budget_s=1, record=False, progress=False, resume=False)
    done.set()
    thread.join()
    assert turns > 5


def test_what_progress_raises_comes_out_after_the_result_is_kept() -> None:
    x = numpy.ones((100, 100), numpy.float32)

    def progress(state: dict[str, Any]) -> None:
        if state["best_us"]:
            raise LookupError("seen enough")

    refused(LookupError, "seen enough", lambda: kiln.autotune("matmul", x, x, budget_s=60, progress=progress))
    assert kiln.resolve("matmul", x, x).report.config_source == "tuned"


def test_ctrl_c_keeps_what_was_found(tmp_path: Any) -> None:
    script = tmp_path / "tune.py"
    script.write_text(
        textwrap.dedent(
            """
            import kiln, numpy, sys
            x = numpy.ones((700, 700), numpy.float32)
            def progress(state):
                if state["best_us"]:
                    print("measuring", flush=True)
            try:
                kiln.autotune("matmul", x, x, budget_s=300, progress=progress)
            except KeyboardInterrupt:
                print("interrupted", kiln.resolve("matmul", x, x).report.config_source, flush=True)
                sys.exit(7)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "measuring\n"
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 7
    assert output.splitlines()[-1] == "interrupted tuned"


def test_wrong_calls_are_refused(matrix: numpy.ndarray) -> None:
    refused(ValueError, "'transpose'", lambda: kiln.autotune("transposed", matrix))
    refused(TypeError, "numpy.asarray", lambda: kiln.autotune("neg", [1.0, 2.0]))
    refused(TypeError, "name of an op", lambda: kiln.autotune(3, matrix))
    refused(ValueError, "budget_s=0", lambda: kiln.autotune("neg", matrix, budget_s=0))
    refused(TypeError, "budget_s='10s'", lambda: kiln.autotune("neg", matrix, budget_s="10s"))
    refused(TypeError, "seed=1.5", lambda: kiln.autotune("neg", matrix, seed=1.5))
    refused(ValueError, "seed=-1", lambda: kiln.autotune("neg", matrix, seed=-1))
    refused(TypeError, "strategy=None", lambda: kiln.autotune("neg", matrix, strategy=None))
    refused(TypeError, "record='x'", lambda: kiln.autotune("neg", matrix, record="x"))
    refused(ValueError, "exhaustive", lambda: kiln.autotune("neg", matrix, strategy="clever"))
    refused(ValueError, "for GPUs", lambda: kiln.autotune("neg", matrix, measuring="graph"))
    refused(ValueError, "eager or graph", lambda: kiln.autotune("neg", matrix, measuring="sometimes"))
    refused(TypeError, "measuring", lambda: kiln.autotune("neg", matrix, measuring=3))
    refused(ValueError, "alpha", lambda: kiln.autotune("add", matrix, matrix, alpah=2))
    refused(TypeError, "by position and by name", lambda: kiln.autotune("neg", matrix, x=matrix))
    refused(TypeError, "True, False or a callable", lambda: kiln.autotune("neg", matrix, progress="bar"))
    refused(ValueError, "80", lambda: kiln.autotune("matmul", matrix, matrix))


def test_on_a_gpu(gpu: str) -> None:
    import torch

    x = torch.ones(4099, 33, device=gpu)
    table = kiln.autotune("add", x, x, budget_s=5, progress=False)
    assert table.report["policy"] == "eager, flushed L2"
    assert kiln.resolve("add", x, x).report.config_source == "tuned"
    assert torch.equal(kiln.ops.add(x, x), x + x)
    with torch.cuda.stream(torch.cuda.Stream()):
        replayed = kiln.autotune("add", x, x, budget_s=5, measuring="graph, hot", record=False, progress=False)
    assert replayed.report["policy"] == "graph, hot L2"


def test_callbacks_of_a_tuning_may_call_ops_but_not_tune() -> None:
    script = """
        import kiln, numpy
        x = numpy.arange(60 * 50, dtype=numpy.float32).reshape(60, 50)
        seen = []
        def progress(state):
            if seen:
                return
            kiln.set_tuning_policy("first_use")
            seen.append(numpy.array_equal(kiln.ops.transpose(x[:40]), x[:40].T))
            try:
                kiln.autotune("transpose", x[:30], budget_s=1, progress=False)
            except kiln.UsageError as error:
                seen.append(str(error))
        def grid(meta):  # on the threads that compile as well
            kiln.ops.relu(x)
            return kiln.cdiv(meta.n, meta.BLOCK_SIZE)
        kiln.autotune("transpose", x, budget_s=2, progress=progress)
        assert seen[0] and "cannot be tuned from within a tuning" in seen[1], seen
        text = '''
            #include <kiln/tl.hpp>
            namespace tl = kiln::tl;
            template <int BLOCK_SIZE>
            KILN_KERNEL void twice(const float* x, float* out, tl::int64_t n) {
              auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
              tl::store(out + offsets, 2 * tl::load(x + offsets, offsets < n), offsets < n);
            }
        '''
        kernel = kiln.Kernel(text, grid=grid, tunables={"BLOCK_SIZE": [64, 128]})
        out = numpy.full_like(x, numpy.nan)
        kiln.autotune(kernel, x, out, x.size, budget_s=2, progress=False)
        kernel(x, out, x.size)
        assert numpy.array_equal(out, 2 * x)
        assert numpy.array_equal(kiln.ops.relu(x), x)  # tuned by now, or then
        print("done")
    """
    environment = {**os.environ, "KILN_TUNING_BUDGET": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "done"
