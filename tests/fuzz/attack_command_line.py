"""Hostile command lines and files: `kiln` answers each with what was asked, or with one line that says what is wrong.

Exit status 0, 1 or 2, never a signal's; an error begins with "kiln: error: " and holds no control character; with 2
nothing was printed to standard output; with --json everything on either stream is JSON; and all of it within a minute.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import tempfile

from attack import Attack

COMMANDS = [
    "run",
    "bench",
    "tune",
    "inspect",
    "ops",
    "doctor",
    "cache list",
    "cache show",
    "cache verify",
    "cache prune",
    "cache import",
    "cache merge",
    "cache clear",
    "nonsense",
]
OPS = [
    "add",
    "softmax",
    "matmul",
    "transpose",
    "sum",
    "gather",
    "uniform",
    "clamp",
    "ad",
    "",
    "\033[31m",
    "add\nadd",
    "é",
    "a" * 5000,
]
FLAGS = [
    "--shape",
    "--dtype",
    "--attr",
    "--device",
    "--config",
    "--input",
    "--output",
    "--seed",
    "--repeat",
    "--check",
    "--debug",
    "--budget",
    "--shapes-file",
    "--from-trace",
    "--to",
    "--emit",
    "--sweep",
    "--against",
    "--profile",
    "--yes",
    "--help",
]
VALUES = ["4x4", "8", "scalar", "0", "0x5", "-1", "1x", "x", "99999999999999999999", "9223372036854775807x2", "1e9", "4096x4096x4096x4096", "f32", "bf16", "f33", "cpu", "cuda", "cuda:-1", "cpu:7",
          "dim=0", "dim=99", "alpha=nan", "alpha=1e999", "size=3x3", "seed=18446744073709551615", "seed=-1", "=", "a=b=c", "BLOCK_SIZE=64", "BLOCK_SIZE=3", "BLOCK_SIZE=1e9", "1s", "nan", "inf", "-5", "1G", "asm", "ptx",
          "default", "/dev/zero", "/dev/null", "/nonexistent/file", "/", "/proc/self/mem", "\033]0;title\007", "\x7f", "\u009b31m", "\u202e", "%s%n", "--", "-", "", " "]  # fmt: skip


def files(folder: pathlib.Path, draw: random.Random) -> list[str]:
    """Files of the kinds that commands read, sound and mangled."""
    import numpy

    numpy.save(folder / "sound.npy", numpy.arange(16, dtype=numpy.float32).reshape(4, 4))
    texts = {
        "shapes.txt": "4x4 4x4\n8x8 8x8\n# comment\n",
        "trace.json": '{"op":"add","device":"cpu","inputs":[{"dtype":"f32","shape":[64]},{"dtype":"f32","shape":[64]}],"attributes":{}}\n',
        "tuning.json": '{"format": "kiln-tuning", "schema_version": 1, "entries": []}\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name in ["sound.npy", *texts]:
        data = bytearray((folder / name).read_bytes())
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (folder / f"mangled-{name}").write_bytes(bytes(data[: draw.randrange(1, 2 * len(data))]))
    (folder / "control.txt").write_text("4x4\033[2J\007 \u009b31m\n")
    return [str(path) for path in folder.iterdir()] + [str(folder / "new.npy"), str(folder / "no" / "such.npy")]


def has_control(text: str) -> bool:
    return any((ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in text)


def main() -> None:
    attack = Attack(__doc__ or "")
    counts = {0: 0, 1: 0, 2: 0}
    with tempfile.TemporaryDirectory(prefix="kiln-attack-") as name:
        folder = pathlib.Path(name)
        environment = {**os.environ, "KILN_CACHE_DIR": str(folder / "cache")}
        (folder / "files").mkdir()
        for case in attack.cases():
            draw = attack.random(case)
            values = VALUES + files(folder / "files", draw) * 2
            arguments = draw.choice(COMMANDS).split()
            is_json = draw.random() < 0.3  # right behind the command, where it can be no other option's value
            if is_json:
                arguments.append("--json")
            if arguments[0] in ("run", "bench", "tune", "inspect", "ops") and draw.random() < 0.95:
                arguments.append(draw.choice(OPS[:8] if draw.random() < 0.8 else OPS))
            if arguments[0] in ("run", "bench", "tune", "inspect") and draw.random() < 0.7:
                arguments += ["--shape", "4x4", "--device", "cpu"]
            if arguments[0] == "tune" or "--sweep" in arguments:
                arguments += ["--budget", "1s"]
            for _ in range(draw.randrange(4)):
                arguments.append(draw.choice(FLAGS))
                if draw.random() < 0.8:
                    arguments.append(draw.choice(values))
            arguments = [argument.replace("\0", "") for argument in arguments]
            try:
                done = subprocess.run(
                    [attack.options.kiln, *arguments],
                    env=environment,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=60,
                )
            except subprocess.TimeoutExpired:
                attack.fail(case, f"no end after a minute: {arguments}")
            out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
            shown = f"{arguments}: {done.returncode}\n{out[-500:]!r}\n{err[-500:]!r}"
            if done.returncode not in counts:
                attack.fail(case, f"an exit status of its own: {shown}")
            counts[done.returncode] += 1
            if has_control(out) or has_control(err):
                attack.fail(case, f"control characters: {shown}")
            if done.returncode == 2 and out:
                attack.fail(case, f"a wrong command line, and output: {shown}")
            if done.returncode == 2 and not err.strip():
                attack.fail(case, f"no error: {shown}")
            if is_json and "--help" not in arguments:
                try:
                    for text in [out, *err.splitlines()]:
                        if text.strip():
                            json.loads(text)
                except ValueError:
                    attack.fail(case, f"with --json, what is no JSON: {shown}")
            elif not is_json and done.returncode != 0 and "kiln: error: " not in err:
                attack.fail(case, f"an error that does not say so: {shown}")
    attack.finish(succeeded=counts[0], failed=counts[1], refused=counts[2])


if __name__ == "__main__":
    main()
