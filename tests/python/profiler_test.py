"""kiln.profile, Profiler, profile_region, and the peaks that shares refer to."""

from __future__ import annotations

import gc
import json
import pathlib
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import kiln
import numpy
import pytest
from refusal import refused

Random = numpy.random.Generator


@pytest.fixture
def x(random: Random) -> numpy.ndarray:
    values = random.standard_normal((20, 300), dtype=numpy.float32)
    kiln.ops.add(values, values)
    kiln.ops.softmax(values, dim=1)
    return values


def test_rows_and_regions(x: numpy.ndarray) -> None:
    with kiln.profile() as profiler:
        assert profiler.is_running
        with kiln.profile_region("step"):
            for _ in range(3):
                kiln.ops.add(x, x)
            with kiln.profile_region("inner"):
                kiln.ops.softmax(x, dim=1)
        kiln.ops.add(x, x)
    assert not profiler.is_running
    kiln.ops.add(x, x)  # too late
    report = profiler.report()
    rows = {row.op: row for row in report.rows}
    assert set(rows) == {"add", "softmax"}
    add = rows["add"]
    assert (add.count, add.captured, add.device, add.dtypes) == (4, 0, "cpu", "f32")
    assert add.shapes == "20x300, 20x300 -> 20x300"
    assert "BLOCK_SIZE" in add.config and add.variant == "contiguous"
    times = add.device_time
    assert times.count == add.host_time.count == 4
    assert 0 < times.min_us <= times.p50_us <= times.p99_us <= times.max_us <= times.total_us
    assert times.mean_us == pytest.approx(times.total_us / 4)
    assert add.bytes == 3 * x.nbytes
    assert add.gb_s == pytest.approx(4 * add.bytes / times.total_us * 1e-3)
    assert [(region.path, region.calls, region.time.count) for region in report.regions] == [
        ("step", 4, 1),
        ("step/inner", 1, 1),
    ]
    assert {total.op: total.count for total in report.ops} == {"add": 4, "softmax": 1}
    assert report.elapsed_us > times.total_us
    assert (report.threads, report.failed, report.dropped) == (1, 0, 0)
    assert report.compile_us == report.tune_us == 0
    text = str(report)
    assert "20x300, 20x300 -> 20x300" in text and "step/inner" in text
    assert repr(report) == text


def test_rows_as_dicts(x: numpy.ndarray) -> None:
    with kiln.profile() as profiler:
        with kiln.profile_region("step"):
            kiln.ops.add(x, x)
    report = profiler.report()
    row = report.rows[0].to_dict()
    assert row["op"] == "add" and row["count"] == 1
    assert row["device_time"]["total_us"] == report.rows[0].device_time.total_us
    everything = [row, report.ops[0].to_dict(), report.regions[0].to_dict(), report.graph_device_time.to_dict()]
    assert json.loads(json.dumps(everything)) == everything
    assert repr(report.ops[0]).startswith("<kiln.ProfileTotal {'op': 'add'")


def test_the_trace(x: numpy.ndarray, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.json"
    with kiln.profile(trace=str(path)):
        with kiln.profile_region("step"):
            kiln.ops.add(x, x)
    slices = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    assert {(event["cat"], event["name"]) for event in slices} >= {
        ("dispatch", "add"),
        ("kernel", "add"),
        ("region", "step"),
    }
    other = tmp_path / "other.json"
    with pytest.raises(ZeroDivisionError):
        with kiln.profile(trace=str(other)) as profiler:
            kiln.ops.add(x, x)
            raise ZeroDivisionError
    assert not profiler.is_running
    assert '"add"' in other.read_text()
    with pytest.raises(kiln.FileError, match="nowhere"):
        with kiln.profile(trace="/nowhere/trace.json"):
            pass
    with kiln.profile():
        pass


def test_one_at_a_time_stopped_once(x: numpy.ndarray, tmp_path: pathlib.Path) -> None:
    with kiln.profile() as profiler:
        with pytest.raises(ValueError, match="a profiler runs in this process already"):
            with kiln.profile():
                pass
        refused(ValueError, "a profiler runs in this process already", lambda: kiln.Profiler())
        refused(ValueError, "still runs", lambda: profiler.write_trace(str(tmp_path / "early.json")))
        kiln.ops.add(x, x)
    refused(ValueError, "stopped already", lambda: profiler.stop())
    assert profiler.report().rows[0].count == 1
    with kiln.profile() as profiler:
        kiln.ops.add(x, x)
        assert profiler.report().rows[0].count == 1  # stops
        kiln.ops.add(x, x)
    assert profiler.report().rows[0].count == 1
    profiler = kiln.Profiler()
    kiln.ops.add(x, x)
    del profiler
    gc.collect()
    profiler = kiln.Profiler(device_time=False, max_records=2)
    for _ in range(5):
        kiln.ops.add(x, x)
    profiler.stop()
    assert profiler.report().rows[0].count == 2
    assert profiler.report().dropped == 3


def test_graphs_are_recorded(x: numpy.ndarray) -> None:
    with kiln.profile() as profiler:
        with kiln.capture(device="cpu") as graph:
            kiln.ops.add(x, x)
        graph.launch()
        graph.launch()
    report = profiler.report()
    assert (report.rows[0].count, report.rows[0].captured) == (1, 1)
    assert report.graph_device_time.count == report.graph_host_time.count == 2
    assert report.graph_device_time.total_us > 0


def test_calls_that_raise_are_counted(x: numpy.ndarray) -> None:
    with kiln.profile() as profiler:
        with pytest.raises(ValueError):
            kiln.ops.add(x, x[:, :7])
        kiln.ops.add(x, x)
    assert profiler.report().failed == 1
    assert profiler.report().rows[0].count == 1


def test_all_threads_are_recorded(x: numpy.ndarray) -> None:
    barrier = threading.Barrier(5)

    def work(number: int) -> None:
        barrier.wait()
        with kiln.profile_region(f"thread {number}"):
            for _ in range(50):
                kiln.ops.add(x, x)

    with kiln.profile() as profiler, ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))
    report = profiler.report()
    assert report.rows[0].count == 250
    assert report.threads == 5
    assert sorted((region.path, region.calls) for region in report.regions) == [(f"thread {i}", 50) for i in range(5)]


def test_a_region_again_and_within_itself(x: numpy.ndarray) -> None:
    region = kiln.profile_region("a")
    with region:  # no profiler runs
        kiln.ops.add(x, x)
    with kiln.profile() as profiler:
        with region:
            with region:
                kiln.ops.add(x, x)
        with region:
            pass
        with pytest.raises(ZeroDivisionError):
            with region:
                raise ZeroDivisionError
    assert [(r.path, r.time.count) for r in profiler.report().regions] == [("a", 3), ("a/a", 1)]
    refused(ValueError, "left on the thread that entered it", lambda: region.__exit__(None, None, None))


def test_a_region_is_left_on_its_thread(x: numpy.ndarray) -> None:
    region = kiln.profile_region("a")
    with kiln.profile() as profiler:
        region.__enter__()

        def leave() -> None:
            refused(ValueError, "left on the thread that entered it", lambda: region.__exit__(None, None, None))

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        kiln.ops.add(x, x)
        region.__exit__(None, None, None)
    assert [(r.path, r.calls) for r in profiler.report().regions] == [("a", 1)]


def test_generators_may_leave_regions_in_any_order(x: numpy.ndarray) -> None:
    def steps(name: str) -> Iterator[None]:
        with kiln.profile_region(name):
            yield

    with kiln.profile() as profiler:
        first, second = steps("a"), steps("b")
        next(first)
        next(second)
        first.close()
        second.close()
        kiln.ops.add(x, x)
    assert profiler.report().rows[0].count == 1


def test_the_share_is_of_a_measured_peak() -> None:
    """In a process of its own, where nobody has measured yet."""
    script = """
        import kiln, numpy
        x = numpy.ones((1000, 1000), numpy.float32)
        with kiln.profile() as profiler:
            kiln.ops.add(x, x)
        before = profiler.report()
        assert before.devices_without_peak == ["cpu"], before.devices_without_peak
        assert before.rows[0].roofline_share == 0
        assert 'no peak of cpu is known; measured_peak("cpu")' in str(before)
        peak = kiln.measured_peak("cpu")
        after = profiler.report()
        row = after.rows[0]
        assert after.devices_without_peak == []
        assert "no peak" not in str(after)
        assert abs(row.roofline_share - row.gb_s / peak.bandwidth_gb_s) < 1e-9
        assert peak.device == "cpu" and peak.bandwidth_gb_s == peak.rates[0].gb_s > 0
        assert {rate.op for rate in peak.rates} == {"sum", "copy", "add"}
        assert peak.rates[0].best_us <= peak.rates[0].median_us and peak.rates[0].config
        assert peak.exceeds_cache == (peak.data_bytes >= 4 * peak.cache_bytes)
        assert f" GB/s by {peak.rates[0].op}" in str(peak)
        assert kiln.measured_peak("cpu").bandwidth_gb_s == peak.bandwidth_gb_s
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_measured() -> None:
    refused(ValueError, "cuda:99", lambda: kiln.measured_peak("cuda:99"))
    refused(ValueError, "tpu", lambda: kiln.measured_peak("tpu"))
    refused(NotImplementedError, "of dtype i64", lambda: kiln.measured_matmul_peak("cpu", "i64"))


def test_others_run_while_a_profiler_waits_for_a_gpu(gpu: str) -> None:
    x = kiln.to_device(numpy.ones((4096, 4096), numpy.float32), gpu)
    kiln.ops.matmul(x, x)
    kiln.synchronize()
    beats = 0
    stopped = threading.Event()

    def beat() -> None:
        nonlocal beats
        while not stopped.wait(0.001):
            beats += 1

    thread = threading.Thread(target=beat)
    thread.start()
    with kiln.profile() as profiler:
        for _ in range(200):
            kiln.ops.matmul(x, x)
    before = beats
    stopped.set()
    thread.join()
    assert before > 0
    row = profiler.report().rows[0]
    assert row.device_time.count == 200 and row.device_time.min_us > 0
    assert row.device == "cuda:0" and row.roofline_share > 0
