"""What a function is, apart from where it was written: for telling a cell that was run again from one that changed."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_DEEPEST = 8


class Fingerprint:
    """A digest over values. Functions count by their code, defaults, and the names outside of them that they read; so
    the same text, run again, gives the same digest, in another process too.

    Objects of other kinds count by their identity: two of them are never the same, which costs a registration and
    no wrong result.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._seen: set[int] = set()

    def add(self, value: Any, depth: int = 0) -> Fingerprint:
        """Adds a value and returns the fingerprint itself."""
        if isinstance(value, _PLAIN):
            self._put(type(value).__name__, repr(value))
        elif isinstance(value, types.FunctionType):
            self._add_function(value, depth)
        elif isinstance(value, types.CodeType):
            self._add_code(value, depth)
        elif isinstance(value, types.ModuleType):
            self._put("module", value.__name__)
        elif isinstance(value, type):
            self._put("type", f"{value.__module__}.{value.__qualname__}")
        elif isinstance(value, Mapping) and depth < _DEEPEST:
            self._put("mapping", str(len(value)))
            for key, item in value.items():
                self.add(key, depth + 1).add(item, depth + 1)
        elif isinstance(value, AbstractSet) and depth < _DEEPEST:
            self._put("set", repr(sorted(map(repr, value))))
        elif isinstance(value, (tuple, list)) and depth < _DEEPEST:
            self._put("list", str(len(value)))
            for item in value:
                self.add(item, depth + 1)
        else:
            self._put(type(value).__qualname__, str(id(value)))
        return self

    def hex(self) -> str:
        """Sixteen digits."""
        return self._hash.hexdigest()

    def _put(self, kind: str, text: str) -> None:
        self._hash.update(f"{kind}:{len(text)}:{text};".encode())

    def _add_function(self, function: types.FunctionType, depth: int) -> None:
        if id(function) in self._seen or depth >= _DEEPEST:
            self._put("function", function.__qualname__)
            return
        self._seen.add(id(function))
        self._add_code(function.__code__, depth)
        self.add(function.__defaults__, depth + 1).add(function.__kwdefaults__, depth + 1)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents, depth + 1)
            except ValueError:  # not assigned yet
                self._put("cell", "")
        for name in _names_read(function.__code__):
            if name in function.__globals__:
                self._put("global", name)
                self.add(function.__globals__[name], depth + 1)

    def _add_code(self, code: types.CodeType, depth: int) -> None:
        self._put("code", code.co_code.hex())
        self._put("names", repr((code.co_names, code.co_varnames, code.co_freevars)))
        for constant in code.co_consts:
            self.add(constant, depth + 1)


def _names_read(code: types.CodeType) -> list[str]:
    """Names of globals and attributes in the code, and in the lambdas and comprehensions inside of it."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names_read(constant)
    return list(dict.fromkeys(names))


def fingerprint(*values: Any) -> str:
    """The digest of some values, as sixteen hexadecimal digits."""
    made = Fingerprint()
    for value in values:
        made.add(value)
    return made.hex()
