"""Check an installation: the speeds of CAGE-2's simulators, and the weights of a reference run."""

from collections.abc import Iterator
from pathlib import Path

from workflow_rl.commands.doctor import Finding
from workflow_rl.portable import NATIVE, is_native

REFERENCE = Path(__file__).parents[1] / "agent" / "released" / "reference_run.json"
"""The record of a short run of `train-async --simulator compiled --n-envs 24 --red-agent mixed
--total-episodes 72`. The check repeats the run on both simulators."""
SECONDS = 0.3
"""The duration of each simulator's measurement, in seconds."""
LEAST_SPEEDUP = 15.0
"""100 compiled envs have to be this many times as fast as one env of CybORG. 130 was measured."""


def simulators() -> Iterator[Finding]:
    """Measure the steps a second of one env of CybORG and of 100 compiled envs, on one core."""
    from workflow_rl.cage2.env.environment import Cage2
    from workflow_rl.measuring.benchmark import steps_per_second
    from workflow_rl.runs.config import TrainConfig

    rates = {}
    for simulator, n_envs in (("cyborg", 1), ("compiled", 100)):
        env_args = {"simulator": simulator}
        config = TrainConfig(
            "async", n_envs, env=Cage2.env_id, env_args=env_args, total_episodes=n_envs
        )
        rates[simulator] = steps_per_second(config, SECONDS)
    yield Finding("cyborg", f"{rates['cyborg']:,.0f} steps/s on one core", "")
    yield speed_finding(rates["compiled"], rates["cyborg"])


def speed_finding(compiled: float, cyborg: float) -> Finding:
    """Return a finding about the ratio of two speeds in steps a second."""
    ratio = compiled / cyborg
    text = f"{compiled:,.0f} steps/s on one core, {ratio:,.0f} times cyborg"
    fix = "end other programs, and check again" if ratio < LEAST_SPEEDUP else ""
    return Finding("compiled", text, fix)


def weights() -> Iterator[Finding]:
    """Repeat the reference run here on both simulators, and compare the weights with its record."""
    from workflow_rl.commands.verify import config_of, differing, replayed
    from workflow_rl.machine_facts import machine
    from workflow_rl.runs.folder import read_record

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
