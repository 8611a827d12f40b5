"""What Kiln refuses: the right Python exception, a message that says what to do, and an interpreter that goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import kiln
import numpy
import pytest
from conftest import gpu_problem
from op_case import op_names

X = numpy.ones((4, 3), numpy.float32)
Y = numpy.ones((4, 3), numpy.float32)


@pytest.fixture(autouse=True)
def _still_working() -> Iterator[None]:
    yield
    numpy.testing.assert_array_equal(kiln.ops.add(X, Y), X + Y)


def frozen(array: numpy.ndarray) -> numpy.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def odd_address() -> numpy.ndarray:
    return numpy.zeros(17, numpy.uint8)[1:].view(numpy.float32)


class Refusal:
    """A call, the exception it must end in, and words of its message."""

    def __init__(self, name: str, exception: type[Exception], words: str, call: Callable[[], Any]) -> None:
        self.name, self.exception, self.words, self.call = name, exception, words.split("|"), call


REFUSALS = [
    # Not arrays.
    Refusal("list", TypeError, "'x'|list|numpy.asarray", lambda: kiln.ops.add([1.0, 2.0], Y)),
    Refusal("second_list", TypeError, "'y'|list|numpy.asarray", lambda: kiln.ops.add(X, [1.0, 2.0])),
    Refusal("tuple", TypeError, "'x'|tuple", lambda: kiln.ops.exp((1.0, 2.0))),
    Refusal("number", TypeError, "'y'|other=", lambda: kiln.ops.add(X, 2.0)),
    Refusal("number_without_attribute", TypeError, "'x'|float", lambda: kiln.ops.exp(2.0)),
    Refusal("text", TypeError, "'x'|str", lambda: kiln.ops.exp("x.npy")),
    Refusal("none", (TypeError, ValueError), "exp|x", lambda: kiln.ops.exp(None)),
    Refusal("bytes", TypeError, "'x'", lambda: kiln.ops.exp(b"12345678")),
    Refusal("object_array", TypeError, "'x'|object", lambda: kiln.ops.exp(numpy.array([1, None], object))),
    Refusal("complex", TypeError, "'x'|complex", lambda: kiln.ops.exp(numpy.ones(3, complex))),
    Refusal("strings", TypeError, "'x'", lambda: kiln.ops.exp(numpy.array(["a", "b"]))),
    Refusal("dates", TypeError, "'x'", lambda: kiln.ops.exp(numpy.array(["2026-11-22"], "datetime64[D]"))),
    Refusal("records", TypeError, "'x'", lambda: kiln.ops.exp(numpy.zeros(3, [("a", "f4"), ("b", "f4")]))),
    Refusal("byte_swapped", TypeError, "'x'|byte", lambda: kiln.ops.exp(numpy.ones(3, ">f4"))),
    Refusal("odd_strides", (TypeError, ValueError), "'x'|stride",
            lambda: kiln.ops.exp(numpy.zeros(3, [("a", "f4"), ("b", "u1")])["a"])),
    Refusal("odd_address", ValueError, "'x'", lambda: kiln.ops.exp(odd_address())),
    Refusal("many_dimensions", ValueError, "12", lambda: kiln.ops.exp(numpy.ones((1,) * 20, numpy.float32))),
    # Tensors that do not go together.
    Refusal("shapes", ValueError, "(4, 3)|(4, 2)", lambda: kiln.ops.add(X, numpy.ones((4, 2), numpy.float32))),
    Refusal("product_shapes", ValueError, "(4, 3)", lambda: kiln.ops.matmul(X, X)),
    Refusal("dtypes", TypeError, "f32|f64", lambda: kiln.ops.matmul(X, numpy.ones((3, 2)))),
    Refusal("no_kernel", NotImplementedError, "bitwise_and|f32", lambda: kiln.ops.bitwise_and(X, Y)),
    Refusal("too_many", (TypeError, ValueError), "exp|1", lambda: kiln.ops.exp(X, Y)),
    Refusal("too_few", (TypeError, ValueError), "where|condition|3", lambda: kiln.ops.where(X > 0)),
    Refusal("twice", (TypeError, ValueError), "x", lambda: kiln.ops.exp(X, x=X)),
    # Names.
    Refusal("unknown_op", kiln.UnknownOpError, "softmaxx|softmax", lambda: kiln.dispatch_gpu_op("softmaxx", X)),
    Refusal("unknown_op_object", kiln.UnknownOpError, "lin_relu|linear_relu", lambda: kiln.op("lin_relu")),
    Refusal("unknown_op_attribute", AttributeError, "ad|add", lambda: kiln.ops.ad),
    Refusal("unknown_op_resolved", kiln.UnknownOpError, "adds|add", lambda: kiln.resolve("adds", X, Y)),
    Refusal("unknown_op_inferred", kiln.UnknownOpError, "adds|add", lambda: kiln.infer_outputs("adds", X, Y)),
    Refusal("name_of_another_type", TypeError, "name", lambda: kiln.dispatch_gpu_op(7, X)),
    Refusal("unknown_attribute", (TypeError, ValueError), "alhpa|alpha", lambda: kiln.ops.add(X, Y, alhpa=2.0)),
    Refusal("missing_attribute", (TypeError, ValueError), "cast|dtype", lambda: kiln.ops.cast(X)),
    Refusal("attribute_type", TypeError, "alpha|string", lambda: kiln.ops.add(X, Y, alpha="two")),
    Refusal("attribute_object", TypeError, "alpha", lambda: kiln.ops.add(X, Y, alpha=object())),
    Refusal("attribute_value", ValueError, "approximate|tanh", lambda: kiln.ops.gelu(X, approximate="tan")),
    Refusal("attribute_overflow", (TypeError, ValueError), "dim", lambda: kiln.ops.sum(X, dim=2**70)),
    Refusal("unknown_dtype", ValueError, "f33", lambda: kiln.ops.cast(X, dtype="f33")),
    Refusal("dimension", ValueError, "dim|5", lambda: kiln.ops.softmax(X, dim=5)),
    # Objects that only look like what they are taken for.
    Refusal("object_array_without_inputs", TypeError, "object",
            lambda: kiln.ops.uniform(numpy.array([object()]), size=[4], seed=1)),
    Refusal("bare_tensor", TypeError, "Tensor", lambda: kiln.ops.exp(kiln.Tensor.__new__(kiln.Tensor))),
    Refusal("tensor_subclass", TypeError, "Tensor", lambda: type("Mine", (kiln.Tensor,), {})),
    Refusal("bare_meta", TypeError, "TensorMeta", lambda: kiln.TensorMeta.__new__(kiln.TensorMeta)),
    Refusal("bare_spec", TypeError, "OpSpec", lambda: kiln.OpSpec.__new__(kiln.OpSpec).name),
    Refusal("dtype_lookalike", TypeError, "dtype", lambda: kiln.DType(SimpleNamespace(newbyteorder=1, itemsize=4))),
    Refusal("interface_without_typestr", TypeError, "typestr",
            lambda: kiln.ops.exp(SimpleNamespace(__cuda_array_interface__={}))),
    # Numbers and text beyond what C++ has.
    Refusal("huge_stream", ValueError, "stream", lambda: kiln.ops.exp(X, stream=2**70)),
    Refusal("huge_shape", ValueError, "64 bits", lambda: kiln.empty((2**70,))),
    Refusal("huge_config", ValueError, "BLOCK_SIZE|64 bits", lambda: kiln.ops.exp(X, config={"BLOCK_SIZE": 2**70})),
    Refusal("surrogate_op", TypeError, "str|Unicode", lambda: kiln.dispatch_gpu_op("\ud800", X)),
    Refusal("surrogate_attribute", TypeError, "str|Unicode", lambda: kiln.ops.gelu(X, approximate="\ud800")),
    Refusal("surrogate_name", TypeError, "str|Unicode", lambda: kiln.ops.exp(X, **{"\ud800": 1})),
    # Outputs.
    Refusal("output_empty", ValueError, "out|empty", lambda: kiln.ops.exp(X, out=())),
    Refusal("output_shape", ValueError, "out|(4, 3)", lambda: kiln.ops.add(X, Y, out=numpy.empty(3, numpy.float32))),
    Refusal("output_dtype", TypeError, "out|f32|f64", lambda: kiln.ops.add(X, Y, out=numpy.empty((4, 3)))),
    Refusal("output_list", TypeError, "out|array", lambda: kiln.ops.add(X, Y, out=[0.0])),
    Refusal("output_frozen", (TypeError, ValueError), "out|read-only", lambda: kiln.ops.add(X, Y, out=frozen(X))),
    Refusal("output_count", (TypeError, ValueError), "2",
            lambda: kiln.ops.max(X, dim=0, out=numpy.empty(3, numpy.float32))),
    Refusal("output_overlaps", ValueError, "overlap", lambda: kiln.ops.exp(X.ravel()[:-1], out=X.ravel()[1:])),
    Refusal("output_repeats", ValueError, "out",
            lambda: kiln.ops.exp(X, out=numpy.lib.stride_tricks.as_strided(X.copy(), (4, 3), (0, 4)))),
    Refusal("changed_input_frozen", (TypeError, ValueError), "dst|read-only",
            lambda: kiln.ops.swap_blocks(frozen(X), Y, numpy.zeros((1, 2), numpy.int64))),
    # Options.
    Refusal("stream_on_cpu", (TypeError, ValueError), "stream", lambda: kiln.ops.add(X, Y, stream=1234)),
    Refusal("stream_object", TypeError, "stream", lambda: kiln.ops.add(X, Y, stream="default")),
    Refusal("config_type", TypeError, "config", lambda: kiln.ops.add(X, Y, config=3)),
    Refusal("config_name", ValueError, "BLOCKS", lambda: kiln.ops.add(X, Y, config={"BLOCKS": 3})),
    Refusal("config_value", ValueError, "BLOCK_SIZE|37", lambda: kiln.ops.add(X, Y, config={"BLOCK_SIZE": 37})),
    Refusal("config_text", ValueError, "BLOCK_SIZE", lambda: kiln.ops.add(X, Y, config="BLOCK_SIZE")),
    Refusal("tuning", (TypeError, ValueError), "tuning|nearest", lambda: kiln.ops.add(X, Y, tuning="sometimes")),
    Refusal("resolved_shape", ValueError, "'x'|(4, 3)", lambda: kiln.resolve("add", X, Y)(X[:2], Y[:2])),
    Refusal("policy_type", TypeError, "policy=3|str", lambda: kiln.set_tuning_policy(3)),
    Refusal("policy_block", TypeError, "policy=3|str", lambda: kiln.tuning(3).__enter__()),
    # Lists.
    Refusal("calls_to_warm", TypeError, "calls is a int|(op, tensors)", lambda: kiln.warm_up(3)),
    Refusal("threads_to_warm", TypeError, "num_threads|integer|str", lambda: kiln.warm_up([], num_threads="x")),
    Refusal("op_to_warm", kiln.UnknownOpError, "call 0|nosuch", lambda: kiln.warm_up([("nosuch", [X])])),
    Refusal("branches", TypeError, "branches is a int|functions", lambda: kiln.fork_join(None, 3)),
    Refusal("empty_shape", (TypeError, ValueError), "shape", lambda: kiln.empty((-1, 3), "f32", "cpu")),
    Refusal("empty_device", ValueError, "tpu", lambda: kiln.empty((3,), "f32", "tpu")),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal.name for refusal in REFUSALS])
def test_refused(refusal: Refusal) -> None:
    with pytest.raises(refusal.exception) as caught:
        refusal.call()
    missing = [word for word in refusal.words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"
    if caught.type is not AttributeError and caught.type is not TypeError:
        assert isinstance(caught.value, kiln.Error)


def test_errors_are_of_one_family() -> None:
    with pytest.raises(kiln.UsageValueError):
        kiln.ops.add(X, numpy.ones((4, 2), numpy.float32))
    with pytest.raises(kiln.UsageTypeError):
        kiln.ops.matmul(X, numpy.ones((3, 2)))
    with pytest.raises(kiln.UsageNotImplementedError):
        kiln.ops.bitwise_and(X, Y)
    with pytest.raises(kiln.UnknownOpError, match=r"'sigmod'; did you mean 'sigmoid'") as unknown:
        kiln.op("sigmod")
    assert unknown.value.op == "sigmod"
    for error in (kiln.UsageValueError, kiln.UsageNotImplementedError):
        assert issubclass(kiln.UnknownOpError, error)
    for error in (kiln.UsageValueError, kiln.UsageTypeError, kiln.UsageNotImplementedError, kiln.UnknownOpError):
        assert issubclass(error, kiln.UsageError) and issubclass(error, kiln.Error)
    for error in (kiln.CompileError, kiln.DeviceError, kiln.FileError, kiln.InternalError):
        assert issubclass(error, kiln.Error) and issubclass(error, RuntimeError)
    assert not issubclass(kiln.UsageError, RuntimeError)


def test_a_syntax_error_shows_the_line_of_the_users_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    lines = [
        "#include <kiln/tl.hpp>",
        "namespace tl = kiln::tl;",
        "template <typename T, int BLOCK_SIZE>",
        "KILN_KERNEL void doubled(const T* x, T* out, tl::int64_t n) {",
        "  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();",
        "  auto value = tl::load(x + offsets, offsets < n)",
        "  tl::store(out + offsets, value + value, offsets < n);",
        "}",
    ]
    path = tmp_path / "doubled_kernel.hpp"
    path.write_text("\n".join(lines) + "\n")
    kernel = kiln.Kernel(str(path), "doubled", grid=1)
    with pytest.raises(kiln.CompileError) as caught:
        kernel(X, numpy.empty_like(X), X.size, BLOCK_SIZE=64)
    text = str(caught.value)
    assert "doubled_kernel.hpp:6" in text, text
    assert "expected ';'" in text, text


class Trap:
    """An object whose array protocols fail."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack__(self, **_: Any) -> Any:
        raise self.error

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize(
    "error", [RuntimeError("gone"), BufferError("cannot export"), KeyError("x"), KeyboardInterrupt()]
)
def test_errors_of_the_arrays_library_come_out(error: BaseException) -> None:
    with pytest.raises((type(error), kiln.UsageError)):
        kiln.ops.exp(Trap(error))  # type: ignore[arg-type]


class NonsenseCapsule:
    def __dlpack__(self, **_: Any) -> Any:
        return "no capsule"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class NonsenseInterface:
    __cuda_array_interface__ = {"shape": "3", "typestr": 4, "data": None, "version": 3}


class FakePointer:
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}


@pytest.mark.parametrize("kind", [NonsenseCapsule, NonsenseInterface, FakePointer])
def test_nonsense_from_array_protocols(kind: type) -> None:
    with pytest.raises((kiln.Error, TypeError, ValueError)):
        kiln.ops.exp(kind())


def junk(random: numpy.random.Generator) -> Any:
    choices = [
        lambda: None, lambda: 3, lambda: 2.5, lambda: "text", lambda: [1, 2], lambda: object(), lambda: {}, lambda: X,
        lambda: X[:0], lambda: X.T, lambda: X.astype(numpy.int8), lambda: numpy.float32(3), lambda: numpy.array(2.0),
        lambda: X.astype(bool), lambda: frozen(X), lambda: X[::-1], lambda: kiln.DType.f32, lambda: kiln.ops.add,
        lambda: numpy.zeros((2, 0, 3), numpy.int64), lambda: numpy.broadcast_to(X[0], (4, 3)), lambda: type, lambda: -1,
        lambda: 2**63, lambda: float("nan"), lambda: True, lambda: [], lambda: ["a"], lambda: (2, None), lambda: 1j,
        lambda: numpy.array([5, 2**40, -3]), lambda: kiln.empty((2, 2), "f32", "cpu"),
    ]  # fmt: skip
    return choices[random.integers(len(choices))]()


@pytest.mark.parametrize("name", op_names())
def test_junk_is_refused_or_served(name: str, random: numpy.random.Generator) -> None:
    op = kiln.op(name)
    for _ in range(40):
        tensors = [junk(random) for _ in range(random.integers(0, len(op.spec.inputs) + 2))]
        options = {
            key: junk(random)
            for key in [*(attribute.name for attribute in op.spec.attributes), "out", "config", "nonsense"]
            if random.integers(6) == 0
        }
        if name == "kv_append_layers":
            break  # takes addresses on trust
        try:
            op(*tensors, **options)
        except (kiln.UsageError, TypeError, OverflowError):
            pass


def test_freed_torch_storage() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.ones(100)
    tensor.untyped_storage().resize_(0)
    with pytest.raises((kiln.UsageError, RuntimeError)):
        kiln.ops.exp(tensor)


def test_deleted_jax_array() -> None:
    jax = pytest.importorskip("jax")
    array = jax.numpy.ones(10)
    array.delete()
    with pytest.raises((kiln.UsageError, RuntimeError, ValueError), match="(?i)delete"):
        kiln.ops.exp(array)


def test_a_deleted_name() -> None:
    x = X.copy()
    del x
    with pytest.raises(NameError):
        kiln.ops.exp(x)  # noqa: F821


@pytest.mark.parametrize(
    "kind",
    [
        "sparse",
        "complex",
        "quantized",
        "meta",
        "requires_grad",
        "conjugate",
        "negative",
        "negative_odd_stride",
        "negative_integers",
    ],
)
def test_torch_tensors_without_plain_memory(kind: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = {
        "sparse": lambda: torch.ones(3, 3).to_sparse(),
        "complex": lambda: torch.ones(3, dtype=torch.complex64),
        "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "meta": lambda: torch.empty(3, device="meta"),
        "requires_grad": lambda: torch.ones(3, requires_grad=True),
        "conjugate": lambda: torch.ones(3, dtype=torch.complex64).conj(),
        "negative": lambda: torch.ones(3, dtype=torch.complex64).conj().imag,
        "negative_odd_stride": lambda: torch._neg_view(torch.ones(3)),
        "negative_integers": lambda: torch._neg_view(torch.arange(3)),
    }[kind]()
    with pytest.raises((kiln.UsageError, RuntimeError, TypeError, BufferError)) as caught:
        kiln.ops.exp(tensor)
    if kind == "requires_grad":
        assert "detach()" in str(caught.value)


@pytest.mark.skipif(bool(gpu_problem()), reason=gpu_problem())
def test_a_cpu_and_a_gpu_tensor() -> None:
    import torch

    cpu, gpu = torch.ones(4, 3), torch.ones(4, 3, device="cuda")
    for tensors in ((cpu, gpu), (gpu, cpu), (X, gpu)):
        with pytest.raises(TypeError) as caught:
            kiln.ops.add(*tensors)
        assert "cuda" in str(caught.value) and "cpu" in str(caught.value)
    with pytest.raises(TypeError):
        kiln.ops.add(gpu, gpu, out=cpu)
