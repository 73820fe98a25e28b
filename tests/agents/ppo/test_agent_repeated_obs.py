"""PPO computes observations that repeat once, and may learn from them as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.agents.examples import example_trajectory
from tests.agents.ppo.small_agents import NO_CLIPPING, ONE_STEP, example_agent, gradients_of_steps
from workflow_rl.agents.ppo.minibatches import Minibatch
from workflow_rl.agents.trajectory import Trajectory


def repeating_trajectories() -> list[Trajectory]:
    """Of few observations, of a kind that repeats."""
    trajectories = [example_trajectory(np.sin(np.arange(20.0) + n), seed=n) for n in range(3)]
    bits = np.random.default_rng(0).integers(2, size=(5, 6)).astype(np.uint8)
    return [
        t._replace(obs=bits[(np.arange(t.length) + n) % 5], last_obs=bits[n])
        for n, t in enumerate(trajectories)
    ]


def test_a_minibatch_of_whole_observations_has_the_gradient_of_its_steps():
    steps, observations = (
        gradients_of_steps(
            example_agent(ONE_STEP, minibatches_of=kind, max_grad_norm=NO_CLIPPING),
            repeating_trajectories(),
        )[0]
        for kind in ("steps", "observations")
    )
    for name, gradient in observations.items():
        assert torch.allclose(gradient, steps[name], rtol=1e-4, atol=1e-6)


def test_minibatches_of_whole_observations_share_none(monkeypatch):
    agent = example_agent(epochs=2, minibatch_size=20, minibatches_of="observations")
    seen = []
    learn = agent._learn_values

    def watched(minibatch: Minibatch) -> torch.Tensor:
        seen.append({row.tobytes() for row in minibatch.obs.numpy()})
        return learn(minibatch)

    monkeypatch.setattr(agent, "_learn_values", watched)
    agent.update(repeating_trajectories(), 0.0)
    assert len(seen) == 6
    for epoch in (seen[:3], seen[3:]):
        assert sum(map(len, epoch)) == len(set.union(*epoch)) == 5
    assert seen[:3] != seen[3:]


def test_repeated_observations_learn_as_if_each_were_computed_by_itself(monkeypatch):
    """Against the networks run over every step's row: equal to rounding."""
    trajectories = [example_trajectory(np.sin(np.arange(20.0) + n), seed=n) for n in range(3)]
    repeated = [t._replace(obs=t.obs[np.arange(t.length) % 4]) for t in trajectories]
    agent, plain = example_agent(), example_agent()
    metrics = agent.update(repeated, 0.0)

    def every_row(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows, np.arange(len(rows))

    monkeypatch.setattr("workflow_rl.agents.ppo.agent.distinct_rows", every_row)
    expected = pytest.approx(metrics, rel=1e-4, abs=1e-5, nan_ok=True)
    assert plain.update(repeated, 0.0) == expected
    for ours, theirs in zip(agent.network.parameters(), plain.network.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
