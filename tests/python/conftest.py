"""What tests of the Python package share: a kernel cache of its own, random numbers that can be repeated, devices."""

from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import sys
import tempfile
import zlib

import numpy
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # op_case.py and the like

if "KILN_CACHE_DIR" not in os.environ:  # before kiln is imported; never the user's cache
    _cache = tempfile.mkdtemp(prefix="kiln-python-tests-")
    atexit.register(shutil.rmtree, _cache, ignore_errors=True)
    os.environ["KILN_CACHE_DIR"] = _cache

# How much of sweeps runs, as tests/support/sweep_amount.hpp says it for C++.
SWEEP = os.environ.get("KILN_SWEEP", "part")
if SWEEP not in ("part", "whole", "full"):
    raise ValueError(f'KILN_SWEEP is "{SWEEP}"; expected part, whole or full')
SEED = int(os.environ.get("KILN_TEST_SEED") or int.from_bytes(os.urandom(4), "little"))


def pytest_report_header() -> str:
    import kiln

    return f"kiln {kiln.__version__} from {pathlib.Path(kiln.__file__).parent}; KILN_TEST_SEED={SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties.append(("seed", SEED))


@pytest.fixture
def random(request: pytest.FixtureRequest) -> numpy.random.Generator:
    """Random numbers of this test; KILN_TEST_SEED repeats them."""
    print(f"KILN_TEST_SEED={SEED}")  # shown where the test fails
    return numpy.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])


def gpu_problem() -> str:
    """Empty, or why tests on a GPU cannot run here."""
    try:
        import torch
    except ImportError:
        return "needs torch to hold tensors on a GPU"
    return "" if torch.cuda.is_available() else "needs an NVIDIA GPU"


@pytest.fixture
def gpu() -> str:
    """The torch device of GPU tests, which skip without one."""
    if problem := gpu_problem():
        pytest.skip(problem)
    return "cuda"
