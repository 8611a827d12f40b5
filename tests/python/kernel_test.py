"""kiln.Kernel: kernels of one's own, launched with their own parameters."""

from __future__ import annotations

import functools
import gc
import pathlib
import threading
from typing import Any

import kiln
import numpy as np
import pytest
from refusal import refused

SCALE = """
#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE, bool NEGATE = false>
KILN_KERNEL void scale(const T* x, T* out, tl::int64_t n, float alpha, T beta = 0) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto y = tl::load(x + offsets, mask) * alpha + beta;
  tl::store(out + offsets, tl::cast<T>(NEGATE ? -y : y), mask);
}
"""


def make_scale(**changes: Any) -> kiln.Kernel:
    options: dict[str, Any] = {
        "grid": lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]),
        "tunables": {"BLOCK_SIZE": [128, 64, 256], "num_warps": [4, 2]},
    }
    return kiln.Kernel(SCALE, **(options | changes))


def arrays(n: int = 1000, dtype: Any = np.float32) -> tuple[Any, Any]:
    return np.arange(n).astype(dtype), np.full(n, 77, dtype)


def test_takes_parameters_by_position_and_by_name() -> None:
    scale = make_scale()
    x, out = arrays()
    assert scale(x, out, 1000, 2.0) is None
    np.testing.assert_array_equal(out, 2 * x)
    scale(x, out=out, n=500, alpha=3.0)
    np.testing.assert_array_equal(out, np.concatenate([3 * x[:500], 2 * x[500:]]))
    scale(x=x, out=out, n=np.int32(1000), alpha=np.float32(1.0), beta=np.float64(0.5), NEGATE=True, BLOCK_SIZE=64)
    np.testing.assert_array_equal(out, -(x + 0.5))
    scale(x, out, 1000, 4.0, T="float32", num_warps=2)
    np.testing.assert_array_equal(out, 4 * x)
    scale(x, out, 1000, 5.0, T=np.float32, config={"BLOCK_SIZE": 256})
    np.testing.assert_array_equal(out, 5 * x)
    scale(x, out, 1000, 6.0, T=kiln.DType.f32, config="BLOCK_SIZE=64")
    np.testing.assert_array_equal(out, 6 * x)
    scale(x, x, 1000, 2.0)  # overlap is the author's business
    np.testing.assert_array_equal(x, 2 * np.arange(1000))


@pytest.mark.parametrize("grid", [np.array([1, 2]), np.array([1.5]), [np.ones(2)]], ids=repr)
def test_grids_that_are_arrays_are_refused_by_name(grid: Any) -> None:
    x, out = arrays()
    words = r"grid.* is .*array.*expected an integer or up to three"
    refused(TypeError, words, lambda: make_scale(grid=grid))
    refused(TypeError, words, lambda: make_scale(grid=lambda _: grid)(x, out, 1000, 2.0))
    refused(TypeError, words, lambda: make_scale(grid=1)(x, out, 1000, 2.0, grid=grid))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_template_types_follow_the_tensors(dtype: Any) -> None:
    x, out = arrays(100, dtype)
    make_scale()(x, out, 100, 2.0)
    assert np.array_equal(out, 2 * x)


def test_types_that_disagree_are_a_type_error() -> None:
    x, _ = arrays()
    with pytest.raises(TypeError, match="T is f32 by tensor 'x', but tensor 'out' is f64"):
        make_scale()(x, np.zeros(1000), 1000, 2.0)
    refused(TypeError, "T is f64 as given, but tensor 'x' is f32", lambda: make_scale()(x, x, 1000, 2.0, T="f64"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda k, x: k(x, x, 10, 1.0, 0, 0), TypeError, "takes 5 parameters"),
        (lambda k, x: k(x, n=10, alpha=1.0), TypeError, "lacks the tensor 'out'"),
        (lambda k, x: k(x, x, 10), ValueError, "alpha"),
        (lambda k, x: k(x, x, 10, 1.0, x=x), TypeError, "'x' by position and by name"),
        (lambda k, x: k(x, x, 2.5, 1.0), TypeError, "'n'"),
        (lambda k, x: k(x, x, 10, 1.0, gamma=1), (TypeError, ValueError), "gamma"),
        (lambda k, x: k(x, x, 10, 1.0, BLOCK_SIZE=96), ValueError, "legal values are 128, 64, 256"),
        (lambda k, x: k(x, x, 10, 1.0, BLOCK_SIZE=64, config="num_warps=4"), TypeError, "both by name and as config"),
        (lambda k, x: k(x, x, 10, 1.0, T="flaot32"), ValueError, "flaot32"),
        (lambda k, x: k([1.0], x, 10, 1.0), TypeError, "list"),
        (lambda k, x: k(None, x, 10, 1.0), TypeError, "'x' is None"),
        (lambda k, x: k(x, x, 10, 1.0, grid=(1, 2, 3, 4)), ValueError, "1 to 3"),
        (lambda k, x: k(x, x, 10, 1.0, grid=-1), ValueError, "0 or more"),
        (lambda k, x: k(x, x, 10, 1.0, grid=1.5), TypeError, "grid"),
        (lambda k, x: k(x, x, 10, 1.0, grid=lambda meta: 1), TypeError, "function of tunables"),
        (lambda k, x: k(x, x, 10, 1.0, stream="fast"), TypeError, "stream"),
    ],
)
def test_calls_that_do_not_fit_are_refused(call: Any, error: Any, message: str) -> None:
    x, _ = arrays(10)
    refused(error, message, lambda: call(make_scale(), x))
    np.testing.assert_array_equal(x, np.arange(10))


def test_an_output_that_is_read_only_is_refused() -> None:
    x, out = arrays()
    x.flags.writeable = False
    make_scale()(x, out, 1000, 2.0)
    refused((TypeError, ValueError), "read-only", lambda: make_scale()(out, x, 1000, 2.0))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tunables": {"BLOCKSIZE": [128]}}, ValueError, "did you mean 'BLOCK_SIZE'"),
        ({"tunables": {"BLOCK_SIZE": []}}, ValueError, "no values"),
        ({"tunables": {"BLOCK_SIZE": 128}}, TypeError, "expected a list"),
        ({"tunables": {"BLOCK_SIZE": ["a"]}}, TypeError, "values are integers"),
        ({"tunables": ["BLOCK_SIZE"]}, TypeError, "expected a dict"),
        ({"constraints": ["BLOCK_SIZE >"]}, ValueError, "no expression"),
        ({"constraints": ["BLOCK_SIZ > 1"]}, ValueError, "'BLOCK_SIZ > 1' cannot be computed for .*BLOCK_SIZE"),
        ({"name": 1}, TypeError, "name is 1"),
        ({"constraints": [3]}, TypeError, "expected an expression"),
        ({"constraints": ["BLOCK_SIZE > 1000"]}, ValueError, "no config meets"),
        ({"defaults": {"BLOCK_SIZE": 1}}, ValueError, "BLOCK_SIZE=1"),
        ({"defaults": {"gpu": {}}}, ValueError, "'cpu' and 'cuda'"),
        ({"name": "scael"}, ValueError, "did you mean 'scale'"),
        ({"not_tuned_for": ["seed"]}, ValueError, "seed"),
        ({"grid": "wide"}, TypeError, "grid"),
        ({"grid": (1, 1, 1, 1)}, ValueError, "1 to 3"),
        ({"tolerance": 3}, TypeError, "tolerance"),
    ],
)
def test_definitions_that_cannot_work_are_refused_at_once(changes: Any, error: Any, message: str) -> None:
    refused(error, message, lambda: make_scale(**changes))


@pytest.mark.parametrize("name", ["out", "stream", "config", "tuning", "grid"])
def test_numbers_named_like_a_keyword_of_launches_are_refused_at_once(name: str) -> None:
    text = SCALE.replace("T* out", "T* result").replace("out + offsets", "result + offsets").replace("alpha", name)
    with pytest.raises(ValueError, match=f"'{name}' is a keyword of every launch"):
        kiln.Kernel(text, grid=1, tunables={"BLOCK_SIZE": [128]})


def test_constraints_without_a_name_or_text() -> None:
    class Small:
        def __call__(self, config: Any) -> bool:
            return bool(config["BLOCK_SIZE"] <= 128)

    class Blank(Small):
        """ """

    for constraint in (Small(), Blank(), functools.partial(lambda config: True)):
        x, out = arrays()
        make_scale(constraints=[constraint])(x, out, 1000, 2.0)
        np.testing.assert_array_equal(out, 2 * x)
    with pytest.raises(ValueError, match="breaks the constraint a constraint"):
        make_scale(constraints=[Small()])(x, out, 1000, 2.0, BLOCK_SIZE=256)


def test_headers_and_files_that_are_no_text(tmp_path: pathlib.Path) -> None:
    for headers in ({"a.hpp": 5}, {5: "text"}, ["a.hpp"], {"a.hpp": b"bytes"}):
        with pytest.raises(TypeError, match="headers is"):
            make_scale(headers=headers)
    file = tmp_path / "latin.hpp"
    file.write_bytes(("// Größe\n" + SCALE).encode("latin-1"))
    refused(ValueError, r"latin\.hpp.*not UTF-8", lambda: kiln.Kernel(file, grid=1, tunables={"BLOCK_SIZE": [128]}))


def test_defaults_and_constraints_choose_the_config() -> None:
    scale = make_scale(defaults={"cpu": {"BLOCK_SIZE": 256}}, constraints=["BLOCK_SIZE >= 32 * num_warps"])
    x, out = arrays()
    name, tensors, attributes = scale.call_of(x, out, 1000, 2.0)
    report = kiln.resolve(name, *tensors, **attributes).report
    assert report.config == {"BLOCK_SIZE": 256, "num_warps": 4}
    refused(ValueError, "breaks the constraint BLOCK_SIZE >= 32", lambda: scale(x, out, 1000, 2.0, BLOCK_SIZE=64))


def test_a_grid_is_told_everything_by_name() -> None:
    seen: dict[str, Any] = {}

    def grid(meta: Any) -> tuple[int, int]:
        seen.update(meta)
        assert meta.x.numel == 1000 and meta.x.shape == (1000,) and meta.x.is_contiguous
        assert meta.n == 1000
        refused(KeyError, "nothing of this launch", lambda: meta["rows"])
        return kiln.cdiv(meta["n"], meta.BLOCK_SIZE), 1

    x, out = arrays()
    make_scale(grid=grid)(x, out, 1000, 2.0)
    np.testing.assert_array_equal(out, 2 * x)
    assert {"x", "out", "n", "alpha", "BLOCK_SIZE", "num_warps", "T", "NEGATE"} <= set(seen)
    assert seen["T"] == kiln.DType.f32


def test_a_grid_for_one_call() -> None:
    x, out = arrays()
    make_scale(grid=None)(x, out, 1000, 2.0, BLOCK_SIZE=64, grid=2)
    np.testing.assert_array_equal(out, np.concatenate([2 * x[:128], np.full(872, 77)]))
    refused(ValueError, "grid", lambda: make_scale(grid=None)(x, out, 1000, 2.0))


def test_what_a_grid_raises_comes_out() -> None:
    class Mine(Exception):
        pass

    def grid(meta: Any) -> int:
        raise Mine("from the grid")

    x, out = arrays()
    with pytest.raises(Mine, match="from the grid") as caught:
        make_scale(grid=grid)(x, out, 1000, 2.0)
    assert any(entry.name == "grid" for entry in caught.traceback)
    with pytest.raises(TypeError, match="the grid of kernel 'scale' is 1.5"):
        make_scale(grid=lambda meta: 1.5)(x, out, 1000, 2.0)
    np.testing.assert_array_equal(out, 77)


def test_the_same_kernel_made_again_is_the_same_op() -> None:
    def make(block: int) -> kiln.Kernel:
        return make_scale(grid=lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]) * block)

    assert make(1).op is make(1).op
    assert make(1).op_name != make(2).op_name
    assert make_scale(tunables={"BLOCK_SIZE": [128]}).op_name != make_scale().op_name
    assert kiln.Kernel(SCALE, grid=1, tunables={"BLOCK_SIZE": [64]}).op_name == (
        kiln.Kernel(SCALE, "scale", grid=1, tunables={"BLOCK_SIZE": [64]}).op_name
    )


def test_a_syntax_error_shows_the_users_line(tmp_path: pathlib.Path) -> None:
    text = SCALE.replace("auto mask = offsets < n;", "auto mask = offsets <;").lstrip()
    file = tmp_path / "my_kernel.hpp"
    file.write_text(text)
    x, out = arrays()
    grid = {"grid": 1, "tunables": {"BLOCK_SIZE": [128]}}
    refused(kiln.CompileError, r"my_kernel\.hpp:5:", lambda: kiln.Kernel(file, **grid)(x, out, 1000, 2.0))
    refused(kiln.CompileError, r"scale\.hpp:5:", lambda: kiln.Kernel(text, **grid)(x, out, 1000, 2.0))
    np.testing.assert_array_equal(out, 77)
    make_scale()(x, out, 1000, 2.0)  # the process goes on
    np.testing.assert_array_equal(out, 2 * x)


def test_reads_files_and_the_headers_beside_them(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twice.hpp").write_text("#pragma once\n#include <kiln/tl.hpp>\nconstexpr float kTwice = 2.0f;\n")
    (tmp_path / "kernel.hpp").write_text('#include "twice.hpp"\n' + SCALE.replace("* alpha", "* alpha * kTwice"))
    x, out = arrays()
    options = {"grid": lambda meta: kiln.cdiv(meta["n"], 128), "tunables": {"BLOCK_SIZE": [128]}}
    kiln.Kernel(tmp_path / "kernel.hpp", **options)(x, out, 1000, 3.0)
    np.testing.assert_array_equal(out, 6 * x)
    monkeypatch.chdir(tmp_path)
    kiln.Kernel("kernel.hpp", **options)(x, out, 1000, 4.0)
    np.testing.assert_array_equal(out, 8 * x)
    header = {"thrice.hpp": "constexpr float kThrice = 3.0f;\n"}
    text = '#include "thrice.hpp"\n' + SCALE.replace("* alpha", "* alpha * kThrice")
    kiln.Kernel(text, headers=header, **options)(x, out, 1000, 1.0)
    np.testing.assert_array_equal(out, 3 * x)
    refused(ValueError, r"nowhere\.hpp", lambda: kiln.Kernel("nowhere.hpp", **options))
    refused(TypeError, "source is a int", lambda: kiln.Kernel(3, **options))  # type: ignore[arg-type]


def test_tensors_that_are_not_contiguous_are_refused() -> None:
    x = np.arange(20, dtype=np.float32)
    out = np.zeros(10, np.float32)
    make_scale()(x[5:15], out, 10, 1.0)
    np.testing.assert_array_equal(out, x[5:15])
    for strided in (x[::2], x[::-1][:10], np.broadcast_to(x[:1], 10), x.reshape(2, 10).T):
        with pytest.raises(ValueError, match=r"'x' is not contiguous.*contiguous\(\).*strided=\['x'\]"):
            make_scale()(strided, out, 10, 1.0)
    refused(ValueError, "'out' is not contiguous", lambda: make_scale()(out, x[::2], 10, 1.0))
    np.testing.assert_array_equal(out, x[5:15])
    make_scale()(x[:10].reshape(1, 10, 1)[:, :, ::-1], out, 10, 1.0)  # the stride of one element is never used
    make_scale()(x[:0:2], out, 0, 1.0)
    np.testing.assert_array_equal(out, x[:10])


def test_a_kernel_that_takes_strides_says_so() -> None:
    text = """
    #include <kiln/tl.hpp>
    template <typename T, int BLOCK_SIZE>
    KILN_KERNEL void gather(const T* x, T* out, tl::int64_t n, tl::int64_t stride) {
      auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
      auto mask = offsets < n;
      tl::store(out + offsets, tl::load(x + offsets * stride, mask), mask);
    }
    """
    options: dict[str, Any] = {"grid": lambda meta: kiln.cdiv(meta["n"], 64), "defaults": {}, "tunables": {}}
    x = np.arange(20, dtype=np.float32)
    for strided in (["x"], ("x",), True):
        out = np.zeros(10, np.float32)
        gather = kiln.Kernel(text, strided=strided, **options)
        gather(x[::2], out, 10, 2, BLOCK_SIZE=64)
        np.testing.assert_array_equal(out, x[::2])
    dense = kiln.Kernel(text, **options)
    assert dense.op_name != gather.op_name
    refused(ValueError, "'x' is not contiguous", lambda: dense(x[::2], out, 10, 2, BLOCK_SIZE=64))
    refused(ValueError, r"strided names 'y'.*\(x, out\)", lambda: kiln.Kernel(text, strided=["y"], **options))
    for wrong in ("x", 1, [3]):
        with pytest.raises(TypeError, match="strided is"):
            kiln.Kernel(text, strided=wrong, **options)  # type: ignore[arg-type]
    for name, is_strided in (("gathered", True), ("gathered_dense", False)):
        op = kiln.register_op(
            name,
            kernel=gather if is_strided else dense,
            inputs=["x"],
            outputs=["out"],
            tunables={"BLOCK_SIZE": [64]},
            launch=lambda call, config: kiln.Launch(
                kiln.cdiv(call.outputs[0].numel, 64),
                arguments={"n": call.outputs[0].numel, "stride": call.inputs[0].strides[0]},
            ),
        )
        if is_strided:
            np.testing.assert_array_equal(op(x[::2]), x[::2])
        else:
            with pytest.raises(ValueError, match="'x' is not contiguous"):
                op(x[::2])


def test_numbers_of_all_64_bits() -> None:
    """An unsigned parameter, and what a u64 tensor is compared with or filled with."""
    fill = kiln.Kernel(
        """
        #include <kiln/tl.hpp>
        template <int BLOCK_SIZE>
        KILN_KERNEL void fill(tl::uint64_t* out, tl::uint64_t value) {
          auto offsets = tl::arange<BLOCK_SIZE>();
          tl::store(out + offsets, tl::full<tl::uint64_t, BLOCK_SIZE>(value), offsets < 1);
        }
        """,
        grid=1,
    )
    out = np.zeros(1, np.uint64)
    x = np.array([0, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1], np.uint64)
    for number in (0, 2**63 - 1, 2**63, 2**64 - 1, np.uint64(2**64 - 1)):
        fill(out, number, BLOCK_SIZE=32)
        assert out[0] == number
        np.testing.assert_array_equal(kiln.ops.lt(x, other=number), x < np.uint64(number))
        np.testing.assert_array_equal(kiln.ops.eq(x, other=number), x == np.uint64(number))
        np.testing.assert_array_equal(kiln.ops.clamp(x, min=number), np.maximum(x, np.uint64(number)))
        np.testing.assert_array_equal(kiln.ops.fill(x, value=number), np.full_like(x, number))
    for number in (2**64, -1):
        with pytest.raises(ValueError, match="fit"):
            fill(out, number, BLOCK_SIZE=32)
    with pytest.raises(ValueError, match="does not fit 64 bits with a sign"):
        kiln.ops.softmax(np.ones((2, 2), np.float32), dim=2**63)
    refused(ValueError, "cannot hold", lambda: kiln.ops.lt(np.ones(2, np.int64), other=2**63))
    first = kiln.ops.normal(size=[8], seed=2**64 - 1)
    assert not np.array_equal(first, kiln.ops.normal(size=[8], seed=2**63 - 1))


def test_is_tuned_and_found_again(tmp_path: pathlib.Path) -> None:
    scale = make_scale(doc="tuned in a test")
    x, out = arrays(100_000)
    table = kiln.autotune(scale, x, out, 100_000, 2.0, budget_s=10, progress=False)
    assert len(table) >= 2
    np.testing.assert_array_equal(out, 77)  # tuning works on copies
    name, tensors, attributes = scale.call_of(x, out, 100_000, 5.0)  # another factor is no other call
    assert kiln.resolve(name, *tensors, **attributes).report.config_source == "tuned"
    scale(x, out, 100_000, 2.0)
    np.testing.assert_array_equal(out, 2 * x)


def test_what_a_grid_raises_comes_out_of_a_tuning() -> None:
    def grid(meta: Any) -> int:
        if meta["BLOCK_SIZE"] == 256:
            raise ZeroDivisionError("only at 256")
        return kiln.cdiv(meta["n"], meta["BLOCK_SIZE"])

    x, out = arrays()
    with pytest.raises(ZeroDivisionError, match="only at 256"):
        kiln.autotune(make_scale(grid=grid), x, out, 1000, 2.0, budget_s=1, progress=False)


def test_many_threads_launch_it() -> None:
    scale = make_scale()
    wrong: list[int] = []

    def work(factor: int) -> None:
        for n in range(1, 60):
            x, out = arrays(n)
            scale(x, out, n, float(factor))
            if not np.array_equal(out, factor * x):
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_kernels_go_away_while_their_ops_stay() -> None:
    x, out = arrays()
    for i in range(5):
        make_scale(doc=f"kernel {i}")(x, out, 1000, float(i))
        gc.collect()
        np.testing.assert_array_equal(out, i * x)


def test_describes_itself() -> None:
    scale = make_scale(doc="out = x * alpha + beta")
    assert repr(scale).startswith("<kiln.Kernel scale<T, BLOCK_SIZE, NEGATE = false>(const T* x, T* out, ")
    assert "out = x * alpha + beta" in (scale.__doc__ or "")
    assert scale.op.spec.inputs[1].mutated


PRODUCT = """
#include <kiln/tl.hpp>
KILN_DEVICE auto tile() { return tl::expand_dims<1>(tl::arange<32>()) * 32 + tl::expand_dims<0>(tl::arange<32>()); }
template <int NUM_STAGES>
KILN_KERNEL void squares(const float* x, float* out, tl::int64_t n) {
  auto acc = tl::dot_accumulator<float, 32, 32>();
  const auto load = [&](tl::int64_t step) { return tl::deferred_load(x + step * 1024 + tile()); };
  tl::pipeline<NUM_STAGES>(
      n, [&](tl::int64_t step) { return tl::Tuple{load(step), load(step)}; },
      [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); });
  tl::store(out + tile(), acc);
}
"""


def test_a_pipeline_gets_its_shared_memory(gpu: str) -> None:
    import torch

    squares = kiln.Kernel(PRODUCT, grid=1, tunables={"NUM_STAGES": [2, 8, 40]})
    x = torch.ones(4, 32, 32, device=gpu)
    out = torch.zeros(32, 32, device=gpu)
    for stages in (2, 8):
        squares(x, out.zero_(), 4, NUM_STAGES=stages)
        assert torch.equal(out, torch.full_like(out, 128.0))
    with pytest.raises(ValueError, match=r"needs 327680 bytes.*fewer stages"):
        squares(x, out, 4, NUM_STAGES=40)
    tuned = kiln.autotune(squares, x, out, 4, record=False, progress=False)
    too_large = next(row for row in tuned if row["config"]["NUM_STAGES"] == 40)
    assert too_large["outcome"] == "unlaunched"
    assert "needs 327680 bytes" in too_large["reason"]


def test_runs_on_a_gpu(gpu: str) -> None:
    import torch

    scale = make_scale()
    x = torch.arange(1000, dtype=torch.float32, device=gpu)
    out = torch.full_like(x, float("nan"))
    scale(x, out, 1000, 2.0)
    assert torch.equal(out, 2 * x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        scale(x, out, 1000, 3.0)
    stream.synchronize()
    assert torch.equal(out, 3 * x)
    with pytest.raises(TypeError):
        scale(x.cpu(), out, 1000, 2.0)
