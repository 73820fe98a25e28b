"""Checks of an installation for CAGE-2: the simulators' speeds, and the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workflow_rl.portable import NATIVE, is_native
from workflow_rl.runs.installation import Finding

REFERENCE = Path(__file__).parent / "agent" / "released" / "reference_run.json"
"""The record of a short run, made with `train-async` and these options: --simulator compiled
--n-envs 24 --red-agent mixed --total-episodes 72. Both simulators play its episodes."""
SECONDS = 0.3
"""Length of the measurement of each simulator."""
LEAST_SPEEDUPS = {"cyborg": 3.0, "compiled": 50.0}
"""Measured were 28 and 3,800. Near 1, the fast path is not taken."""


def simulators() -> Iterator[Finding]:
    """Measure steps a second on one core: one env of CybORG, 100 envs of the compiled one."""
    from workflow_rl.cage2.env.environment import Cage2
    from workflow_rl.measuring.benchmark import steps_per_second
    from workflow_rl.runs.config import TrainConfig

    rates = {}
    for simulator, n_envs in (("cyborg-stock", 1), ("cyborg", 1), ("compiled", 100)):
        env_args = {"simulator": simulator}
        config = TrainConfig(
            "async", n_envs, env=Cage2.env_id, env_args=env_args, total_episodes=n_envs
        )
        rates[simulator] = steps_per_second(config, SECONDS)
    fixes = {
        "cyborg": "pip install csle-cyborg==0.0.3 anew",
        "compiled": "end other programs, and check again",
    }
    for simulator, fix in fixes.items():
        yield speed_finding(simulator, rates[simulator], rates["cyborg-stock"], fix)


def speed_finding(simulator: str, rate: float, stock: float, fix: str) -> Finding:
    """Compare steps a second with those of CybORG as published."""
    text = f"{rate:,.0f} steps/s on one core, {rate / stock:,.0f} times CybORG as published"
    return Finding(simulator, text, fix if rate / stock < LEAST_SPEEDUPS[simulator] else "")


def weights() -> Iterator[Finding]:
    """Compare the weights of the reference run with those of this machine, on both simulators."""
    from workflow_rl.commands.verify import config_of, differing, replayed
    from workflow_rl.runs.machine import machine
    from workflow_rl.runs.run_record import read_record

    record = read_record(REFERENCE)
    config, expected = config_of(record), record.weights
    differences = ", ".join(differing(record.machines[0], machine()))
    fix = f"look at what differs from where they were made: {differences}"
    if is_native():
        fix = f"unset {NATIVE}: with it, weights are this processor's own"
    n_updates = len(expected) - 1
    for simulator in ("compiled", "cyborg"):
        env_args = {**config.env_args, "simulator": simulator}
        here = replayed(config.changed(env_args=env_args), n_updates)
        if here == expected:
            yield Finding("weights", f"as everywhere, after {n_updates} updates on {simulator}")
            continue
        first = next(n for n in range(n_updates + 1) if here[n] != expected[n])
        when = f"after update {first}" if first else "before the first update"
        yield Finding("weights", f"not those of other machines {when} on {simulator}", fix)
