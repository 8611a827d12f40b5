"""What works in a process that was forked from one which has imported or used Kiln."""

from __future__ import annotations

import multiprocessing
import pathlib

import kiln
import numpy as np
import pytest
from script_process import run_script


def test_import_starts_nothing_that_a_child_could_miss(tmp_path: pathlib.Path) -> None:
    printed = run_script(
        """
        import os
        import numpy as np

        threads = len(os.listdir("/proc/self/task"))
        import kiln

        assert len(os.listdir("/proc/self/task")) == threads
        assert "libcuda" not in open("/proc/self/maps").read()
        x = np.arange(4_000_000, dtype=np.float32)
        child = os.fork()
        if child == 0:
            right = np.array_equal(kiln.ops.add(x, x), x + x)
            os._exit(0 if right else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        tmp_path,
    )
    assert printed == "0\n"


def test_a_child_of_a_process_that_used_kiln_computes_and_compiles(tmp_path: pathlib.Path) -> None:
    printed = run_script(
        """
        import multiprocessing
        import kiln, numpy as np

        x = np.linspace(0, 1, 3_000_000, dtype=np.float32)

        def work(seed):
            # The parent's kernel, one that only the child compiles, and one of long programs.
            y = kiln.ops.add(x, x)
            z = kiln.ops.exp(x + seed) if seed % 2 else kiln.ops.mul(x, x)
            m = np.full((300, 300), seed, np.float32)
            p = kiln.ops.matmul(m, m)
            return bool(np.array_equal(y, x + x) and np.isfinite(z).all() and np.allclose(p, m @ m, rtol=1e-5))

        kiln.ops.matmul(np.ones((700, 700), np.float32), np.ones((700, 700), np.float32))  # starts threads
        kiln.ops.add(x, x)
        with multiprocessing.get_context("fork").Pool(4) as pool:
            print(all(pool.map(work, range(16))))
        print(np.array_equal(kiln.ops.add(x, x), x + x))
        """,
        tmp_path,
    )
    assert printed == "True\nTrue\n"


def test_a_child_may_leave_through_the_interpreters_exit(tmp_path: pathlib.Path) -> None:
    printed = run_script(
        """
        import os, sys
        import kiln, numpy as np

        m = np.ones((700, 700), np.float32)
        kiln.ops.matmul(m, m)
        child = os.fork()
        if child == 0:
            kiln.ops.matmul(m, m)
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        tmp_path,
    )
    assert printed == "0\n"


def _square(values: np.ndarray) -> np.ndarray:
    return kiln.ops.mul(values, values)


def test_spawned_processes_have_everything() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for n, result in enumerate(pool.map(_square, [np.full(1000, n, np.float32) for n in range(4)])):
            assert (result == n * n).all()


def test_batches_of_a_data_loader_with_forked_workers() -> None:
    torch = pytest.importorskip("torch", reason="needs torch for its DataLoader")
    kiln.ops.matmul(np.ones((700, 700), np.float32), np.ones((700, 700), np.float32))

    class Squares(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 64

        def __getitem__(self, index: int) -> object:
            x = torch.full((1000,), float(index))
            return kiln.ops.mul(x, x)

    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context="fork")
    rows = torch.cat(list(loader))
    assert torch.equal(rows[:, 0], torch.arange(64.0) ** 2)


def test_cuda_in_a_child_is_refused_and_the_way_out_is_named(gpu: str, tmp_path: pathlib.Path) -> None:
    printed = run_script(
        """
        import os
        import kiln, numpy as np

        on_gpu = kiln.to_device(np.ones(1000, np.float32), "cuda:0")
        kiln.ops.add(on_gpu, on_gpu)
        child = os.fork()
        if child == 0:
            try:
                kiln.ops.add(on_gpu, on_gpu)
            except (kiln.DeviceError, kiln.UsageError) as error:
                says_so = "forked after CUDA was used" in str(error) and "spawn" in str(error)
                x = np.ones(1000, np.float32)
                os._exit(0 if says_so and (kiln.ops.add(x, x) == 2).all() else 2)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print((kiln.ops.add(on_gpu, on_gpu).numpy() == 2).all())
        """,
        tmp_path,
    )
    assert printed == "0\nTrue\n"
