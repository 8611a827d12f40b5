"""kiln.Op objects as people and tools see them: names, signatures, docstrings, lookup, pickling."""

from __future__ import annotations

import inspect
import pickle
import pydoc

import kiln
import numpy
import pytest
from refusal import refused


def op_names() -> list[str]:
    return dir(kiln.ops)


def test_ops_are_listed() -> None:
    names = op_names()
    assert names == sorted(names) and {"add", "matmul", "softmax", "kv_append"} <= set(names)
    assert kiln.ops.add is kiln.op("add") and kiln.ops.add.name == kiln.ops.add.__name__ == "add"


@pytest.mark.parametrize("name", op_names())
def test_signature_and_docstring(name: str) -> None:
    op = kiln.op(name)
    signature = inspect.signature(op)
    spec = op.spec
    for item in spec.inputs:
        parameter = signature.parameters[item.name]
        if item.repeated:
            assert parameter.kind is inspect.Parameter.VAR_POSITIONAL
        elif item.optional:
            assert parameter.default is None
    for attribute in spec.attributes:
        parameter = signature.parameters[attribute.name]
        if attribute.name not in {item.name for item in spec.inputs}:
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
            assert parameter.default == (inspect.Parameter.empty if attribute.required else attribute.default)
    assert list(signature.parameters)[-1] == ("overlap_previous" if spec.inputs else "device")
    doc = op.__doc__
    assert doc.startswith(f"{name}(") and max(len(line) for line in doc.splitlines()) <= 120
    for word in [item.name for item in spec.inputs] + [attribute.name for attribute in spec.attributes]:
        assert word in doc
    assert all(variant.name in doc for variant in spec.variants)


def test_help_shows_the_op() -> None:
    text = pydoc.render_doc(kiln.ops.softmax, renderer=pydoc.plaintext)
    assert "softmax(x, *, dim=-1, dtype=None) -> " in text and "Parameters" in text and "Variants and tunables" in text


def test_the_class_is_documented() -> None:
    assert "registered op" in (kiln.Op.__doc__ or "") and kiln.Op.__module__ == "kiln"
    for name in kiln.__all__:
        value = getattr(kiln, name)
        if callable(value):
            assert inspect.getdoc(value), name


def test_keywords_name_inputs() -> None:
    x, weight = numpy.ones((2, 3), numpy.float32), numpy.ones((4, 3), numpy.float32)
    expected = kiln.ops.linear(x, weight)
    names = [item.name for item in kiln.ops.linear.spec.inputs]
    numpy.testing.assert_array_equal(kiln.ops.linear(**{names[0]: x, names[1]: weight}), expected)
    numpy.testing.assert_array_equal(kiln.ops.linear(x, **{names[1]: weight, names[2]: None}), expected)
    refused(TypeError, "given twice", lambda: kiln.ops.linear(x, weight, **{names[0]: x}))
    refused(TypeError, f"input '{names[1]}' is None or left out", lambda: kiln.ops.linear(x, **{names[2]: x}))


def test_unknown_names_suggest() -> None:
    x = numpy.ones(3, numpy.float32)
    refused(ValueError, "did you mean 'softmax'", lambda: kiln.op("sofmax"))
    refused(ValueError, "did you mean 'softmax'", lambda: kiln.dispatch_gpu_op("sofmax", x))
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        _ = kiln.ops.sofmax
    refused(ValueError, "did you mean 'alpha'", lambda: kiln.ops.add(x, x, alhpa=2))
    refused(TypeError, "must be a string", lambda: kiln.op(3))  # type: ignore[arg-type]
    assert not hasattr(kiln.ops, "__wrapped__") and not hasattr(kiln, "no_such_name")


def test_an_op_is_an_ordinary_function() -> None:
    assert pickle.loads(pickle.dumps(kiln.ops.add)) is kiln.ops.add
    assert repr(kiln.ops.add) == "<kiln.Op add>" and inspect.isroutine(kiln.ops.add)

    class Model:
        activation = kiln.ops.relu

    x = numpy.array([-1, 1], numpy.float32)
    numpy.testing.assert_array_equal(Model().activation(x), numpy.maximum(x, 0))
    with pytest.raises(TypeError):
        kiln.Op()


def test_resolved_ops() -> None:
    x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    resolved = kiln.resolve("add", x, x, alpha=2)
    assert resolved.outputs == [kiln.TensorMeta("f32", (2, 3))] and resolved.name == "add"
    numpy.testing.assert_array_equal(resolved(x, x), 3 * x)
    out = numpy.empty_like(x)
    assert resolved(x, y=x, out=out) is out
    assert resolved.report.kernels and resolved.report.bytes == 3 * x.nbytes
    refused(ValueError, "was resolved for", lambda: resolved(x[:1], x))
    refused(ValueError, "attributes and config are fixed", lambda: resolved(x, x, alpha=3))


def test_configs_are_dicts_or_text() -> None:
    x = numpy.arange(100, dtype=numpy.float32)
    default = kiln.resolve("add", x, x).report.config
    assert default
    text = " ".join(f"{name}={value}" for name, value in default.items())
    assert kiln.resolve("add", x, x, config=text).report.config == default
    assert kiln.resolve("add", x, x, config=default).report.config_source == "given"
    with pytest.raises(ValueError):
        kiln.ops.add(x, x, config={"NO_SUCH": 1})
    refused(TypeError, "config: expected a dict", lambda: kiln.ops.add(x, x, config=3))  # type: ignore[call-overload]
    refused(ValueError, "nearest", lambda: kiln.ops.add(x, x, tuning="sometimes"))


def test_infer_outputs_takes_metas() -> None:
    (meta,) = kiln.infer_outputs("matmul", kiln.TensorMeta("bf16", (5, 7)), kiln.TensorMeta("bf16", (7, 3)))
    assert meta == kiln.TensorMeta(kiln.DType.bf16, [5, 3])
    with pytest.raises(ValueError):
        kiln.infer_outputs("matmul", kiln.TensorMeta("f32", (5, 7)), kiln.TensorMeta("f32", (5, 3)))
