"""The command `doctor`: check this installation."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import PYTHON
from workflow_rl.environments.source import guests

LEAST_MEMORY = 2**30
"""Bytes that a run needs."""
REQUIREMENTS = Path(__file__).parents[1] / "requirements.txt"
"""In a checkout, a link to the file beside the package."""
INSTALL = f"pip install -r {REQUIREMENTS}"


class Finding(NamedTuple):
    """What one check has found. fix: the likeliest fix if something is wrong, or else empty."""

    subject: str
    text: str
    fix: str = ""


def findings_of(check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield what a check finds. A check that cannot be made is a finding too."""
    try:
        yield from check()
    except ImportError as error:
        yield Finding(check.__name__, f"cannot be checked: {error}", INSTALL)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        yield Finding(check.__name__, f"cannot be checked: {problem}", "see the error")


def versions() -> Iterator[Finding]:
    """Check Python's version, and those of the packages whose versions are pinned."""
    import platform

    from workflow_rl.machine_facts import package_version

    lines = REQUIREMENTS.read_text().splitlines()
    matches = (re.match(r"([\w.-]+)==([\w.]+)", line) for line in lines)
    # These versions give the stored weights. The package's metadata allow others.
    pinned = {match[1]: match[2] for match in matches if match}
    installed = {name: package_version(name) for name in pinned}
    other = {
        name: f"{name} {installed[name]} instead of {version}"
        for name, version in pinned.items()
        # "2.13.0+cpu" is torch 2.13.0 for machines without a GPU.
        if installed[name].partition("+")[0] != version
    }
    shown = [f"{name} {installed[name]}" for name in ("numpy", "torch", "numba", "csle-cyborg")
             if name in installed and name not in other]  # fmt: skip
    text = ", ".join([f"Python {platform.python_version()}", *shown, *other.values()])
    yield Finding("versions", text, INSTALL if other else "")


def processor_and_cores() -> Iterator[Finding]:
    """Check the processor and the kernels that libraries use, and count the cores."""
    from workflow_rl import portable
    from workflow_rl.machine_facts import machine, processor

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
    facts = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line
    )
    free = 1024 * int(facts["MemAvailable"].split()[0])
    fix = "end other programs: a run takes about 1 GB" if free < LEAST_MEMORY else ""
    yield Finding("memory", f"{free / 2**30:.1f} GB free", fix)


def simulators_python(python: str) -> Iterator[Finding]:
    """Check an interpreter that plays environments: see `environments.simulator`."""
    from workflow_rl.environments.simulator import versions_of, what_it_lacks

    found = versions_of(python)
    lacks = what_it_lacks(python, found)
    has = [f"{name} {version}" for name, version in found.items() if version is not None]
    libraries = found["gymnasium"] or found["gym"]
    note = "" if libraries else "; neither gymnasium nor gym: only module:function can be played"
    yield Finding("env-python", f"{python}: {', '.join(has)}{note}", lacks or "")


@click.command(cls=ClearCommand)
@click.option(
    "--env-python",
    type=PYTHON,
    default="",
    metavar="PATH",
    help="Check this Python interpreter instead, as one that plays environments.",
)
def doctor(env_python: str) -> None:
    """Check this installation: versions, machine, simulators' speeds, and the same weights.

    A short run is trained, and its weights are compared with those that every processor gives. The
    command exits with 1 if something is wrong, and names the likeliest fix.
    """
    wrong = 0
    machine = versions, processor_and_cores, memory
    checks: list[Callable[[], Iterable[Finding]]]
    if env_python:

        def python() -> Iterable[Finding]:
            return simulators_python(env_python)

        checks = [python]
    else:
        of_guests = [check for guest in guests.importable() for check in guest.findings()]
        checks = [*machine, *of_guests]
    for check in checks:
        for finding in findings_of(check):
            wrong += bool(finding.fix)
            _show(finding)
    if wrong:
        click.echo(f"Wrong: {wrong}.")
        raise SystemExit(1)
    click.echo("All is well.")


def _show(finding: Finding) -> None:
    mark = "WRONG" if finding.fix else "ok   "
    text = textwrap.fill(finding.text, 100, initial_indent=" " * 20, subsequent_indent=" " * 20)
    click.echo(f"{finding.subject:<13}{mark}  {text.strip()}")
    if finding.fix:
        fix = textwrap.fill(f"fix: {finding.fix}", 100, subsequent_indent=" " * 5)
        click.echo(textwrap.indent(fix, " " * 20))
