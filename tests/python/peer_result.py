"""What NumPy and torch make of a call, for ops that they have by the same name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import kiln
import numpy
from array_memory import is_floating, kiln_name, to_numpy

# Ops whose name another library gives to something else; every other op is looked up.
NUMPY_EXCEPTIONS = {"transpose": "NumPy's takes all axes, torch's and Kiln's two dimensions"}
RANDOM_NUMBERS = "draws its own random numbers"
TORCH_EXCEPTIONS = {name: RANDOM_NUMBERS for name in ("bernoulli", "dropout", "normal", "randint", "uniform")}
INT8_PRODUCTS = ("matmul", "linear", "linear_relu")
NUMPY_ATTRIBUTES = {"dim": "axis", "keepdim": "keepdims"}


def says_something(spec: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes that are not at their defaults."""
    defaults = {attribute.name: attribute.default for attribute in spec.attributes if not attribute.required}
    return {name: value for name, value in attributes.items() if name not in defaults or value != defaults[name]}


def torch_differs(name: str, inputs: list[Any], attributes: dict[str, Any]) -> str:
    """Why torch means something else by a call, or empty."""
    dtypes = {array.dtype.name for array in inputs if array is not None}
    if attributes.get("dim") == []:
        return "no dimensions are all of them to torch, and none to NumPy and Kiln"
    if name == "cumprod" and dtypes & {"bfloat16", "float16"}:
        return "torch's scan on a GPU rounds the running product to half precision at each step"
    if name in ("all", "any") and dtypes == {"uint8"}:
        return "torch alone makes uint8 of uint8 here"
    if name in INT8_PRODUCTS and dtypes == {"int8"}:
        return "torch wraps sums of products to int8, where Kiln has int32"
    return ""


def numpy_function(name: str) -> Callable[..., Any] | None:
    function = None if name in NUMPY_EXCEPTIONS else getattr(numpy, name, None)
    return function if callable(function) else None


def numpy_results(op: Any, inputs: list[Any], attributes: dict[str, Any], results: list[Any]) -> list[Any] | None:
    """NumPy's results, floats computed in f64 and rounded to the dtypes of `results`; None where it cannot say."""
    function = numpy_function(op.name)
    given = says_something(op.spec, attributes)
    if function is None or "dtype" in given or any(array is None for array in inputs):
        return None
    operands = [*inputs]
    everything = {attribute.name: attribute.default for attribute in op.spec.attributes} | attributes
    if everything.get("other") is not None:
        operands.append(numpy.asarray(everything["other"]))
    out = results[0].dtype
    if is_floating(out) or any(is_floating(operand.dtype) for operand in operands):
        operands = [operand.astype(numpy.float64) for operand in operands]
    elif out != numpy.bool_:
        operands = [a.astype(out) if numpy.can_cast(a.dtype, out) and a.dtype != numpy.bool_ else a for a in operands]
    if isinstance(function, numpy.ufunc) and len(operands) != function.nin:
        return None  # one more would be taken for out=
    positional = [operands] if op.spec.inputs[-1].repeated else operands
    for attributes_given in (everything, given):
        keywords = {
            NUMPY_ATTRIBUTES.get(name, name): tuple(value) if isinstance(value, list) else value
            for name, value in attributes_given.items()
            if value is not None and name != "other"
        }
        try:
            with numpy.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of empty slices
                value = numpy.asarray(function(*positional, **keywords)).astype(out)
        except (TypeError, ValueError):
            continue
        # NumPy's scans make one dimension of none.
        return [value.reshape(results[0].shape) if value.size == 1 and results[0].ndim == 0 else value]
    return None


def numpy_rounding(name: str, inputs: list[Any]) -> float:
    """How far from zero NumPy's results may lie by rounding where they ought to be zero.

    Its var and std take distances from a mean that is rounded, so that they are not zero for equal numbers.
    """
    if name not in ("var", "std"):
        return 0.0
    numbers = numpy.abs(inputs[0].astype(numpy.float64))
    of_mean = 8 * numpy.finfo(numpy.float64).eps * float(numbers.max(initial=0.0, where=numpy.isfinite(numbers)))
    return of_mean if name == "std" else of_mean**2


@functools.cache
def torch_function(name: str) -> Callable[..., Any] | None:
    import torch

    if name in TORCH_EXCEPTIONS:
        return None
    return getattr(torch, name, None) or getattr(torch.nn.functional, name, None)


def torch_results(op: Any, inputs: list[Any], attributes: dict[str, Any], where: str) -> list[Any] | None:
    """torch's results on `where` ("cuda", else its CPU), in its own dtypes; None where it has none for the call."""
    from kiln.torch_library import TORCH_DTYPES

    function = torch_function(op.name)
    if function is None or torch_differs(op.name, inputs, attributes):
        return None

    def translated(given: dict[str, Any], first: Any) -> dict[str, Any]:
        known = {
            name: TORCH_DTYPES[kiln_name(value)] if isinstance(value, kiln.DType) else value
            for name, value in given.items()
            if value is not None and name != "other"
        }
        if any(attribute.name == "normalized_shape" for attribute in op.spec.attributes):
            shape = known.get("normalized_shape", list(first.shape[-1:]))
            known["normalized_shape"] = [shape] if isinstance(shape, int) else shape
        return known

    def results(device: str) -> list[Any] | None:
        tensors = [None if array is None else torch_tensor(array, device) for array in inputs]
        operands = [*tensors, attributes["other"]] if attributes.get("other") is not None else tensors
        everything = {attribute.name: attribute.default for attribute in op.spec.attributes} | attributes
        for given in (everything, says_something(op.spec, attributes)):
            for positional, named in ways_to_pass(op.spec, operands):
                try:
                    value = function(*positional, **named, **translated(given, operands[0]))
                except (TypeError, RuntimeError, IndexError, ValueError):
                    continue  # no such parameter, no kernel for the dtype, an index out of bounds
                return list(value) if isinstance(value, (tuple, list)) else [value]
        return None

    # First on the CPU: an index out of bounds is an error there, and on a GPU the end of the process' context.
    found = results("cpu")
    if found is not None and where == "cuda":
        found = results("cuda")
    return None if found is None else [to_numpy(tensor) for tensor in found]


def ways_to_pass(spec: Any, operands: list[Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Positional and keyword operands, as torch's signatures have them in one order or another."""
    if spec.inputs and spec.inputs[-1].repeated:
        yield [operands], {}
        return
    yield operands, {}
    names = [tensor.name for tensor in spec.inputs]
    if len(operands) <= len(names):
        yield operands[:1], dict(zip(names[1:], operands[1:], strict=False))


def torch_tensor(array: numpy.ndarray[Any, Any], device: str) -> Any:
    import torch
    from array_memory import torch_dtype

    words = {1: numpy.uint8, 2: numpy.int16, 4: numpy.int32, 8: numpy.int64}[array.dtype.itemsize]
    dense = numpy.ascontiguousarray(array).reshape(array.shape)
    return torch.from_numpy(dense.view(words).copy()).view(torch_dtype(array.dtype)).to(device)
