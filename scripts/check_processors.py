"""Are a run's weights the same on other processors?

Trains the same run on this processor several times: as it is, with each library capped in a way of
its own, on one core, and once with this processor's own kernels, which shows that the check can
fail (on a processor that has no more than AVX2, it cannot). Then on processors emulated by
qemu-user (the Debian package of that name), learner and workers alike, some 20 times slower, for
fewer episodes. A processor below AVX2 has to be refused. Exits with 1 if weights differ that should
not.
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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workflow_rl.portable import NATIVE, PINS  # noqa: E402
from workflow_rl.runs.folder import weights_digest  # noqa: E402
from workflow_rl.runs.read_checkpoint import load_checkpoint  # noqa: E402

QEMU = "qemu-x86_64"
EMULATED = ("Haswell", "Skylake-Server", "EPYC", "EPYC-Rome")
TOO_OLD = "IvyBridge"
AVX512 = ("F", "CD", "BW", "DQ", "VL", "ER", "PF", "IFMA", "VBMI", "VNNI")
PYTHON = (sys.executable, "-m", "workflow_rl")
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

CHAMPION = (
    "train-async --preset cage4-champion --total-episodes 12 --episodes-per-update 4 --n-envs 4 "
    "--teacher-episodes 4 --n-workers 2 --worker-timeout 7200"
)


class Failed(click.ClickException):
    """A run ended otherwise than it should."""


def train(
    run_dir: Path, options: str, variables: Mapping[str, str], start: Sequence[str] = PYTHON
) -> str:
    """Return the digest of the weights after a whole run. Raises Failed.

    start: what starts Python's `workflow_rl`.
    """
    # Importing `portable` has pinned this process, and children would inherit the pins.
    inherited = {name: value for name, value in os.environ.items() if name not in PINS}
    command = [*start, *options.split(), "--quiet", "--run-dir", str(run_dir)]
    done = subprocess.run(
        command, cwd=ROOT, env={**inherited, **variables}, capture_output=True, text=True
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if not line.startswith(QEMU)]
        raise Failed(f"exit code {done.returncode}: {' '.join(lines[-3:])}")
    return weights_digest(load_checkpoint(run_dir / "checkpoint.safetensors").agent["network"])


def emulator(folder: Path, cpu: str) -> tuple[str, ...]:
    """Return what starts `workflow_rl`, and all its processes, on an emulated processor."""
    python = folder / cpu
    python.write_text(
        f'#!/bin/sh\nexec {QEMU} -cpu {cpu} {shlex.quote(sys.executable)} "$@" 2>>"{python}.log"\n'
    )
    python.chmod(0o755)
    return QEMU, "-cpu", cpu, sys.executable, "-c", INSIDE, str(python)


def natively(folder: Path, options: str) -> list[str]:
    """Return what gives other weights than this processor as it is."""
    expected = train(folder / "as it is", options, {})
    tell("as it is", expected)
    found = []
    one_core = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *PYTHON)
    for name, variables in {**CAPPED, "one core": {}}.items():
        start = one_core if name == "one core" else PYTHON
        digest = train(folder / name, options, variables, start)
        found += tell(name, digest, expected)
    native = train(folder / "own", options, {NATIVE: "1"})
    can_fail = "identical: it has no others" if native == expected else "others: the check can fail"
    tell("its own kernels", native, note=can_fail)
    return found


def emulated(folder: Path, options: str, cpus: Sequence[str]) -> list[str]:
    """Return the processors that give other weights than this one."""
    expected = train(folder / "short", options, {})
    tell("as it is", expected)
    found = []
    for cpu in cpus:
        start = time.monotonic()
        digest = train(folder / f"run on {cpu}", options, {}, emulator(folder, cpu))
        found += tell(f"{cpu}, emulated", digest, expected, f"{time.monotonic() - start:.0f} s")
    try:
        train(folder / "too old", options, {}, emulator(folder, TOO_OLD))
        return [*found, f"{TOO_OLD} was not refused"]
    except Failed as error:
        is_refused = "exit code 2" in str(error) and "lacks AVX2" in str(error)
        click.echo(f"{TOO_OLD + ', emulated':<28}{'refused' if is_refused else error}")
        return found if is_refused else [*found, TOO_OLD]


def tell(name: str, digest: str, expected: str | None = None, note: str = "") -> list[str]:
    """Print a line, and return the name if the weights are not those expected."""
    is_other = expected is not None and digest != expected
    verdict = "" if expected is None else "OTHERS " if is_other else "identical "
    click.echo(f"{name:<28}{digest[:16]}  {verdict}{note}")
    return [name] if is_other else []


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--native-episodes", default=2400, help="24 an update.")
@click.option("--episodes", default=72, help="On emulated processors.")
@click.option("--max-steps", default=100, help="Of an episode.")
@click.option("--simulator", type=click.Choice(["cyborg", "compiled"]), default="cyborg")
@click.option("--network", default="mlp", help="Kind of network of the agent that is trained.")
@click.option("--cage4-champion", is_flag=True, help="Train CAGE-4's champion instead, for three "
              "updates of four episodes. Compiling takes up to an hour.")  # fmt: skip
@click.option("--cpu", multiple=True, default=EMULATED, metavar="NAME",
              help=f"One of `{QEMU} -cpu help` to emulate; may be given again.")  # fmt: skip
def main(
    native_episodes: int,
    episodes: int,
    max_steps: int,
    simulator: str,
    network: str,
    cage4_champion: bool,
    cpu: tuple[str, ...],
) -> None:
    common = f"train-async --simulator {simulator} --max-steps {max_steps} --n-workers 2"
    common += f" --network {network} --red-agent mixed --worker-timeout 7200"
    with tempfile.TemporaryDirectory() as name:
        folder, differing = Path(name), list[str]()
        if not cage4_champion:
            differing += natively(folder, f"{common} --total-episodes {native_episodes}")
        if shutil.which(QEMU) is None:
            click.echo(f"No processor is emulated: there is no {QEMU} (apt-get install qemu-user)")
        elif cage4_champion:
            differing += emulated(folder, CHAMPION, cpu)
        else:
            differing += emulated(folder, f"{common} --total-episodes {episodes}", cpu)
    if differing:
        raise Failed(f"other weights: {', '.join(differing)}")


if __name__ == "__main__":
    main()
