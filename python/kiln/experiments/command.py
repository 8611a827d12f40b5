"""``kiln experiment``: lists the experiments, runs one, prints its tables and draws its picture."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, NoReturn

from kiln import _kiln
from kiln.experiments import catalogue
from kiln.experiments.report import Report

WORK_FAILED = 1
WRONG_COMMAND_LINE = 2
INTERRUPTED = 130  # 128 + SIGINT, as a shell has it

DESCRIPTION = """\
Repeats one of the experiments that Kiln grew from on this machine, and prints what came out beside the write-up's
figure. docs/experiments.md says what to learn from each.
"""


class WrongCommandLine(Exception):
    """What is wrong, in words for the user."""


class Parser(argparse.ArgumentParser):
    """Whose errors are exceptions, so that they are printed as all of the command's are: one line about a value, and
    where to read on for what is no option or no experiment."""

    def error(self, message: str) -> NoReturn:
        about = message.removeprefix("argument ")
        if about.startswith("--") and ": '" in about:
            raise WrongCommandLine(about)
        raise WrongCommandLine(f"{message}\nsee '{self.prog} --help'")


def make_parser() -> Parser:
    parser = Parser(
        prog="kiln experiment",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  kiln experiment list\n  kiln experiment graphs --plot graphs.png\n"
        "  kiln experiment offload --device cpu --json",
    )
    commands = parser.add_subparsers(dest="name", metavar="NAME", title="experiments", parser_class=Parser)
    listing = commands.add_parser("list", help="the experiments there are", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="print JSON")
    for name, summary in catalogue.SUMMARIES.items():
        one = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        one.add_argument("--device", help="cpu, cuda or cuda:N (default: cuda:0 where there is one, else cpu)")
        one.add_argument("--json", action="store_true", help="print JSON; messages too, as objects on stderr")
        one.add_argument("--plot", metavar="FILE.png", help="draw the result (needs matplotlib)")
        catalogue.find(name).add_options(one)
    return parser


def check_plot(path: str) -> None:
    """Before minutes of measuring: whether a picture could be written there."""
    file = pathlib.Path(path)
    if file.suffix != ".png":
        raise WrongCommandLine(f"--plot is '{path}'; expected a file name that ends in .png")
    if file.is_dir():
        raise WrongCommandLine(f"--plot: '{path}' is a directory")
    if not file.parent.is_dir():
        raise WrongCommandLine(f"--plot: '{path}' cannot be written: there is no directory '{file.parent}'")
    try:
        with tempfile.TemporaryFile(dir=file.parent):  # beside it: it takes its place when it is whole
            pass
    except OSError as error:
        raise WrongCommandLine(f"--plot: '{path}' cannot be written: {error.strerror}") from error
    if importlib.util.find_spec("matplotlib") is None:
        raise WrongCommandLine("--plot needs matplotlib, which is not installed: pip install kiln[plot]")


def device_of(given: str | None) -> str:
    """The device's full name, which is there."""
    if given is None:
        return _kiln.Stream().device
    return _kiln.memory_usage(given).device


def listed(as_json: bool) -> str:
    rows = [{"name": name, "summary": summary} for name, summary in catalogue.SUMMARIES.items()]
    if as_json:
        return json.dumps(rows, indent=2)
    width = max(map(len, catalogue.SUMMARIES))
    return "\n".join(f"{row['name']:{width}}  {row['summary']}" for row in rows)


def draw(experiment: catalogue.Experiment, report: Report, path: str) -> None:
    from kiln.plot import finish, new_figure

    figure = new_figure(11, 7, path)
    experiment.draw(report, figure)
    figure.suptitle(f"{report.experiment} on {report.device}", fontsize=10)
    finish(figure, path)


def run(options: argparse.Namespace) -> str:
    """What is to be printed."""
    if options.name == "list":
        return listed(options.json)
    if options.plot is not None:
        check_plot(options.plot)
    options.device = device_of(options.device)
    experiment = catalogue.find(options.name)
    report = experiment.run(options)
    if options.plot is not None:
        draw(experiment, report, options.plot)
    return json.dumps(plain(report.to_dict()), indent=2) if options.json else str(report)


def plain(value: Any) -> Any:
    """Without NaN, which is no JSON."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value


def main(arguments: Sequence[str]) -> int:
    """Runs ``kiln experiment ARGUMENTS``; returns the exit status. Messages go where the command's go."""
    given = ["experiment", *arguments]

    def fail(status: int, message: str) -> int:
        sys.stdout.flush()
        _kiln.refuse_command(given, message)
        return status

    try:
        parser = make_parser()
        options, left = parser.parse_known_args(list(arguments))
        if left:
            raise WrongCommandLine(
                f"unexpected argument '{left[0]}'\nsee 'kiln experiment {options.name or ''} --help'"
            )
        if options.name is None:
            parser.print_help()
            raise WrongCommandLine("'kiln experiment' needs the name of one, or list")
        print(run(options))
        sys.stdout.flush()
    except WrongCommandLine as error:
        return fail(WRONG_COMMAND_LINE, str(error))
    except _kiln.UsageError as error:
        return fail(WRONG_COMMAND_LINE, str(error))
    except BrokenPipeError:  # who reads the table has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere at the exit
        return WORK_FAILED
    except OSError as error:
        return fail(WORK_FAILED, f"'{error.filename}': {error.strerror}" if error.filename else str(error))
    except (_kiln.Error, ImportError) as error:
        return fail(WORK_FAILED, str(error))
    except MemoryError:
        return fail(WORK_FAILED, "out of memory; smaller sizes may fit")
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as done:  # --help
        return int(done.code or 0)
    return 0
