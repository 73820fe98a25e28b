"""The command that says whether all is well here: packages, machine, simulators, weights."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

REFERENCE = Path(__file__).parents[1] / "cage2" / "agent" / "released" / "reference_run.json"
"""A short run's record, made with `train-async` and these options: --simulator compiled --n-envs 24
--red-agent mixed --total-episodes 72. CybORG plays the same episodes, so one serves both."""
SECONDS = 0.3
"""Of each simulator's measurement."""
LEAST_MEMORY = 2**30
# Measured: 24 and 9,000. Anything near 1 is a fast path that is none.
LEAST_SPEEDUPS = {"cyborg": 3.0, "compiled": 50.0}
_PLACES = [folder / "requirements.txt" for folder in Path(__file__).resolve().parents[1:3]]
REQUIREMENTS = _PLACES[0] if _PLACES[0].exists() else _PLACES[1]
"""Within the package where it is installed, see setup.py; beside it in a checkout."""
INSTALL = f"pip install -r {REQUIREMENTS}"


class Finding(NamedTuple):
    """What one check has found. fix: the likeliest, if something is wrong; else empty."""

    subject: str
    text: str
    fix: str = ""


@click.command()
def doctor() -> None:
    """Check this installation: versions, machine, simulators' speeds, and the same weights.

    A short run is trained, and its weights compared with those that every processor gives. Exits
    with 1 if something is wrong, after the likeliest fix for it.
    """
    wrong = 0
    for check in (versions, machine, memory, simulators, weights):
        for finding in _findings(check):
            wrong += bool(finding.fix)
            _show(finding)
    if wrong:
        click.echo(f"Wrong: {wrong}.")
        raise SystemExit(1)
    click.echo("All is well.")


def _findings(check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The check's; one that cannot be made is a finding too."""
    try:
        yield from check()
    except ImportError as error:
        yield Finding(check.__name__, f"cannot be checked: {error}", INSTALL)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        yield Finding(check.__name__, f"cannot be checked: {problem}", "see the error")


def _show(finding: Finding) -> None:
    mark = click.style("WRONG", fg="red") if finding.fix else click.style("ok   ", fg="green")
    text = textwrap.fill(finding.text, 100, initial_indent=" " * 20, subsequent_indent=" " * 20)
    click.echo(f"{finding.subject:<13}{mark}  {text.strip()}")
    if finding.fix:
        fix = textwrap.fill(f"fix: {finding.fix}", 100, subsequent_indent=" " * 5)
        click.echo(textwrap.indent(fix, " " * 20))


def versions() -> Iterator[Finding]:
    """Python's, and those of the packages whose versions are pinned."""
    import platform

    from workflow_rl.runs.machine import package_version

    pinned = pinned_versions()
    installed = {name: package_version(name) for name in pinned}
    other = {
        name: f"{name} {installed[name]} instead of {version}"
        for name, version in pinned.items()
        # "2.13.0+cpu" is torch 2.13.0, for machines without a GPU.
        if installed[name].partition("+")[0] != version
    }
    shown = [f"{name} {installed[name]}" for name in ("numpy", "torch", "numba", "csle-cyborg")
             if name in installed and name not in other]  # fmt: skip
    text = ", ".join([f"Python {platform.python_version()}", *shown, *other.values()])
    yield Finding("versions", text, INSTALL if other else "")


def pinned_versions() -> dict[str, str]:
    """Those that give the stored weights: the package's metadata allow others too."""
    lines = REQUIREMENTS.read_text().splitlines()
    matches = (re.match(r"([\w.-]+)==([\w.]+)", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def machine() -> Iterator[Finding]:
    """The processor, what libraries are held to, and cores."""
    from workflow_rl import portable
    from workflow_rl.runs.machine import machine, processor

    here = machine()
    kernels = f"kernels: NumPy {here['numpy_kernels']}, torch {here['torch_kernels']}"
    fix = ""
    if portable.is_native():
        fix = f"unset {portable.NATIVE}, unless weights of this processor's own are wanted"
    elif not portable.is_supported():
        fix = f"a processor with AVX2 and FMA; or {portable.NATIVE}=1, for weights of its own"
    elif here["departures"]:
        fix = f"unset what differs: {'; '.join(here['departures'])}"
    yield Finding("processor", f"{processor()}; {kernels}", fix)
    yield Finding("cores", f"{here['cores']} for this process")


def memory() -> Iterator[Finding]:
    """What is free, as far as the system tells."""
    facts = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line
    )
    free = 1024 * int(facts["MemAvailable"].split()[0])
    fix = "end other programs: a run takes about 1 GB" if free < LEAST_MEMORY else ""
    yield Finding("memory", f"{free / 2**30:.1f} GB free", fix)


def simulators() -> Iterator[Finding]:
    """Their steps a second, one env of CybORG and 100 of the compiled one, on one core."""
    import numba

    from workflow_rl.cage2.env.cage2_env import Cage2Env
    from workflow_rl.cage2.simulator_speed import (
        CYBORGS,
        MAX_STEPS,
        STOCK,
        StaggeredEnvs,
        play_compiled,
        play_cyborg,
        random_actions,
    )

    rates = {
        name: play_cyborg(
            Cage2Env("B_lineAgent", MAX_STEPS, simulator), random_actions(1, 0), SECONDS
        )
        for name, simulator in CYBORGS.items()
    }
    yield _speed("cyborg", rates["cyborg"], rates[STOCK], "pip install csle-cyborg==0.0.3 anew")
    envs = StaggeredEnvs("B_lineAgent", 100, 0)
    rate = play_compiled(envs, random_actions(100, 0), SECONDS)
    disabled = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
    fix = "unset NUMBA_DISABLE_JIT" if disabled else "end other programs, and check again"
    yield _speed("compiled", rate, rates[STOCK], fix)


def _speed(simulator: str, rate: float, stock: float, fix: str) -> Finding:
    text = f"{rate:,.0f} steps/s on one core, {rate / stock:,.0f} times CybORG as published"
    return Finding(simulator, text, fix if rate / stock < LEAST_SPEEDUPS[simulator] else "")


def weights() -> Iterator[Finding]:
    """Whether both simulators give the reference run's weights here."""
    import dataclasses

    from workflow_rl.commands.verify import config_of, differing, replayed
    from workflow_rl.runs.machine import machine
    from workflow_rl.runs.run_record import read_record

    record = read_record(REFERENCE)
    config = config_of(record)
    n_updates = len(record.weights) - 1
    for simulator in ("compiled", "cyborg"):
        env_args = {**config.env_args, "simulator": simulator}
        here = replayed(dataclasses.replace(config, env_args=env_args), n_updates)
        if here == record.weights:
            yield Finding("weights", f"as everywhere, after {n_updates} updates on {simulator}")
            continue
        first = next(n for n in range(n_updates + 1) if here[n] != record.weights[n])
        when = f"after update {first}" if first else "before the first update"
        differences = differing(record.machines[0], machine())
        yield Finding(
            "weights",
            f"not those of other machines {when} on {simulator}",
            f"what differs from where they were made: {', '.join(differences)}",
        )
