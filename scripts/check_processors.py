"""Are a run's weights the same on other processors?

Trains the same run on this processor several times: as it is, with each library capped in a way of
its own, on one core, and once with this processor's own kernels, which has to show that the check
can fail (on one that has no more than AVX2, it cannot). Then on processors emulated by qemu-user
(the Debian package of that name), learner and workers alike, some 20 times slower, for fewer
episodes. A processor below AVX2 has to be refused. Exits with 1 if weights differ that should not.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.portable import NATIVE, PINS
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.run_record import weights_digest

ROOT = Path(__file__).resolve().parent.parent
QEMU = "qemu-x86_64"
EMULATED = ("Haswell", "Skylake-Server", "EPYC", "EPYC-Rome")
TOO_OLD = "IvyBridge"
AVX512 = ("F", "CD", "BW", "DQ", "VL", "ER", "PF", "IFMA", "VBMI", "VNNI")
CAPPED: dict[str, dict[str, str]] = {
    "numba for Haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma"},
    "C library without AVX-512": {
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=" + ",".join(f"-AVX512{name}" for name in AVX512)
    },
    "MKL without AVX-512": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "hash seed 1": {"PYTHONHASHSEED": "1"},
}
# A child that is executed leaves the emulator, unless the emulator is what is executed.
INSIDE = """
import multiprocessing, sys
del sys.argv[0]
sys.executable = sys.argv[0]
multiprocessing.set_executable(sys.executable)
from workflow_rl.commands.main import main
main()
"""


class Failed(click.ClickException):
    """A run that ended otherwise than it should."""


def train(run_dir: Path, options: Sequence[str], variables: Mapping[str, str], *start: str) -> str:
    """The digest of the weights after a whole run. start: what starts Python's `workflow_rl`.

    Raises Failed.
    """
    # Importing `portable` has pinned this process, and what it starts would inherit that.
    inherited = {name: value for name, value in os.environ.items() if name not in PINS}
    command = [
        *(start or (sys.executable, "-m", "workflow_rl")),
        "train-async",
        "--quiet",
    ]
    done = subprocess.run(
        [*command, "--run-dir", str(run_dir), *options],
        cwd=ROOT,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if not line.startswith(QEMU)]
        raise Failed(f"exit code {done.returncode}: {' '.join(lines[-3:])}")
    return weights_digest(load_checkpoint(run_dir / "checkpoint.pt").agent["network"])


def emulator(folder: Path, cpu: str) -> tuple[str, ...]:
    """What starts `workflow_rl` on an emulated processor, and all of its processes."""
    python = folder / cpu
    python.write_text(
        f'#!/bin/sh\nexec {QEMU} -cpu {cpu} {shlex.quote(sys.executable)} "$@" 2>>"{python}.log"\n'
    )
    python.chmod(0o755)
    return QEMU, "-cpu", cpu, sys.executable, "-c", INSIDE, str(python)


@click.command(help=__doc__)
@click.option("--native-episodes", default=2400, show_default=True, help="24 an update.")
@click.option("--episodes", default=72, show_default=True, help="On emulated processors.")
@click.option("--max-steps", default=100, show_default=True, help="Of an episode.")
@click.option(
    "--simulator", type=click.Choice(["cyborg", "compiled"]), default="cyborg", show_default=True
)
@click.option("--cpu", multiple=True, default=EMULATED, show_default=True, metavar="NAME",
              help=f"One of `{QEMU} -cpu help` to emulate; may be given again.")  # fmt: skip
def main(
    native_episodes: int, episodes: int, max_steps: int, simulator: str, cpu: tuple[str, ...]
) -> None:
    common = ["--simulator", simulator, "--max-steps", str(max_steps), "--n-workers", "2"]
    common += ["--red-agent", "mixed", "--worker-timeout", "7200"]
    native, short = (
        [*common, "--total-episodes", str(count)] for count in (native_episodes, episodes)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        differing = natively(folder, native, f"{native_episodes} episodes")
        if shutil.which(QEMU) is None:
            click.echo(f"No processor is emulated: there is no {QEMU} (apt-get install qemu-user)")
        else:
            differing += emulated(folder, short, cpu, f"{episodes} episodes")
    if differing:
        raise Failed(f"other weights: {', '.join(differing)}")


def natively(folder: Path, options: list[str], size: str) -> list[str]:
    """What gives other weights than this processor as it is."""
    expected = train(folder / "as it is", options, {})
    click.echo(f"{'as it is':<28}{expected[:16]}  {size}")
    one_core = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
    starts = {"one core": (*one_core, sys.executable, "-m", "workflow_rl")}
    found = []
    for name in (*CAPPED, *starts):
        digest = train(folder / name, options, CAPPED.get(name, {}), *starts.get(name, ()))
        found += _compared(name, digest, expected)
    own = train(folder / "own", options, {NATIVE: "1"})
    click.echo(
        f"{'its own kernels':<28}{own[:16]}  "
        + ("others: the check can fail" if own != expected else "identical: it has no others")
    )
    return found


def emulated(folder: Path, options: list[str], cpus: Sequence[str], size: str) -> list[str]:
    """The processors that give other weights than this one."""
    expected = train(folder / "short", options, {})
    click.echo(f"{'as it is':<28}{expected[:16]}  {size}")
    found = []
    for cpu in cpus:
        start = time.monotonic()
        digest = train(folder / f"run on {cpu}", options, {}, *emulator(folder, cpu))
        found += _compared(f"{cpu}, emulated", digest, expected, time.monotonic() - start)
    try:
        train(folder / "too old", options, {}, *emulator(folder, TOO_OLD))
        found.append(f"{TOO_OLD} was not refused")
    except Failed as error:
        refused = "exit code 2" in str(error) and "lacks AVX2" in str(error)
        click.echo(f"{TOO_OLD + ', emulated':<28}{'refused' if refused else error}")
        found += [] if refused else [TOO_OLD]
    return found


def _compared(name: str, digest: str, expected: str, seconds: float | None = None) -> list[str]:
    verdict = "identical" if digest == expected else "OTHERS"
    time_taken = "" if seconds is None else f" ({seconds:.0f} s)"
    click.echo(f"{name:<28}{digest[:16]}  {verdict}{time_taken}")
    return [] if digest == expected else [name]


if __name__ == "__main__":
    main()
