"""Signatures and docstrings of ops, made from their specs when somebody looks."""

from __future__ import annotations

import inspect
import keyword
import textwrap
from typing import Any

from ._kiln import AttributeSpec, DType, InputSpec, Op, OpSpec, Variant, devices

_TYPES: dict[type, Any] = {bool: bool, int: int, float: float, str: str, DType: DType, list: list[int]}

# What every op takes besides its inputs and attributes.
_COMMON = ("out", "stream", "config", "tuning", "overlap_previous")


def parameters(spec: OpSpec) -> list[inspect.Parameter]:
    """The parameters of a call: inputs, attributes by keyword, and what every op takes. Annotations are types or text."""
    result: list[inspect.Parameter] = []
    attributes = {attribute.name: attribute for attribute in spec.attributes}
    has_default = False
    for item in spec.inputs:
        if item.repeated:
            result.append(inspect.Parameter(item.name, inspect.Parameter.VAR_POSITIONAL, annotation="Array"))
            continue
        has_default = has_default or item.optional
        # A number may stand for the tensor, as an attribute of the same name.
        annotation = "Array | float" if item.name in attributes else "Array"
        result.append(
            inspect.Parameter(
                item.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if has_default else inspect.Parameter.empty,
                annotation=f"{annotation} | None" if has_default else annotation,
            )
        )
    taken = {parameter.name for parameter in result}
    for attribute in spec.attributes:
        if attribute.name not in taken and attribute.name.isidentifier() and not keyword.iskeyword(attribute.name):
            result.append(_attribute_parameter(attribute))
    names = _COMMON if spec.inputs else (*_COMMON, "device")
    result += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Any) for name in names]
    return result


def _attribute_parameter(attribute: AttributeSpec) -> inspect.Parameter:
    default = inspect.Parameter.empty if attribute.required else attribute.default
    return inspect.Parameter(
        attribute.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=_TYPES.get(type(attribute.default), Any),
    )


def signature(op: Op) -> inspect.Signature:
    """What inspect.signature(op) gives: real names, defaults and annotations."""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        if isinstance(parameter.annotation, str) or parameter.annotation is Any
        else parameter
        for parameter in parameters(op.spec)
    ]
    return inspect.Signature(plain)


def call_text(spec: OpSpec) -> str:
    """ "add(input, other=None, *, alpha=1) -> out"."""
    words = []
    starred = False
    for parameter in parameters(spec):
        if parameter.name in _COMMON:
            break
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            if not any(item.repeated for item in spec.inputs):
                words.append("*")
        prefix = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is inspect.Parameter.empty else f"={_value_text(parameter.default)}"
        words.append(f"{prefix}{parameter.name}{default}")
    results = [output.name for output in spec.outputs] or [item.name for item in spec.inputs if item.mutated]
    return f"{spec.name}({', '.join(words)}) -> {', '.join(results)}"


def _value_text(value: Any) -> str:
    return repr(str(value)) if isinstance(value, DType) else repr(value)


def _entry(name: str, kind: str, text: str) -> list[str]:
    lines = [f"{name} : {kind}" if kind else name]
    if text:
        lines += textwrap.wrap(text, 110, initial_indent="    ", subsequent_indent="    ")
    return lines


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", title, "-" * len(title), *lines] if lines else []


def _input_text(spec: OpSpec, item: InputSpec) -> str:
    notes = [item.doc] if item.doc else []
    if item.mutated:
        notes.append("changed in place")
    if item.pinned:
        notes.append("may lie in pinned host memory while the call is on a GPU")
    if any(attribute.name == item.name for attribute in spec.attributes):
        notes.append(f"a number goes by name ({item.name}=2.0)")
    if item.dtypes:
        notes.append("dtypes " + " ".join(str(dtype) for dtype in item.dtypes))
    return "; ".join(notes)


def _variant_lines(variant: Variant, device: str) -> list[str]:
    lines = _entry(variant.name, "", variant.doc)
    for name, values in variant.tunables(device).items():
        lines.append(f"    {name}: {' '.join(str(value) for value in values)}")
    return lines


def docstring(op: Op) -> str:
    """What op.__doc__ gives, in NumPy's style."""
    spec = op.spec
    lines = [*textwrap.wrap(call_text(spec), 114, subsequent_indent="    "), "", *textwrap.wrap(spec.doc, 114)]
    entries: list[str] = []
    for item in spec.inputs:
        kind = "arrays" if item.repeated else "array, optional" if item.optional else "array"
        entries += _entry(f"*{item.name}" if item.repeated else item.name, kind, _input_text(spec, item))
    input_names = {item.name for item in spec.inputs}
    for attribute in spec.attributes:
        if attribute.name in input_names:
            continue
        kind = attribute.type + ("" if attribute.required else f", default {_value_text(attribute.default)}")
        entries += _entry(attribute.name, kind, attribute.doc)
    entries += [
        ", ".join(_COMMON),
        "    As kiln.dispatch_gpu_op has them." + ("" if spec.inputs else " device: where to run, 'cpu' by default."),
    ]
    lines += _section("Parameters", entries)
    results: list[str] = []
    for output in spec.outputs:
        results += _entry(output.name, "array", output.doc)
    if not spec.outputs:
        results = ["The changed inputs: " + ", ".join(item.name for item in spec.inputs if item.mutated)]
    lines += _section("Returns", results)
    dtypes = " ".join(str(dtype) for dtype in spec.dtypes)
    lines += _section("Notes", textwrap.wrap(f"Dtypes: {dtypes}.", 114) if dtypes else [])
    device = "cuda" if len(devices()) > 1 else "cpu"
    tunables: list[str] = []
    for variant in spec.variants:
        tunables += _variant_lines(variant, device)
    lines += _section(f"Variants and tunables ({device})", tunables)
    return "\n".join(lines) + "\n"
