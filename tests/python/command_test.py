"""``python -m kiln``: the command in the process of Python, with ops that a file registers."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import kiln
import numpy
import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kiln", *arguments], capture_output=True, check=False, text=True, timeout=300
    )


def test_the_version_is_the_packages() -> None:
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout == f"kiln {kiln.__version__}\n"


def test_help_says_what_the_module_adds() -> None:
    for arguments in ([], ["--help"]):
        result = run(*arguments)
        assert result.returncode == 0
        assert result.stdout.index("--load FILE.py") < result.stdout.index("doctor")


def test_commands_run_and_print_json() -> None:
    result = run("run", "add", "--shape", "64x64", "--device", "cpu", "--check", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["op"] == "add"


def test_exit_statuses_are_the_commands() -> None:
    wrong = run("run", "ad", "--shape", "4", "--device", "cpu")
    assert wrong.returncode == 2
    assert "did you mean" in wrong.stderr
    assert run("no_such_command").returncode == 2


GATHER = "sparse_kv_gather --shape 100x64 --shape 1000x64 --shape 4x16x2 --dtype u8 --dtype u8 --dtype i32"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_inputs_in_host_memory(device: str, request: pytest.FixtureRequest) -> None:
    if device != "cpu":
        request.getfixturevalue("gpu")
    for command in ("run --check", "bench --budget 20ms"):
        result = run(*command.split(), *GATHER.split(), "--pinned", "src", "--device", device)
        assert result.returncode == 0, result.stderr
    scatter = GATHER.replace(
        "sparse_kv_gather --shape 100x64 --shape 1000x64", "kv_scatter --shape 1000x64 --shape 100x64"
    )
    result = run("run", "--check", *scatter.split(), "--pinned", "dst", "--device", device)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (f"run {GATHER} --pinned sr", "--pinned is 'sr', which is no input; what may lie in host memory: src"),
        (f"bench {GATHER} --pinned dst", "--pinned is 'dst', which must lie where the call runs"),
        ("tune add --shape 4 --pinned input", "none of its inputs may lie in host memory"),
        ("tune all --pinned src", "--pinned go with one op"),
        ("inspect add --shape 4 --pinned x", "unknown option '--pinned'"),
    ],
)
def test_what_cannot_be_pinned(arguments: str, says: str) -> None:
    result = run(*arguments.split(), "--device", "cpu")
    assert result.returncode == 2 and says in result.stderr


def test_npy_files_go_through(tmp_path: pathlib.Path) -> None:
    numpy.save(tmp_path / "x.npy", numpy.arange(5, dtype=numpy.float32))
    result = run(
        "run", "neg", "--device", "cpu", "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy")
    )
    assert result.returncode == 0, result.stderr
    numpy.testing.assert_array_equal(numpy.load(tmp_path / "y.npy"), -numpy.arange(5, dtype=numpy.float32))


MY_OPS = '''
import kiln
import numpy

SOURCE = """
#include <kiln/tl.hpp>
namespace tl = kiln::tl;

template <typename T, int BLOCK_SIZE>
KILN_KERNEL void doubled(const T* x, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets, mask) * static_cast<T>(2), mask);
}
"""

kiln.register_op(
    "doubled",
    kernel=kiln.Kernel(SOURCE, "doubled", grid=lambda meta: -(-meta["n"] // meta["BLOCK_SIZE"]),
                       tunables={"BLOCK_SIZE": [64, 256, 1024]}),
    inputs=["x"],
    outputs=["out"],
    dtypes=["f32"],
    reference=lambda x: x * 2,
    doc="Twice x",
)
'''


@pytest.fixture
def my_ops(tmp_path: pathlib.Path) -> str:
    if not hasattr(kiln, "register_op"):
        pytest.skip("this build has no kiln.register_op")
    path = tmp_path / "my_ops.py"
    path.write_text(MY_OPS)
    return str(path)


def test_loaded_ops_are_checked_and_timed_and_tuned(my_ops: str) -> None:
    checked = run("--load", my_ops, "run", "doubled", "--shape", "1000", "--device", "cpu", "--check", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["op"] == "doubled"
    timed = run(f"--load={my_ops}", "bench", "doubled", "--shape", "1000", "--device", "cpu", "--budget", "200ms")
    assert timed.returncode == 0, timed.stderr
    tuned = run("--load", my_ops, "tune", "doubled", "--shape", "1000", "--device", "cpu", "--budget", "3s", "--json")
    assert tuned.returncode == 0, tuned.stderr
    assert len(json.loads(tuned.stdout)[0]["tried"]) == 3
    again = run("--load", my_ops, "run", "doubled", "--shape", "1000", "--device", "cpu", "--json")
    assert json.loads(again.stdout)["config_source"] == "tuned"
    listed = run("--load", my_ops, "ops", "doubled")
    assert "Twice x" in listed.stdout


def test_files_that_cannot_be_loaded(tmp_path: pathlib.Path) -> None:
    absent = run("--load", str(tmp_path / "absent.py"), "ops")
    assert absent.returncode == 2
    assert re.search(r"kiln: error: --load is '.*absent.py', which is no file", absent.stderr)
    odd = run("--load", "a\x1b[31m.py", "ops")
    assert "--load is 'a\\x1b[31m.py', which is no file" in odd.stderr
    as_json = run("--load", str(tmp_path / "absent.py"), "ops", "--json")
    assert as_json.stdout == ""
    assert "absent.py" in json.loads(as_json.stderr)["error"]
    assert run("--load").returncode == 2
    broken = tmp_path / "broken.py"
    broken.write_text("import kiln\nraise LookupError('not today')\n")
    result = run("--load", str(broken), "ops")
    assert result.returncode == 1
    assert "LookupError: not today" in result.stderr
    assert "broken.py" in result.stderr
    assert "__main__.py" not in result.stderr and "importlib" not in result.stderr
    assert result.stdout == ""


def test_a_main_guard_does_not_run(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("if __name__ == '__main__':\n    raise SystemExit(9)\n")
    assert run("--load", str(script), "--version").returncode == 0


def test_several_commands_in_one_process(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert kiln._kiln.run_command(["ops", "add"]) == 0
        assert "add(" in capfd.readouterr().out
        assert kiln._kiln.run_command(["ops", "ad"]) == 2
        assert "kiln: error:" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_tuning_in_order(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kiln", "tune", "matmul", "--shape", "1024x1024", "--device", "cpu", "--budget", "300s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("matmul f32")
    time.sleep(2)
    os.kill(process.pid, number)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "what was found is kept" in error
