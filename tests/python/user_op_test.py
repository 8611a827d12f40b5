"""kiln.register_op and kiln.check: ops of one's own have what built-in ops have."""

from __future__ import annotations

import itertools
from typing import Any

import kiln
import numpy as np
import pytest
from refusal import refused

TEXT = """
#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void affine(const T* x, T* out, tl::int64_t n, float scale, float shift) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::cast<T>(tl::cast<float>(tl::load(x + offsets, mask)) * scale + shift), mask);
}

template <typename T, int BLOCK_SIZE>
KILN_KERNEL void minmax(const T* x, T* low, T* high, tl::int64_t columns) {
  auto column = tl::arange<BLOCK_SIZE>();
  auto row = x + tl::program_id(0) * columns;
  tl::store(low + tl::program_id(0), tl::min(tl::load(row + column, column < columns, T(INFINITY))));
  tl::store(high + tl::program_id(0), tl::max(tl::load(row + column, column < columns, T(-INFINITY))));
}

template <typename T, int BLOCK_SIZE>
KILN_KERNEL void bump(T* x, tl::int64_t n, float by) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(x + offsets, tl::load(x + offsets, mask) + by, mask);
}
"""
_numbers = itertools.count()


def fresh(stem: str) -> str:
    """A name that no other test has registered."""
    return f"{stem}_{next(_numbers)}"


def affine_kernel(**changes: Any) -> kiln.Kernel:
    options: dict[str, Any] = {
        "grid": lambda meta: kiln.cdiv(meta["n"], meta["BLOCK_SIZE"]),
        "tunables": {"BLOCK_SIZE": [128, 64, 256]},
    }
    return kiln.Kernel(TEXT, "affine", **(options | changes))


def affine(x: Any, scale: float, shift: float) -> Any:
    """x * scale + shift."""
    return (x.astype(np.float32) * np.float32(scale) + np.float32(shift)).astype(x.dtype)


def register_affine(name: str | None = None, **changes: Any) -> kiln.Op:
    options: dict[str, Any] = {
        "kernel": affine_kernel(),
        "inputs": ["x"],
        "outputs": ["out"],
        "attributes": {"scale": float, "shift": 0.0},
        "reference": affine,
        "dtypes": ["f32", "f16"],
        "examples": [([("f32", (1000,))], {"scale": 2.0}), ([("f16", (3, 5))], {"scale": 0.5, "shift": 1.0})],
    }
    return kiln.register_op(name or fresh("affine"), **(options | changes))


def test_is_dispatched_by_name_and_from_kiln_ops() -> None:
    op = register_affine(fresh("by_name"))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    right = 3 * x + 1
    np.testing.assert_array_equal(kiln.dispatch_gpu_op(op.name, x, scale=3.0, shift=1.0), right)
    np.testing.assert_array_equal(getattr(kiln.ops, op.name)(x, scale=3, shift=1), right)
    out = np.full_like(x, 77)
    assert op(x, scale=3.0, shift=1.0, out=out) is out
    np.testing.assert_array_equal(out, right)
    np.testing.assert_array_equal(op(x, scale=3.0, shift=1.0, config={"BLOCK_SIZE": 64}), right)
    assert op.name in dir(kiln.ops)
    assert op.spec.doc == "x * scale + shift."
    meta = kiln.infer_outputs(op.name, x, scale=1.0)[0]
    assert (meta.dtype, tuple(meta.shape)) == (kiln.DType.f32, (3, 4))


def test_calls_that_do_not_fit_are_refused_as_those_of_built_in_ops() -> None:
    op = register_affine()
    x = np.ones(3, np.float32)
    refused(ValueError, "'scale'", lambda: op(x))
    refused(NotImplementedError, "f64", lambda: op(np.ones(3), scale=1.0))
    refused(TypeError, "'scale'", lambda: op(x, scale="large"))
    refused(ValueError, "out", lambda: op(x, scale=1.0, out=np.zeros(4, np.float32)))
    refused(ValueError, "legal values are", lambda: op(x, scale=1.0, config={"BLOCK_SIZE": 96}))
    refused((TypeError, ValueError), "skale", lambda: op(x, skale=1.0))


def test_check_runs_the_examples() -> None:
    report = kiln.check(register_affine().name)
    assert report.ok and report and len(report) == 2 and not report.failures
    assert "all right" in repr(report)
    assert report[1].outputs[0].dtype == "f16" and report[1].outputs[0].num_elements == 15


def test_check_finds_a_wrong_result_and_raises_nothing() -> None:
    op = register_affine(reference=lambda x, scale, shift: x * scale + shift + (x == x.flat[7]))
    x = np.arange(100, dtype=np.float32)
    report = kiln.check(op, x, scale=2.0)
    assert not report.ok and not report
    (call,) = report.failures
    (output,) = call.outputs
    assert (output.num_wrong, output.worst_index, output.actual, output.expected) == (1, "[7]", "14", "15")
    assert "1 of 100 elements are wrong" in str(output)
    assert kiln.check(op, x, scale=2.0, tolerance=(0, 1)).ok


def test_check_sees_elements_that_were_never_written() -> None:
    op = register_affine(kernel=affine_kernel(grid=1))  # the first block alone
    report = kiln.check(op, np.zeros(1000, np.float32), scale=1.0)
    assert report[0].outputs[0].num_wrong == 1000 - 128


@pytest.mark.parametrize("name", ["add", "softmax", "matmul", "argmax", "concat", "kv_append", "where"])
def test_check_works_on_built_in_ops(name: str) -> None:
    report = kiln.check(name, random_examples=2)
    assert report.ok, report
    assert len(report) >= 1


def test_check_takes_the_callers_tensors() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert kiln.check("add", x, x.T.copy().T).ok
    assert kiln.check(kiln.ops.sum, x[:, ::2], dim=0).ok
    with pytest.raises(ValueError):
        kiln.check("add", x, np.zeros(5, np.float32))
    refused(NotImplementedError, "no reference", lambda: kiln.check(register_affine(reference=None)))
    refused(ValueError, "no examples", lambda: kiln.check(register_affine(examples=())))
    assert kiln.check("kv_append_layers").ok
    rows, table, slots = np.zeros((1, 2, 1, 4), np.float32), np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(NotImplementedError, match="hold addresses"):
        kiln.check("kv_append_layers", rows, rows, table, table, slots, num_blocks=1, page=2)
    assert kiln.check("concat", [x, x + 1], dim=1).ok
    assert kiln.check("concat", (x, x + 1, x)).ok
    refused(TypeError, "op is 3", lambda: kiln.check(3))  # type: ignore[arg-type]


def test_an_op_with_two_outputs_and_a_launch_of_its_own() -> None:
    def launch(call: Any, config: Any) -> kiln.Launch:
        x = call["x"]
        block = 1 << (x.shape[1] - 1).bit_length()
        assert call.target == "cpu" and call.outputs[0].name == "lowest" and call.attributes == {}
        return kiln.Launch(
            grid=x.shape[0],
            template={"BLOCK_SIZE": block},
            arguments=[x, call["lowest"], call.outputs[1], x.shape[1]],
            num_warps=1,
        )

    op = kiln.register_op(
        fresh("minmax"),
        kernel=kiln.Kernel(TEXT, "minmax"),
        inputs="x",
        outputs=["lowest", "highest"],
        infer=lambda inputs: [(inputs[0].dtype, inputs[0].shape[:1])] * 2,
        launch=launch,
        reference=lambda x: (x.min(axis=1), x.max(axis=1)),
        dtypes=["f32", "f64"],
        examples=[[("f32", (4, 100))], [("f64", (1, 7))]],
        cost=lambda call: (2 * call["x"].numel, call["x"].nbytes),
    )
    x = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    low, high = op(x)
    np.testing.assert_array_equal(low, x.min(axis=1))
    np.testing.assert_array_equal(high, x.max(axis=1))
    assert kiln.check(op).ok
    cost = op.spec.cost([x])
    assert (cost.flops, cost.bytes) == (330, 660)


def test_an_op_that_changes_its_input() -> None:
    def add_to(x: Any, by: float) -> None:
        x += np.float32(by)

    op = kiln.register_op(
        fresh("bump"),
        kernel=kiln.Kernel(
            TEXT, "bump", grid=lambda meta: kiln.cdiv(meta.x.numel, meta.BLOCK_SIZE), tunables={"BLOCK_SIZE": [128, 64]}
        ),
        inputs=[kiln.Input("x", "what grows", mutated=True)],
        attributes={"by": 1.0},
        reference=add_to,
        dtypes=["f32"],
        examples=[[("f32", (300,))]],
    )
    x = np.zeros(300, np.float32)
    assert op(x, by=2.0) is x
    np.testing.assert_array_equal(x, 2)
    assert kiln.check(op).ok
    assert kiln.check(op, x, by=5.0).ok
    np.testing.assert_array_equal(x, 2)  # checks work on copies


def test_is_tuned() -> None:
    op = register_affine(fresh("tuned"))
    x = np.arange(50_000, dtype=np.float32)
    table = kiln.autotune(op, x, scale=2.0, budget_s=10, progress=False)
    assert {row["config"]["BLOCK_SIZE"] for row in table} == {64, 128, 256}
    # A factor decides nothing about speed, so what was tuned serves other factors.
    assert kiln.resolve(op.name, x, scale=9.0).report.config_source == "tuned"
    np.testing.assert_array_equal(op(x, scale=9.0), 9 * x)


def test_tunables_of_the_op_replace_those_of_the_kernel() -> None:
    op = register_affine(tunables={"BLOCK_SIZE": [512, 1024]}, default_config={"BLOCK_SIZE": 1024}, constraints=())
    x = np.ones(10, np.float32)
    assert kiln.resolve(op.name, x, scale=1.0).report.config == {"BLOCK_SIZE": 1024}


def by_size(call: Any) -> dict[str, int]:
    """A default config that small calls and large ones differ in."""
    return {"BLOCK_SIZE": 64 if call["x"].numel < 1000 else 256}


@pytest.mark.parametrize(
    ("default_config", "small", "large"),
    [
        (by_size, 64, 256),
        ({"cpu": by_size}, 64, 256),
        ({"cpu": by_size, "cuda": {"BLOCK_SIZE": 64}}, 64, 256),
        ({"cpu": {"BLOCK_SIZE": 64}, "cuda": by_size}, 64, 64),
        ({"cuda": by_size}, 128, 128),
        (lambda call: {}, 128, 128),
        (lambda call: {"BLOCK_SIZE": 256 if call["scale"] > 1 and call.target == "cpu" else 64}, 256, 256),
        (lambda call: {"BLOCK_SIZE": 64 * len(call["out"].shape)}, 64, 64),
        (lambda call: {"BLOCK_SIZE": 64 if call.processors > 0 and not call.arch.startswith("sm_") else 256}, 64, 64),
    ],
)
def test_a_default_config_may_depend_on_the_call(default_config: Any, small: int, large: int) -> None:
    op = register_affine(default_config=default_config)
    for elements, block_size in ((10, small), (5000, large)):
        x = np.ones(elements, np.float32)
        report = kiln.resolve(op.name, x, scale=2.0).report
        assert (report.config, report.config_source) == ({"BLOCK_SIZE": block_size}, "default")
        np.testing.assert_array_equal(op(x, scale=2.0), 2 * x)
    assert kiln.resolve(op.name, np.ones(10, np.float32), scale=2.0, config={"BLOCK_SIZE": 128}).report.config == {
        "BLOCK_SIZE": 128
    }


@pytest.mark.parametrize(
    ("default_config", "exception", "words"),
    [
        (lambda call: {"BLOCK": 64}, ValueError, "the default for 'BLOCK' is of no tunable; did you mean 'BLOCK_SIZE'"),
        (
            lambda call: {"BLOCK_SIZE": 100},
            ValueError,
            "the defaults BLOCK_SIZE=100 are not among the tunables' values",
        ),
        (lambda call: {"BLOCK_SIZE": 256}, ValueError, "break a constraint .BLOCK_SIZE < 256"),
        (lambda call: 64, TypeError, "default_config gave 64; expected a dict such as"),
        (lambda call: {"BLOCK_SIZE": "64"}, TypeError, "tunable 'BLOCK_SIZE'"),
        (lambda call: {"BLOCK_SIZE": call["y"].numel}, KeyError, "'y' is nothing of this call; it has out, x, "),
    ],
)
def test_a_default_config_of_a_call_is_refused_with_the_call(
    default_config: Any, exception: type[Exception], words: str
) -> None:
    op = register_affine(default_config=default_config, constraints=["BLOCK_SIZE < 256"])
    refused(exception, words, lambda: op(np.ones(10, np.float32), scale=1.0))


def test_a_kernel_for_each_target() -> None:
    op = register_affine(kernel={"cuda": affine_kernel(doc="for GPUs"), "cpu": affine_kernel(doc="for CPUs")})
    assert [variant.name for variant in op.spec.variants] == ["cuda", "cpu"]
    x = np.ones(10, np.float32)
    assert kiln.resolve(op.name, x, scale=1.0).report.variant == "cpu"
    only_gpu = register_affine(kernel={"cuda": affine_kernel()})
    refused(NotImplementedError, "no kernel that serves", lambda: only_gpu(x, scale=1.0))


class Mine(Exception):
    """What callbacks of these tests raise."""


def fails(*_: Any, **__: Any) -> Any:
    """Raises."""
    raise Mine("from the callback")


@pytest.mark.parametrize("part", ["infer", "launch", "cost"])
def test_what_callbacks_raise_comes_out_with_their_traceback(part: str) -> None:
    op = register_affine(**{part: fails})
    with pytest.raises(Mine, match="from the callback") as caught:
        op(np.ones(3, np.float32), scale=1.0)
    assert any(entry.name == "fails" for entry in caught.traceback)


def test_what_a_reference_or_constraint_raises_comes_out() -> None:
    with pytest.raises(Mine):
        kiln.check(register_affine(reference=fails))
    with pytest.raises(Mine):
        register_affine(constraints=[fails])


def test_what_callbacks_raise_comes_out_of_compile_threads() -> None:
    calls = itertools.count()

    def launch(call: Any, config: Any) -> kiln.Launch:
        if config["BLOCK_SIZE"] == 64 and next(calls) >= 1:
            raise Mine("in a worker")
        return kiln.Launch(grid=kiln.cdiv(call["x"].numel, config["BLOCK_SIZE"]))

    op = register_affine(launch=launch)
    with pytest.raises(Mine, match="in a worker"):
        kiln.autotune(op, np.ones(1000, np.float32), scale=1.0, budget_s=5, progress=False)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"launch": lambda call, config: 3}, TypeError, "expected a kiln.Launch"),
        ({"launch": lambda call, config: kiln.Launch(1, arguments=[1, 2])}, ValueError, "2 arguments.*5 parameters"),
        ({"launch": lambda call, config: kiln.Launch(1, arguments={"y": 1})}, ValueError, "'y'"),
        ({"launch": lambda call, config: kiln.Launch(1, template={"N": 1})}, ValueError, "'N'"),
        ({"launch": lambda call, config: kiln.Launch("x")}, TypeError, "grid"),
        ({"infer": lambda inputs, scale, shift: []}, ValueError, "infer gave 0 outputs"),
        ({"infer": lambda inputs, scale, shift: [("f31", (3,))]}, ValueError, "f31"),
        ({"infer": lambda inputs, scale, shift: 5}, TypeError, "infer gave 5"),
        ({"infer": lambda inputs, scale, shift: [("f32", 5)]}, TypeError, "infer gave"),
        ({"cost": lambda call: 3}, TypeError, "expected .operations, bytes."),
    ],
)
def test_callbacks_that_give_nonsense_are_named(changes: Any, error: Any, message: str) -> None:
    op = register_affine(**changes)
    refused(error, message, lambda: op(np.ones(3, np.float32), scale=1.0))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"inputs": ["y"]}, ValueError, "'x'.*none of the op's"),
        ({"inputs": [3]}, TypeError, "expected its name"),
        ({"inputs": ["x", "x"]}, ValueError, "more than one tensor"),
        ({"inputs": ["x", "2y"]}, ValueError, "expected a Python name"),
        ({"inputs": ["x", "stream"]}, ValueError, "'stream' is a keyword"),
        ({"outputs": []}, ValueError, "makes nothing"),
        ({"outputs": ["out", "more"]}, ValueError, "needs infer"),
        ({"outputs": ["result"]}, ValueError, "'out'"),
        ({"attributes": {"scale": 1.0}}, ValueError, "'shift' .*neither an attribute nor a tunable"),
        ({"attributes": {"scale": complex, "shift": 0.0}}, TypeError, "complex"),
        ({"attributes": {"out": 1.0}}, ValueError, "'out'"),
        ({"attributes": {"x": 1.0, "scale": 1.0, "shift": 0.0}}, ValueError, "both an input and an attribute"),
        ({"infer": "like y"}, ValueError, "'like first input'"),
        ({"infer": 3}, TypeError, "infer is 3"),
        ({"launch": 3}, TypeError, "launch is 3"),
        ({"reference": 3}, TypeError, "reference is 3"),
        ({"cost": 3}, TypeError, "cost is 3"),
        ({"kernel": 3}, TypeError, "kernel is 3"),
        ({"kernel": {"tpu": None}}, ValueError, "'tpu'"),
        ({"dtypes": []}, ValueError, "dtypes"),
        ({"dtypes": ["f31"]}, ValueError, "f31"),
        ({"aliasing": "some"}, ValueError, "aliasing"),
        ({"examples": [3]}, TypeError, "an example is 3"),
        ({"examples": 5}, TypeError, "examples is 5"),
        ({"examples": [{"inputs": [("f32", (3,))], "ranges": [5]}]}, TypeError, "ranges is .5."),
        ({"input_ranges": [5]}, TypeError, "input_ranges is .5."),
        ({"input_ranges": 5}, TypeError, "input_ranges is 5"),
        ({"inputs": 5}, TypeError, "inputs is 5"),
        ({"outputs": 5}, TypeError, "outputs is 5"),
        ({"dtypes": 5}, TypeError, "dtypes is 5"),
        ({"constraints": 5}, TypeError, "constraints is 5"),
        ({"attributes": ["alpha"]}, TypeError, "attributes is ..alpha.."),
        ({"kernel": "grid"}, ValueError, "neither a grid nor"),
    ],
)
def test_bad_specs_are_refused_with_what_is_wrong(changes: Any, error: Any, message: str) -> None:
    name = fresh("refused")
    if changes.get("kernel") == "grid":
        changes = {"kernel": affine_kernel(grid=None)}
    refused(error, message, lambda: register_affine(name, **changes))
    refused(ValueError, "unknown op", lambda: kiln.op(name))


def test_a_name_is_taken_once_and_the_same_definition_again_is_the_op_there_is() -> None:
    name = fresh("twice")
    op = register_affine(name)
    assert register_affine(name) is op
    refused(ValueError, "already registered", lambda: register_affine(name, doc="another"))
    refused(ValueError, "already registered", lambda: register_affine("add"))
    refused(ValueError, "two words", lambda: register_affine("two words"))


def test_the_target_of_a_kernel_is_part_of_a_definition() -> None:
    name = fresh("one_target")
    kernel = affine_kernel()
    op = register_affine(name, kernel={"cpu": kernel})
    assert register_affine(name, kernel={"cpu": kernel}) is op
    for other in ({"cuda": kernel}, {"cpu": kernel, "cuda": kernel}, kernel):
        with pytest.raises(ValueError, match="already registered"):
            register_affine(name, kernel=other)


LIMIT = 1


def test_what_an_inner_function_reads_is_part_of_a_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(x: Any, scale: float, shift: float) -> Any:
        return x * scale + shift + sum(0 * LIMIT for _ in range(3))

    name = fresh("inner")
    op = register_affine(name, reference=limited)
    assert register_affine(name, reference=limited) is op
    monkeypatch.setitem(globals(), "LIMIT", 2)
    refused(ValueError, "already registered", lambda: register_affine(name, reference=limited))


def test_runs_on_a_gpu(gpu: str) -> None:
    import torch

    op = register_affine(fresh("on_gpu"))
    x = torch.arange(1000, dtype=torch.float32, device=gpu)
    assert torch.equal(op(x, scale=2.0, shift=1.0), 2 * x + 1)
    assert kiln.check(op, device=gpu).ok
    assert kiln.check(op, x, scale=2.0).ok
