"""An agent improved by search: what it meets, what is found there, and that it learns it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.cage2.agent import improve as improving
from workflow_rl.cage2.agent import rollouts
from workflow_rl.cage2.agent.improve import N_PLACES, State, better_choice, learned, meet
from workflow_rl.cage2.agent.rollouts import Believed, chosen_in
from workflow_rl.cage2.commands.improve import improve
from workflow_rl.cage2.compiled.blue_belief import N_SHOWN
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.runs.saved_agent import load_saved

OPENING = ("Sleep", "DecoyApache User2")
TIMED = Cage2("attackers", 100, "compiled", "belief", "by-host-timed", OPENING)
UNTIMED = Cage2("attackers", 100, "compiled", "belief", "by-host", OPENING)
SLEEPS = PolicyParameters(
    (np.zeros((N_SHOWN, 45), np.float32),), (np.zeros(45, np.float32),), "tanh"
)


def random_policy(n_inputs: int) -> PolicyParameters:
    random = np.random.default_rng(0)
    sizes = (n_inputs, 16, 45)
    return PolicyParameters(
        tuple(random.normal(size=shape).astype(np.float32) for shape in pairwise(sizes)),
        tuple(np.zeros(n, np.float32) for n in sizes[1:]),
        "tanh",
    )


def test_what_it_should_do_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """New choices and old ones; and the same twice."""
    monkeypatch.setattr(improving, "N_STEPS_OF_LEARNING", 300)
    monkeypatch.setattr(improving, "LEARNING_RATE", 1e-2)
    policy = random_policy(30)
    bits = np.random.default_rng(1).integers(0, 2, (60, 30)).astype(np.uint8)
    choices = chosen_in(policy, bits)
    choices[::10] = 7
    weights = np.linspace(0.01, 3, 60)
    after = learned(policy, bits, choices, weights)
    assert (chosen_in(after, bits) == choices).all()
    monkeypatch.setattr(improving, "N_STEPS_OF_LEARNING", 10)
    one, again = (learned(policy, bits, choices, weights) for _ in range(2))
    for first, second in zip(one.weights + one.biases, again.weights + again.biases, strict=True):
        assert (first == second).all()


@pytest.mark.parametrize(
    ("gains", "gain"),
    [
        ((1.0, 1.0, 1.0, 4.0), 1.75),  # The mean's error is 1.5 / sqrt(4).
        ((1.0, 1.0, 1.0, 6.0), None),  # 2.25, and two errors are 2.5.
        ((-1.0, -1.0, -1.0, -4.0), None),
    ],
)
def test_a_choice_is_better_if_it_gains_two_standard_errors(
    gains: tuple[float, ...], gain: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In four places, in each of which it always gains the same; the last step is in one cell."""

    def imagined(*arguments: Any) -> Any:
        _, _, where, first, n_steps, n_rollouts, _ = arguments
        gained = np.where(np.array(first) == 1, gains[where.obs], 0.0)
        return np.broadcast_to(gained[:, None, None], (len(first), n_rollouts, n_steps))

    monkeypatch.setattr(rollouts, "imagined_rewards", imagined)
    monkeypatch.setattr(rollouts, "that_matter", lambda *arguments: {0: 0, 1: 2})
    places: Any = [Believed(None, None, place, 99) for place in range(4)]  # type: ignore[arg-type]
    found = better_choice((0, State(0, places=places)), SLEEPS, "by-host", 30, 0)
    assert (None if found is None else found.gain) == gain


@pytest.mark.slow
def test_what_it_meets() -> None:
    states = meet(SLEEPS, UNTIMED, 5, 0)
    # 30 steps count in three cells, 20 in two, 50 in one; two are the opening's.
    weight = sum(state.weight for state in states.values())
    assert weight == pytest.approx(2 * (3 * 28 + 2 * 20 + 50))
    assert all(len(state.places) == min(state.count, N_PLACES) for state in states.values())
    assert max(state.count for state in states.values()) > N_PLACES
    shown = np.array([np.frombuffer(key, np.uint8) for key in states])
    assert shown.shape[1] == N_SHOWN
    assert all(place.n_steps >= 2 for state in states.values() for place in state.places)


@pytest.mark.slow
def test_to_sleep_is_not_the_best() -> None:
    states = meet(SLEEPS, UNTIMED, 20, 0).values()
    late = [one for one in states if all(20 <= place.n_steps < 30 for place in one.places)]
    found = [better_choice((n, one), SLEEPS, "by-host", 30, 0) for n, one in enumerate(late[:6])]
    better = {n: one for n, one in enumerate(found) if one is not None}
    assert len(better) >= 3
    assert min(one.gain for one in better.values()) > 1
    assert {one.own for one in better.values()} == {"Sleep"}
    number = next(iter(better))
    again = better_choice((number, late[number]), SLEEPS, "by-host", 30, 0)
    assert again == better[number]


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improving, "N_STEPS_OF_LEARNING", 300)
    about = {"env": TIMED.env_id, "env_args": dict(TIMED.args)}
    save_policy(tmp_path / "agent.npz", random_policy(N_SHOWN), about)
    written = []
    for jobs in (1, 2):
        arguments = [str(tmp_path / "agent.npz"), str(tmp_path / f"{jobs}.npz")]
        arguments += ["--episodes", "2", "--steps", "12", "--judges", "50", "--jobs", str(jobs)]
        result = CliRunner().invoke(improve, arguments)
        assert result.exit_code == 0, result.output
        assert "have a better choice" in result.output
        assert "50 episodes against each attacker" in result.output
        policy, environment = load_saved(tmp_path / f"{jobs}.npz")
        assert environment == TIMED, "the clock that it plays by is kept"
        written.append(policy.parameters)
    for one, other in zip(written[0].weights, written[1].weights, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize(("after", "written"), [(-3.0, False), (-2.0, False), (-1.5, True)])
def test_only_an_agent_that_scores_better_is_written(
    after: float, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"env": TIMED.env_id, "env_args": dict(TIMED.args)}
    save_policy(tmp_path / "agent.npz", SLEEPS, about)
    found = improving.Improved(SLEEPS, 1, 1, 0, {})
    monkeypatch.setattr(improving, "improved", lambda *_: found)
    monkeypatch.setattr(improving, "compared", lambda *_: improving.Judgement(-2.0, after, 0.1))
    new = tmp_path / "new.npz"
    save_policy(new, random_policy(N_SHOWN), about)
    before = new.read_bytes()
    result = CliRunner().invoke(improve, [str(tmp_path / "agent.npz"), str(new)])
    assert result.exit_code == (0 if written else 1), result.output
    assert ("no better agent was found" in result.output) is not written
    assert (new.read_bytes() == before) is not written
    new.write_bytes(b"the user's")
    result = CliRunner().invoke(improve, [str(tmp_path / "agent.npz"), str(new)])
    assert result.exit_code == 2
    assert "new.npz is no policy file: it is left as it is" in " ".join(result.output.split())
    assert new.read_bytes() == b"the user's"


def test_what_it_cannot_improve(tmp_path: Path) -> None:
    for name, args in (
        ("blind.npz", {}),
        ("short.npz", {**TIMED.args, "max_steps": 50}),
        ("one.npz", {**TIMED.args, "red_agent": "B_lineAgent"}),
        ("late.npz", {**TIMED.args, "opening": ("Sleep",) * 30}),
    ):
        save_policy(tmp_path / name, SLEEPS, {"env": TIMED.env_id, "env_args": args})
    ordered = {**TIMED.args, "obedience": "penalty"}
    about = {"env": "workflow_rl/OrderedCAGE2-v0", "env_args": ordered}
    save_policy(tmp_path / "ordered.npz", random_policy(N_SHOWN + 15), about)
    wide = random_policy(N_SHOWN + 1)
    save_policy(tmp_path / "wide.npz", wide, {"env": TIMED.env_id, "env_args": dict(TIMED.args)})
    agents = [
        (f"{name}.npz", "new.npz") for name in ("blind", "short", "one", "late", "ordered", "wide")
    ]
    for agent, output in (*agents, ("none", "new.npz"), ("blind.npz", "new.txt")):
        result = CliRunner().invoke(improve, [str(tmp_path / agent), str(tmp_path / output)])
        assert result.exit_code == 2, result.output
        assert (agent if output.endswith("npz") else output) in result.output
        assert not (tmp_path / output).exists()
