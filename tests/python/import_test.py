"""Where and how often the package can be imported."""

from __future__ import annotations

import ast
import graphlib
import pathlib

import kiln
from script_process import run_script

PACKAGE = pathlib.Path(kiln.__file__).parent


def imported_by(module: pathlib.Path) -> set[str]:
    """Modules of the package that one imports: anywhere in it, and for type checkers alone too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, ["kiln" if node.level else "", node.module or ""]))
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name.removeprefix("kiln.") for name in names if name.startswith("kiln.")}


def test_no_modules_import_each_other() -> None:
    modules = {path.stem: imported_by(path) for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
    assert len(modules) > 10
    order = list(graphlib.TopologicalSorter(modules).static_order())  # raises CycleError
    assert order.index("plot") < order.index("autotuning")


def test_all_names_are_exported(tmp_path: pathlib.Path) -> None:
    """Those that a module is imported for when they are asked for, too."""
    printed = run_script(
        """
        from kiln import *

        print(sorted(name for name in globals() if not name.startswith("__") or name == "__version__"))
        import kiln

        print(sorted(kiln.__all__))
        print(kiln.autotune is autotune, set(kiln._LAZY) - set(kiln.__all__))
        """,
        tmp_path,
    )
    star, exported, rest = printed.splitlines()
    assert star == exported
    assert rest == "True set()"


def test_a_subinterpreter_is_refused_and_the_main_one_is_not(tmp_path: pathlib.Path) -> None:
    """Whether the package was imported before or not, and as often as one tries."""
    printed = run_script(
        """
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        import sys

        # What the import raised there: not every Python passes an exception on.
        TEXT = (
            "try:\\n    import {module}\\nexcept ImportError as error:\\n    message = str(error)\\n"
            "else:\\n    message = 'imported'\\nwith open({path!r}, 'a') as file:\\n    file.write(message + chr(10))\\n"
        )

        def try_in_subinterpreter(module):
            interpreters.run_string(interpreters.create(), TEXT.format(module=module, path=sys.argv[0] + ".txt"))

        try_in_subinterpreter("kiln")
        try_in_subinterpreter("kiln._kiln")
        import numpy as np
        import kiln

        try_in_subinterpreter("kiln")
        assert kiln.ops.add(np.ones(3, np.float32), other=1.0).tolist() == [2, 2, 2]
        print(open(sys.argv[0] + ".txt").read(), end="")
        """,
        tmp_path,
    )
    messages = printed.splitlines()
    assert len(messages) == 3
    for message in messages:
        assert "subinterpreter" in message
        assert "main interpreter" in message


def test_a_second_import_is_the_same_module(tmp_path: pathlib.Path) -> None:
    """What a test runner or a notebook does to load changed code."""
    printed = run_script(
        """
        import sys
        import numpy as np
        import kiln

        first = kiln.Tensor, kiln.UsageError, kiln.dispatch_gpu_op
        for name in [name for name in sys.modules if name.partition(".")[0] == "kiln"]:
            del sys.modules[name]
        import kiln

        assert (kiln.Tensor, kiln.UsageError, kiln.dispatch_gpu_op) == first
        assert kiln.ops.add(np.ones(3, np.float32), other=1.0).tolist() == [2, 2, 2]
        try:
            kiln.ops.add(np.ones(3, np.float32), np.ones(4, np.float32))
        except kiln.UsageError as error:
            print("refused")
        """,
        tmp_path,
    )
    assert printed == "refused\n"


def test_a_forked_child_imports(tmp_path: pathlib.Path) -> None:
    printed = run_script(
        """
        import os
        import threading

        threading.Thread(target=lambda: None).start()
        child = os.fork()
        if child == 0:
            import numpy as np
            import kiln

            right = kiln.ops.add(np.ones(3, np.float32), other=1.0).tolist() == [2, 2, 2]
            os._exit(0 if right else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        tmp_path,
    )
    assert printed == "0\n"
