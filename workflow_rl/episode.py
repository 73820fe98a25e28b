"""An episode as a pure function: (env, actor, episode's seeds) -> trajectory."""

from __future__ import annotations

import time
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from agents.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.scenario2 import RED_AGENTS

MIXED = "mixed"

Env: TypeAlias = gymnasium.Env[Any, Any]


class SeedStream(IntEnum):
    """Keeps the seeds of unrelated uses apart; part of what a run's results depend on."""

    TRAINING = 0
    EVALUATION = 1
    BENCHMARK = 2


class EpisodeSpec(NamedTuple):
    """All that decides an episode besides the policy."""

    number: int
    red_agent: str
    env_seed: int
    action_seed: int


def episode_spec(
    run_seed: int, number: int, red_agent: str, stream: SeedStream = SeedStream.TRAINING
) -> EpisodeSpec:
    """Episode `number` of a run. It depends on nothing else: not on workers, nor on order.

    `red_agent` "mixed" draws one of the three, each as likely.
    """
    sequence = np.random.SeedSequence([run_seed, stream, number])
    env_seed, action_seed, choice = (int(word) for word in sequence.generate_state(3))
    if red_agent == MIXED:
        red_agent = RED_AGENTS[choice % len(RED_AGENTS)]
    return EpisodeSpec(number, red_agent, env_seed, action_seed)


class Transition(NamedTuple):
    """What one env answers: to a reset (reward 0, not terminated, not truncated) or to a step."""

    obs: NDArray[np.generic]
    reward: float
    terminated: bool
    truncated: bool


def reset_env(env: Env, spec: EpisodeSpec) -> Transition:
    """Begin the episode."""
    obs, _ = env.reset(seed=spec.env_seed, options={"red_agent": spec.red_agent})
    return Transition(obs, 0.0, False, False)


def step_env(env: Env, action: int) -> Transition:
    """One env transition."""
    obs, reward, terminated, truncated, _ = env.step(action)
    return Transition(obs, float(reward), terminated, truncated)


class EpisodeRecorder:
    """Gathers one episode step by step. `last` is what the env answered last: its
    `obs` [D] is the one to act on next."""

    def __init__(self, spec: EpisodeSpec, first: Transition) -> None:
        self.spec = spec
        self.last = first
        self.actions: list[int] = []
        self.busy_seconds = 0.0
        self._obs: list[NDArray[np.generic]] = []
        self._log_probs: list[float] = []
        self._rewards: list[float] = []

    @property
    def finished(self) -> bool:
        """Whether the episode has ended."""
        return self.last.terminated or self.last.truncated

    def record(self, action: int, log_prob: float, transition: Transition) -> None:
        """Add the step that `action` led to."""
        self._obs.append(self.last.obs)
        self.actions.append(action)
        self._log_probs.append(log_prob)
        self._rewards.append(transition.reward)
        self.last = transition

    def trajectory(self, policy_version: int) -> Trajectory:
        """The finished episode."""
        assert self.finished
        return Trajectory(
            episode=self.spec.number,
            red_agent=self.spec.red_agent,
            policy_version=policy_version,
            obs=np.array(self._obs),
            action=np.array(self.actions, np.int64),
            log_prob=np.array(self._log_probs, np.float32),
            reward=np.array(self._rewards, np.float64),
            last_obs=self.last.obs,
            terminated=self.last.terminated,
            truncated=self.last.truncated,
            busy_seconds=self.busy_seconds,
        )


def play_episode(env: Env, actor: Actor, spec: EpisodeSpec) -> Trajectory:
    """One complete episode, acting with `actor`."""
    start = time.perf_counter()
    actor.reset(spec.action_seed)
    episode = EpisodeRecorder(spec, reset_env(env, spec))
    while not episode.finished:
        action, log_prob = actor.act(episode.last.obs)
        episode.record(action, log_prob, step_env(env, action))
    episode.busy_seconds = time.perf_counter() - start
    return episode.trajectory(actor.policy_version)
