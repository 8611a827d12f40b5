"""``python -m kiln``: the kiln command in this process, which may first load user ops."""

from __future__ import annotations

import importlib.util
import pathlib
import signal
import sys
import traceback

WORK_FAILED = 1
WRONG_COMMAND_LINE = 2

HELP = """\
python -m kiln [--load FILE.py ...] COMMAND ...

The kiln command, run in this process. --load, before the command, runs a Python file that registers ops
(kiln.register_op), which the command then knows:

  python -m kiln --load my_ops.py run my_op --shape 4096 --check
  python -m kiln --load my_ops.py tune my_op --shape 4096

"""


def fail(arguments: list[str], message: str) -> int:
    """Says what is wrong with the command line, as the command does."""
    from kiln import _kiln

    return _kiln.refuse_command(arguments, message)


def load(path: str, arguments: list[str]) -> int:
    """Runs a file as a module named after it; 0, or an exit status. `arguments` are those of the command."""
    file = pathlib.Path(path)
    if not file.is_file():
        return fail(arguments, f"--load is '{path}', which is no file")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        return fail(arguments, f"--load is '{path}'; expected a Python file, whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # pickling, dataclasses and inspect look modules up by name
    sys.path.insert(0, str(file.parent.resolve()))  # as `python FILE.py` has it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the file raises is reported as such, from its own first line on
        frames = error.__traceback__
        while frames and (
            frames.tb_frame.f_code.co_filename == __file__ or "importlib" in frames.tb_frame.f_code.co_filename
        ):
            frames = frames.tb_next
        text = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
        fail(arguments, f"'{path}' could not be loaded\n{text}")
        return WORK_FAILED
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command with these arguments, or the process's; returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    while arguments and (arguments[0] == "--load" or arguments[0].startswith("--load=")):
        option, equals, path = arguments.pop(0).partition("=")
        if not equals:
            if not arguments:
                return fail(arguments, f"{option} needs a Python file: --load FILE.py")
            path = arguments.pop(0)
        status = load(path, arguments)
        if status != 0:
            return status
    if not arguments or arguments in (["--help"], ["-h"]):
        print(HELP, end="")
    from kiln import _kiln

    sys.stdout.flush()
    sys.stderr.flush()
    if arguments[:1] == ["experiment"]:
        from kiln.experiments.command import main as run_experiment

        return run_experiment(arguments[1:])
    # The command waits in C++, where Python's own handler would only set a flag; commands that end in order on Ctrl-C
    # set a handler themselves.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _kiln.run_command(arguments)


if __name__ == "__main__":
    sys.exit(main())
