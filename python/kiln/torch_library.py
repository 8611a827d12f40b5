"""Every op of the registry as a PyTorch custom op, `torch.ops.kiln.<name>`.

The schema is read off the op's spec, the fake kernel asks Kiln's shape inference, and the real kernel is a Kiln call on
torch's current stream whose results come from torch's allocator.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

import kiln

NAMESPACE = "kiln"
#: Of kiln.ops, which a compiled graph has no use for.
OPTIONS_OF_EAGER_CALLS = ("out", "stream", "config", "tuning", "overlap_previous")
EXAMPLES_READ_FOR_TYPES = 8
TORCH_DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8e4m3": torch.float8_e4m3fn,
    "fp8e5m2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u64": torch.uint64,
    "u32": torch.uint32,
    "u16": torch.uint16,
    "u8": torch.uint8,
    "bool": torch.bool,
}

Wrapper = Callable[..., Any]

_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_wrappers: dict[str, Wrapper] = {}
_lock = threading.RLock()
_plain: dict[int, bool] = {}  # by set of dispatch keys: whether nothing but a device's kernel is below autograd


def identifier(name: str) -> str:
    """`name` as a Python identifier: `my.op` is `my_op`, `lambda` is `lambda_`."""
    spelled = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name)
    return spelled + "_" if keyword.iskeyword(spelled) else spelled


def torch_dtype(dtype: kiln.DType) -> torch.dtype:
    """The torch.dtype of a Kiln dtype."""
    return TORCH_DTYPES[dtype.name.removesuffix("_")]


class _Attribute:
    """One attribute of an op as an argument of its schema."""

    def __init__(self, spec: Any, values: list[Any]) -> None:
        self.name: str = spec.name
        self.argument = identifier(spec.name)
        self.required: bool = spec.required
        self.type, self.default = _schema_type(spec, values)

    def declaration(self) -> str:
        return f"{self.type} {self.argument}" + ("" if self.required else f"={self.default}")


def _schema_type(spec: Any, values: list[Any]) -> tuple[str, str]:
    """The schema's type and default of an attribute. `values`: what examples give it, for a default of None."""
    default = spec.default
    if default is None:
        if any(isinstance(value, (list, tuple)) for value in values):
            return "int[1]?", "None"  # [1]: a lone integer stands for a list of one
        if any(isinstance(value, kiln.DType) for value in values) or (not values and "dtype" in spec.name):
            return "ScalarType?", "None"
        if any(isinstance(value, str) for value in values):
            return "str?", "None"
        return "Scalar?", "None"
    if isinstance(default, bool):
        return "bool", str(default)
    if isinstance(default, int):
        return "int", str(default)
    if isinstance(default, float):
        return ("float", repr(default)) if math.isfinite(default) or spec.required else ("float?", "None")
    if isinstance(default, str):
        return ("str", _quoted(default)) if default.isprintable() and default.isascii() else ("str?", "None")
    if isinstance(default, kiln.DType):
        return ("ScalarType", "") if spec.required else ("ScalarType?", "None")  # schemas cannot spell a dtype
    return "int[]", "[" + ", ".join(map(str, default)) + "]"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _CustomOp:
    """How one op of the registry is called through torch's dispatcher."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.eager = kiln.op(name)
        spec = self.eager.spec
        self.inputs = list(spec.inputs)
        self.torch_name = identifier(name)
        self.repeated = bool(self.inputs) and self.inputs[-1].repeated
        self.changed = [i for i, tensor in enumerate(self.inputs) if tensor.mutated]
        self.returns_list = len(spec.outputs) > 1  # `max` has indices only where `dim` is given
        self.attributes = [_Attribute(attribute, _example_values(spec, attribute)) for attribute in spec.attributes]
        self.attribute_names = {attribute.argument: attribute.name for attribute in self.attributes}

    def schema(self) -> str:
        arguments = []
        for i, tensor in enumerate(self.inputs):
            kind = "Tensor"
            if tensor.mutated:
                kind += f"({chr(ord('a') + i)}!)"
            if tensor.repeated:
                kind += "[]"
            optional = tensor.optional and all(later.optional for later in self.inputs[i:])
            kind += "?" if tensor.optional else ""
            arguments.append(f"{kind} {identifier(tensor.name)}" + ("=None" if optional else ""))
        keywords = [attribute.declaration() for attribute in self.attributes]
        if not self.inputs:
            keywords.append("Device? device=None")
        if keywords:
            arguments += ["*", *keywords]
        returns = "()" if self.changed else "Tensor[]" if self.returns_list else "Tensor"
        return f"{self.torch_name}({', '.join(arguments)}) -> {returns}"

    def run(self, *arguments: Any, **attributes: Any) -> Any:
        """The real kernel."""
        tensors, given, device = self.bind(arguments, attributes)
        if not self.inputs:
            metas = kiln.infer_outputs(self.name, **given)
            outputs = [torch.empty(meta.shape, dtype=torch_dtype(meta.dtype), device=device) for meta in metas]
            kiln.dispatch_gpu_op(self.name, out=outputs[0] if len(outputs) == 1 else tuple(outputs), **given)
            return outputs if self.returns_list else outputs[0]
        results = kiln.dispatch_gpu_op(self.name, *tensors, **given)
        if self.changed:
            return None
        if self.returns_list:
            return list(results) if isinstance(results, tuple) else [results]
        return results

    def run_fake(self, *arguments: Any, **attributes: Any) -> Any:
        """The fake kernel: the results' dtypes and shapes. Sizes that torch holds open are fixed at what they are."""
        tensors, given, device = self.bind(arguments, attributes)
        present = [tensor for tensor in tensors if tensor is not None]
        metas = kiln.infer_outputs(
            self.name,
            *(
                tensor if tensor is None else kiln.TensorMeta(tensor.dtype, tuple(map(int, tensor.shape)))
                for tensor in tensors
            ),
            **given,
        )
        if self.changed:
            return None
        if present:  # inputs in pinned host memory do not say where the call runs
            device = next((tensor.device for tensor in present if tensor.is_cuda), present[0].device)
        outputs = [torch.empty(tuple(meta.shape), dtype=torch_dtype(meta.dtype), device=device) for meta in metas]
        return outputs if self.returns_list else outputs[0]

    def run_autograd(self, keys: torch._C.DispatchKeySet, *arguments: Any, **attributes: Any) -> Any:
        """What autograd runs: refuses to lose a derivative, which below it nobody would see."""
        records, has_tangents = torch.is_grad_enabled(), forward_ad._current_level >= 0
        if records or has_tangents:
            for tensor in arguments:
                if isinstance(tensor, torch.Tensor):
                    is_watched = (records and tensor.requires_grad) or (has_tangents and _has_tangent(tensor))
                elif tensor is None:
                    continue
                else:
                    is_watched = any(
                        (records and t.requires_grad) or (has_tangents and _has_tangent(t)) for t in tensor
                    )
                if is_watched:
                    raise kiln.UsageTypeError(
                        f"op '{self.name}': a tensor requires grad or has a tangent, and Kiln's ops have no "
                        "derivatives; give it tensor.detach(), or call it under torch.no_grad()"
                    )
        if self.changed:
            _count_changes(arguments[i] for i in self.changed if i < len(arguments))
        bits = keys.raw_repr()
        is_plain = _plain.get(bits)
        if is_plain is None:
            below = (keys & torch._C._after_autograd_keyset).highestPriorityTypeId()
            is_plain = _plain[bits] = below in (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA)
        if is_plain:
            return self.run(*arguments, **attributes)  # what a redispatch, which takes longer, comes to
        with torch._C._AutoDispatchBelowAutograd():
            return self.overload.redispatch(keys & torch._C._after_autograd_keyset, *arguments, **attributes)

    @functools.cached_property
    def overload(self) -> Any:
        """The op as torch has it."""
        return getattr(getattr(torch.ops, NAMESPACE), self.torch_name).default

    def bind(
        self, arguments: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[list[torch.Tensor | None], dict[str, Any], torch.device]:
        """Arguments of the schema as tensors and attributes of the op, and the device of an op without tensors."""
        device = attributes.pop("device", None) if not self.inputs else None
        tensors = list(arguments)
        if self.repeated and len(tensors) == len(self.inputs):
            tensors[-1:] = tensors[-1]
        given = {self.attribute_names[name]: value for name, value in attributes.items() if value is not None}
        return tensors, given, torch.device(device) if device is not None else torch.get_default_device()

    def register(self) -> Wrapper:
        _library.define(self.schema(), tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA") if self.inputs else ("CompositeExplicitAutograd",):
            _library.impl(self.torch_name, self.run, key)
        if self.inputs:
            _library.impl(self.torch_name, self.run_autograd, "Autograd", with_keyset=True)
        torch.library.register_fake(f"{NAMESPACE}::{self.torch_name}", self.run_fake, lib=_library)
        return self.wrapper()

    def wrapper(self) -> Wrapper:
        """The function of `kiln.torch`. It is traced by torch.compile, so it does little."""
        overload = self.overload
        fixed = len(self.inputs) - 1
        repeated, changed, returns_list = self.repeated, self.changed, self.returns_list
        names = [identifier(tensor.name) for tensor in self.inputs]

        def call(*tensors: Any, **attributes: Any) -> Any:
            if repeated and names[-1] not in attributes:
                rest: Sequence[Any] = tensors[fixed:]
                if len(rest) == 1 and isinstance(rest[0], (list, tuple)):
                    rest = rest[0]
                return overload(*tensors[:fixed], list(rest), **attributes)
            if changed:
                overload(*tensors, **attributes)
                everything = [*tensors, *(attributes.get(name) for name in names[len(tensors) :])]
                results = tuple(everything[i] for i in changed if everything[i] is not None)
                return results[0] if len(results) == 1 else results
            results = overload(*tensors, **attributes)
            if returns_list:
                return results[0] if len(results) == 1 else tuple(results)
            return results

        call.__name__ = call.__qualname__ = self.torch_name
        call.__module__ = "kiln.torch"
        call.__doc__ = self.eager.__doc__
        call.__signature__ = self.signature()  # type: ignore[attr-defined]
        return call

    def signature(self) -> inspect.Signature:
        """That of kiln.ops, without what only an eager call has."""
        eager = inspect.signature(self.eager)
        parameters = [p for p in eager.parameters.values() if p.name not in OPTIONS_OF_EAGER_CALLS]
        if not self.inputs and "device" not in eager.parameters:
            parameters.append(
                inspect.Parameter(
                    "device", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="torch.device | None"
                )
            )
            parameters.sort(key=lambda parameter: parameter.kind)
        return eager.replace(parameters=parameters)


def _has_tangent(tensor: torch.Tensor) -> bool:
    """Of forward-mode differentiation, inside of which this is asked."""
    return forward_ad.unpack_dual(tensor).tangent is not None


def _count_changes(tensors: Iterable[torch.Tensor | None]) -> None:
    """Tells autograd, which then refuses to go back through what was saved before the change."""
    for tensor in tensors:
        if tensor is not None and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def _example_values(spec: Any, attribute: Any) -> list[Any]:
    """Values that the op's own examples give an attribute whose default, None, does not tell its type."""
    if attribute.default is not None:
        return []
    examples = list(spec.examples())
    try:
        examples += [spec.random_example(seed) for seed in range(EXAMPLES_READ_FOR_TYPES)]
    except kiln.Error:
        pass  # not every op draws examples
    values = (example.attributes.get(attribute.name) for example in examples)
    return [value for value in values if value is not None]


def register(name: str) -> Wrapper:
    """Makes op `name` of the registry a custom op of torch and returns the function that calls it.

    Built-in ops are registered when kiln.torch is imported, and so are ops that were registered with Kiln by then;
    later ones when this or `kiln.torch.<name>` asks for them. Asking again returns the same function.

    Raises kiln.UnknownOpError for a name that Kiln does not know, and kiln.UsageError for one that is spelled in torch as another op's is
    (``my.op`` and ``my_op``).
    """
    with _lock:
        if name not in _wrappers:
            op = _CustomOp(name)
            for taken in _wrappers:
                if identifier(taken) == op.torch_name:
                    raise kiln.UsageValueError(
                        f"op '{name}' would be torch.ops.{NAMESPACE}.{op.torch_name}, which op '{taken}' is already; "
                        "give one of them another name"
                    )
            _wrappers[name] = op.register()
        return _wrappers[name]
