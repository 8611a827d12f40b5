"""Kiln's ops as torch custom ops: schemas, fake kernels, torch.compile without a graph break."""

from __future__ import annotations

import inspect
from typing import Any

import kiln
import numpy
import pytest

torch = pytest.importorskip("torch")

import kiln.torch  # noqa: E402
from array_memory import kiln_name, numpy_dtype  # noqa: E402
from kiln.torch_library import TORCH_DTYPES, identifier  # noqa: E402
from op_case import elements_of, op_names  # noqa: E402
from peer_result import torch_tensor  # noqa: E402
from refusal import refused  # noqa: E402

BACKENDS = ["eager", "aot_eager", "inductor"]
FP8 = {torch.float8_e4m3fn, torch.float8_e5m2}
ADDRESSED: list[Any] = []  # what lies at addresses stays as long as the tests
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def overload(name: str) -> Any:
    return getattr(torch.ops.kiln, identifier(name)).default


def small_call(name: str, device: str, seed: int = 7) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of the op's smallest example, as its schema has them."""
    spec = kiln.op(name).spec
    example = min(spec.examples(), key=lambda e: elements_of(e.inputs) or 1 << 40)
    arrays = [None if meta.absent else numpy.empty(meta.shape, numpy_dtype(meta.dtype)) for meta in example.inputs]
    ADDRESSED.extend(spec.fill_inputs(arrays, example.attributes, seed=seed, ranges=example.ranges, device=device))
    tensors: list[Any] = [array if array is None else torch_tensor(array, device) for array in arrays]
    if spec.inputs and spec.inputs[-1].repeated:
        fixed = len(spec.inputs) - 1
        tensors = [*tensors[:fixed], tensors[fixed:]]
    attributes = {
        identifier(key): TORCH_DTYPES[kiln_name(value)] if isinstance(value, kiln.DType) else value
        for key, value in example.attributes.items()
    }
    if not spec.inputs:
        attributes["device"] = device
    return tensors, attributes


@pytest.mark.parametrize("name", op_names())
def test_fake_results_are_as_the_real_ones(name: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    tensors, attributes = small_call(name, "cpu")
    with FakeTensorMode() as mode:
        fakes = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, tensors)
        fake = overload(name)(*fakes, **attributes)
    real = overload(name)(*tensors, **attributes)
    for made, expected in zip(as_list(fake), as_list(real), strict=True):
        assert (made.shape, made.dtype, made.stride()) == (expected.shape, expected.dtype, expected.stride())
        assert made.device == expected.device


def as_list(results: Any) -> list[Any]:
    return [] if results is None else [results] if isinstance(results, torch.Tensor) else list(results)


@pytest.mark.parametrize("name", op_names())
def test_the_schema_says_what_the_spec_does(name: str) -> None:
    spec, schema = kiln.op(name).spec, overload(name)._schema
    arguments = {argument.name: argument for argument in schema.arguments}
    for tensor in spec.inputs:
        argument = arguments[identifier(tensor.name)]
        assert not argument.kwarg_only
        assert bool(argument.alias_info and argument.alias_info.is_write) == tensor.mutated
        assert ("Optional" in str(argument.type)) == tensor.optional
        assert ("List" in str(argument.type)) == tensor.repeated
    for attribute in spec.attributes:
        argument = arguments[identifier(attribute.name)]
        assert argument.kwarg_only and argument.has_default_value() != attribute.required
    assert inspect.signature(getattr(kiln.torch, identifier(name)))


def sampled_ops() -> list[str]:
    """Of each shape that a schema takes the first op, and every tenth."""
    shapes = {}
    names = [name for name in op_names() if name != "kv_append_layers"]  # opcheck copies tensors of addresses
    for name in names:
        spec = kiln.op(name).spec
        key = (
            tuple((t.optional, t.repeated, t.mutated) for t in spec.inputs),
            len(spec.outputs),
            tuple(sorted({type(a.default).__name__ for a in spec.attributes})),
        )
        shapes.setdefault(key, name)
    return sorted({*shapes.values(), *names[::10]})


@pytest.mark.parametrize("name", sampled_ops())
def test_opcheck(name: str) -> None:
    tensors, attributes = small_call(name, "cpu")
    dtypes = {tensor.dtype for tensor in torch.utils._pytree.tree_leaves(tensors) if tensor is not None}
    checks = ["test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if not dtypes & FP8:
        checks.append("test_schema")  # takes mean values of inputs, which torch's CPU cannot of these dtypes
    torch.library.opcheck(overload(name), tuple(tensors), attributes, test_utils=checks)


def three_ops(x: Any, weight: Any, bias: Any) -> Any:
    hidden = kiln.torch.linear_relu(x, weight, bias)
    return kiln.torch.softmax(kiln.torch.add(hidden, hidden, alpha=0.5), dim=-1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_three_ops_in_one_graph(backend: str, device: str) -> None:
    torch._dynamo.reset()
    x, weight, bias = (torch.randn(*shape, device=device) for shape in ((16, 64), (32, 64), (32,)))
    explained = torch._dynamo.explain(three_ops)(x, weight, bias)
    assert explained.graph_break_count == 0 and explained.graph_count == 1
    compiled = torch.compile(three_ops, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x, weight, bias), three_ops(x, weight, bias), rtol=0, atol=0)
    # Other shapes, between ops of torch's own.
    mixed = torch.compile(lambda x, w, b: three_ops(x.sin(), w, b).cos(), fullgraph=True, backend=backend)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 64, device=device)
        torch.testing.assert_close(mixed(x, weight, bias), three_ops(x.sin(), weight, bias).cos())


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_inputs_in_a_graph(backend: str) -> None:
    torch._dynamo.reset()

    def step(cache: Any, source: Any, pairs: Any) -> Any:
        changed = kiln.torch.sparse_kv_gather(cache, source, pairs)
        return kiln.torch.sum(changed, dim=1) + 1

    source = torch.randn(9, 4)
    pairs = torch.tensor([[[7, 0], [5, 3]]])
    cache, expected_cache = torch.zeros(5, 4), torch.zeros(5, 4)
    expected = step(expected_cache, source, pairs)
    got = torch.compile(step, fullgraph=True, backend=backend)(cache, source, pairs)
    assert torch.equal(cache, expected_cache) and torch.equal(got, expected)
    assert torch.equal(cache[[0, 3]], source[[7, 5]])


def test_results_of_several_kinds() -> None:
    x = torch.randn(4, 6)
    values, indices = kiln.torch.max(x, dim=1)
    assert torch.equal(values, x.max(dim=1).values) and torch.equal(indices, x.max(dim=1).indices)
    assert torch.equal(kiln.torch.max(x), x.max())
    for tensors in ((x, x), ([x, x],), ((x, x),)):
        assert torch.equal(kiln.torch.concat(*tensors, dim=1), torch.cat([x, x], dim=1))
    assert torch.equal(kiln.torch.concat(tensors=[x, x], dim=1), torch.cat([x, x], dim=1))
    assert kiln.torch.uniform(size=[3, 2], seed=1).shape == (3, 2)
    assert kiln.torch.uniform(size=[3], seed=1, dtype=torch.float64, device="cpu").dtype == torch.float64
    assert torch.equal(kiln.torch.add(x, other=2), x + 2)
    assert torch.equal(kiln.torch.sum(x, dim=1), kiln.torch.sum(x, dim=[1]))


def test_a_module_of_kiln_ops() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8, 16))

        def forward(self, x: Any) -> Any:
            return kiln.torch.relu(kiln.torch.linear(x, self.weight))

    layer, x = Layer(), torch.randn(4, 16)
    with torch.no_grad():
        expected = torch.relu(x @ layer.weight.T)
        torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), expected)
    refused(kiln.UsageError, r"detach\(\)", lambda: layer(x))
    refused(Exception, r"detach\(\)", lambda: torch.compile(layer, fullgraph=True, backend="aot_eager")(x))


def test_derivatives_are_refused_rather_than_zero() -> None:
    from torch.autograd import forward_ad

    x = torch.randn(4, 6)
    for what in (
        lambda: torch.func.grad(lambda a: kiln.torch.exp(a).sum())(x),
        lambda: torch.func.jvp(kiln.torch.exp, (x,), (torch.ones_like(x),)),
        lambda: torch.func.grad(lambda a: kiln.torch.concat([x, a]).sum())(x),
        lambda: torch.func.grad(lambda a: kiln.torch.where(x > 0, x, a).sum())(x),
        lambda: kiln.torch.add(x, x.clone().requires_grad_()),
    ):
        with pytest.raises(TypeError, match=r"no derivatives.*detach\(\)") as caught:
            what()
        assert isinstance(caught.value, kiln.UsageError)
    with forward_ad.dual_level():
        refused(kiln.UsageError, "tangent", lambda: kiln.torch.exp(forward_ad.make_dual(x, torch.ones_like(x))))
        assert torch.equal(kiln.torch.relu(x), x.relu())
    # Through what else the function computes there are derivatives.
    gradient = torch.func.grad(lambda a: (a * kiln.torch.relu(a.detach())).sum())(x)
    assert torch.equal(gradient, x.relu())
    with torch.no_grad():
        assert torch.equal(kiln.torch.relu(x.clone().requires_grad_()), x.relu())
    assert torch.equal(torch.func.vmap(kiln.torch.relu)(x), x.relu())


def test_changes_are_counted_for_autograd() -> None:
    target, source, pairs = torch.zeros(4, 8), torch.ones(4, 8), torch.tensor([[0, 1]])
    weight = torch.ones(4, 8, requires_grad=True)
    product = weight * target
    kiln.torch.swap_blocks(target, source, pairs)
    assert target[1].eq(1).all()
    refused(RuntimeError, "modified by an inplace operation", lambda: product.sum().backward())
    with torch.inference_mode():
        uncounted = torch.zeros(4, 8)
        kiln.torch.swap_blocks(uncounted, source, pairs)
        assert uncounted[1].eq(1).all()


def test_bad_calls_say_what_is_wrong() -> None:
    x = torch.randn(4, 6)
    refused(kiln.UsageError, "do not broadcast", lambda: kiln.torch.add(x, x[:3]))
    with pytest.raises(Exception, match="do not broadcast"):
        torch.compile(lambda a, b: kiln.torch.add(a, b), fullgraph=True, backend="eager")(x, x[:3])
    refused(AttributeError, "add", lambda: getattr(kiln.torch, "ad"))  # noqa: B009


def test_registering_again_gives_the_same() -> None:
    assert kiln.torch.register("add") is kiln.torch.add
    refused(kiln.UsageError, "softmax", lambda: kiln.torch.register("softmaxx"))
    assert "add" in dir(kiln.torch) and kiln.torch.add.__doc__


TINY = """
#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <int BLOCK_SIZE>
KILN_KERNEL void twice(const float* x, float* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  tl::store(out + offsets, 2 * tl::load(x + offsets, offsets < n), offsets < n);
}
"""


def register_twice(name: str, **changes: Any) -> None:
    kernel = kiln.Kernel(TINY, grid=lambda meta: kiln.cdiv(meta.n, meta.BLOCK_SIZE), tunables={"BLOCK_SIZE": [64]})
    kiln.register_op(name, kernel=kernel, inputs=["x"], outputs=["out"], dtypes=["f32"], **changes)


def test_two_names_of_one_spelling_are_told_apart() -> None:
    register_twice("torch_test.twice")
    register_twice("torch_test_twice")
    x = torch.randn(5)
    assert torch.equal(kiln.torch.register("torch_test.twice")(x), 2 * x)
    refused(kiln.UsageError, r"'torch_test\.twice' is already", lambda: kiln.torch.register("torch_test_twice"))


@pytest.mark.parametrize("default", ["two\nlines", "tab\t", 'quoted "', "back\\slash", "Grüße", ""])
def test_any_text_may_be_a_default(default: str) -> None:
    name = f"torch_test_text_{abs(hash(default))}"
    register_twice(name, attributes={"text": default}, infer=lambda inputs, text: [(inputs[0].dtype, (len(text),))])
    size = len(default)
    assert getattr(kiln.torch, name)(torch.ones(30)).shape == (size,)
    assert getattr(kiln.torch, name)(torch.ones(30), text="abc").shape == (3,)


def test_a_users_op(random: numpy.random.Generator) -> None:
    source = """
#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void square_sum(const T* x, const T* y, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  auto a = tl::load(x + offsets, mask);
  auto b = tl::load(y + offsets, mask);
  tl::store(out + offsets, a * a + b * b, mask);
}
"""
    kernel = kiln.Kernel(
        source,
        "square_sum",
        grid=lambda meta: -(-meta["n"] // meta["BLOCK_SIZE"]),
        tunables={"BLOCK_SIZE": [256, 1024]},
    )
    kiln.register_op(
        "torch_test_square_sum",
        kernel=kernel,
        inputs=["x", "y"],
        outputs=["out"],
        infer=lambda inputs: [(inputs[0].dtype, inputs[0].shape)],
        reference=lambda x, y: x * x + y * y,
    )
    x = torch.randn(1000)
    compiled = torch.compile(lambda a: kiln.torch.torch_test_square_sum(a, a) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), 2 * x * x + 1)
