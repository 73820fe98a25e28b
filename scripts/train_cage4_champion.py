"""Train the networks of CAGE Challenge 4's champion: from the rules to PPO.

python scripts/train_cage4_champion.py --out champion.npz --updates 100

The networks first copy the team of rules. Then PPO (Schulman et al. 2017, equation 7) improves
them. A critic that sees the true state gives the advantages (GAE, Schulman et al. 2016, equation
16), in steps; each agent has its own reward. The two networks do not share weights.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.cage4.agent import batched
from workflow_rl.cage4.agent.batched import Decisions
from workflow_rl.cage4.agent.champion import FIRST_ACTION, load_weights, save_weights
from workflow_rl.cage4.agent.memory import CLOCK, END, MEMORY, N_CLOCK, N_HOSTS
from workflow_rl.cage4.agent.network import POOLED, SHAPES, Weights
from workflow_rl.cage4.agent.privileged import N_SEEN, look
from workflow_rl.cage4.agent.rules import BatchedRuleTeam
from workflow_rl.cage4.compiled.simulator import BatchedSimulator

GROUPS = (slice(0, 4), slice(4, 5))
TAUGHT_SEED, FIRST_SEED, FIRST_OF_RUN = 20_000_000, 30_000_000, 1_000_000
SCORED_SEED, AT_ONCE = 4_000_000, 125
KEPT = 0.15
"""The share of the decisions to wait that are learned from. Each counts for all."""
DISCOUNT, TRACE = 0.995, 0.92
RATE, CRITIC_RATE, COPY_RATE = 1.5e-3, 2e-3, 3e-3
CLIP, ENTROPY, MOST_DIVERGENCE, MOST_ADVANTAGE, GRADIENT = 0.2, 0.006, 0.03, 8.0, 0.5
EPOCHS, MINIBATCH, COPY_EPOCHS, COPY_MINIBATCH = 2, 2048, 4, 512
CRITIC_STATES, CRITIC_MINIBATCH, VALUE_SCALE = 40_000, 1024, 10.0
N_INPUTS = N_SEEN + N_CLOCK + 16
_RESTORES_FROM = FIRST_ACTION[:, 1]
_RESTORES_TO = _RESTORES_FROM + N_HOSTS * np.array([1, 1, 1, 1, 3])


class Episodes(NamedTuple):
    """totals: `[N]`. seen: `[499, N, 5, 20]`. rewards: `[498, N, 5]`. rooms: two Decisions."""

    totals: NDArray[np.float64]
    seen: NDArray[np.float32]
    rewards: NDArray[np.float32]
    rooms: tuple[Decisions, Decisions]


def play(
    weights: Any, seeds: list[int], mode: int = batched.GREEDY, kept: float = KEPT
) -> Episodes:
    """Play an episode of each seed. In the mode TAUGHT, the team of rules plays."""
    n = len(seeds)
    simulator, teacher = BatchedSimulator(n), BatchedRuleTeam()
    rooms = batched.room_for(450 * n, N_HOSTS), batched.room_for(250 * n, 3 * N_HOSTS)
    seen, rewards = np.zeros((END + 1, n, 5, N_SEEN), np.float32), np.zeros((END, n, 5), np.float32)
    memories, actions = np.zeros(n, MEMORY), np.zeros((n, 5), np.int64)
    obs, totals = simulator.reset(seeds), np.zeros(n)
    batched.begin_all(memories, simulator.masks)
    teacher.reset(simulator.masks)
    for step in range(END):
        taught = teacher.act(obs) if mode == batched.TAUGHT else actions
        batched.decide(memories, obs, weights, mode, taught, kept, rooms, actions)
        if mode == batched.TAUGHT:
            actions[:] = taught
        obs, gained, _ = simulator.step(actions)
        totals += gained.sum(1)
        restores = (actions >= _RESTORES_FROM) & (actions < _RESTORES_TO)
        look(simulator.states, restores, seen[step + 1], rewards[step])
    return Episodes(totals, seen, rewards, rooms)


def logits(w: dict[str, torch.Tensor], hosts: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
    """`network.logits` of many decisions."""
    first = hosts @ w["host"] + (context @ w["host_context"] + w["host_bias"])[:, None]
    first = torch.relu(first) * hosts[..., :1]
    pool = torch.cat([first.sum(1) / POOLED, first.max(1).values], 1)
    mixed = pool @ w["mixed_pool"] + context @ w["mixed_context"] + w["mixed_bias"]
    acts = torch.relu(first @ w["mixed"] + mixed[:, None]) @ w["act"] + w["act_bias"]
    wait = torch.relu(pool @ w["wait"] + context @ w["wait_context"] + w["wait_bias"])
    return torch.cat([wait @ w["wait_out"], acts[..., 0], acts[..., 1]], 1)


def fresh_weights(draw: np.random.Generator) -> Weights:
    """Return weights to begin with."""
    scales = {"act": 0.1, "wait_out": 0.1, "host_context": 0.7, "mixed_context": 0.7}
    return tuple(
        (
            draw.normal(size=shape)
            * (np.sqrt(2 / shape[0]) * scales.get(name, 1.0) if len(shape) == 2 else 0)
        ).astype(np.float32)
        for name, shape in SHAPES.items()
    )


def score(weights: Any, episodes: int) -> str:
    """Return in words how the weights score on seeds that nothing was learned from."""
    seeds = range(SCORED_SEED, SCORED_SEED + episodes)
    parts = [list(seeds[i : i + AT_ONCE]) for i in range(0, episodes, AT_ONCE)]
    totals = np.concatenate([play(weights, part, kept=-1.0).totals for part in parts])
    half = 1.96 * totals.std(ddof=1) / episodes**0.5
    return f"{totals.mean():.1f} ± {half:.1f} (median {np.median(totals):.0f})"


class Learner:
    """One network with its critic. group: the agents that it plays."""

    def __init__(self, weights: Weights, which: int) -> None:
        self.group = GROUPS[which]
        self.which = which
        self.w = {
            name: torch.tensor(array, requires_grad=True)
            for name, array in zip(SHAPES, weights, strict=True)
        }
        self.critic = torch.nn.Sequential(
            torch.nn.Linear(N_INPUTS, 48),
            torch.nn.Tanh(),
            torch.nn.Linear(48, 48),
            torch.nn.Tanh(),
            torch.nn.Linear(48, 1),
        )
        self._actor_steps = torch.optim.Adam(self.w.values(), RATE, eps=1e-5)
        self._critic_steps = torch.optim.Adam(self.critic.parameters(), CRITIC_RATE)

    @property
    def weights(self) -> Weights:
        return tuple(np.ascontiguousarray(w.detach().numpy()) for w in self.w.values())

    def _inputs(self, seen: NDArray[np.float32]) -> torch.Tensor:
        """Return what the critic sees, `[499, N, agents, N_INPUTS]`."""
        seen = seen[:, :, self.group].copy()
        clock = np.broadcast_to(
            CLOCK[: END + 1, None, self.group], (*seen.shape[:-1], CLOCK.shape[-1])
        )
        seen[..., 0] /= 2
        seen[..., [1, *range(3, 13)]] /= 3
        held = seen[..., 3:11]
        parts = [seen, clock, held * clock[..., :1], held * clock[..., 5:6]]
        return torch.from_numpy(np.concatenate(parts, -1))

    def advantages(self, episodes: Episodes) -> tuple[NDArray[np.float32], float]:
        """Return advantages `[498, N, agents]`, and the share of variance that the critic
        explained. The critic learns from the returns."""
        inputs, rewards = self._inputs(episodes.seen), episodes.rewards[:, :, self.group]
        with torch.no_grad():
            values = VALUE_SCALE * self.critic(inputs)[..., 0].numpy()
        values[-1] = 0
        advantages, later = np.zeros_like(rewards), np.zeros_like(rewards[0])
        for step in reversed(range(END)):
            surprise = rewards[step] + DISCOUNT * values[step + 1] - values[step]
            later = surprise + DISCOUNT * TRACE * later
            advantages[step] = later
        returns = torch.from_numpy((advantages + values[:END]).ravel())
        explained = 1 - float(advantages.var() / returns.var())
        states = inputs[:END].reshape(-1, N_INPUTS)
        chosen = torch.randperm(len(states))[:CRITIC_STATES]
        for part in chosen.split(CRITIC_MINIBATCH):
            error = VALUE_SCALE * self.critic(states[part])[..., 0] - returns[part]
            self._critic_steps.zero_grad()
            (error**2).mean().backward()
            self._critic_steps.step()
        return advantages, explained

    def copy(self, episodes: Episodes) -> float:
        """Learn to do as the teacher did. Returns the last epoch's mean loss."""
        hosts, context, options, chosen, _, weight, _ = self._decisions(episodes)
        steps = torch.optim.Adam(self.w.values(), COPY_RATE)
        for _ in range(COPY_EPOCHS):
            losses = []
            for part in torch.randperm(len(chosen)).split(COPY_MINIBATCH):
                scores = logits(self.w, hosts[part], context[part]).masked_fill(
                    ~options[part], -1e9
                )
                loss = torch.nn.functional.cross_entropy(scores, chosen[part], reduction="none")
                steps.zero_grad()
                (loss * weight[part]).mean().backward()
                steps.step()
                losses.append(float(loss.detach().mean()))
        return float(np.mean(losses))

    def _decisions(self, episodes: Episodes) -> tuple[Any, ...]:
        room = episodes.rooms[self.which]
        n = int(room.n[0])
        hosts, context, options, where, log_prob = (torch.from_numpy(a[:n]) for a in room[:5])
        weight = torch.where(where[:, 0] > 0, 1.0, 1 / KEPT)
        at = (where[:, 3].numpy(), where[:, 1].numpy(), where[:, 2].numpy() - self.group.start)
        return hosts, context, options, where[:, 0], log_prob, weight, at

    def improve(self, episodes: Episodes, left: float) -> str:
        """Take one update of PPO. left: the share of the training that is left, from 1 to 0."""
        for group in self._actor_steps.param_groups:
            group["lr"] = RATE * left + 2e-5
        all_advantages, explained = self.advantages(episodes)
        hosts, context, options, chosen, before, weight, at = self._decisions(episodes)
        weight /= weight.mean()
        advantages = torch.from_numpy(all_advantages[at])
        advantages -= (advantages * weight).mean()
        advantages /= (advantages**2 * weight).mean().sqrt()
        advantages.clamp_(-MOST_ADVANTAGE, MOST_ADVANTAGE)
        for _ in range(EPOCHS):
            divergences = []
            for part in torch.randperm(len(chosen)).split(MINIBATCH):
                scores = logits(self.w, hosts[part], context[part])
                log_probs = torch.log_softmax(scores.masked_fill(~options[part], -1e9), 1)
                change = log_probs.gather(1, chosen[part, None])[:, 0] - before[part]
                ratio, gain = change.exp(), advantages[part]
                surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain)
                entropy = -(log_probs.exp() * log_probs.clamp(min=-50)).sum(1)
                goal = ((surrogate + ENTROPY * left**2 * entropy) * weight[part]).mean()
                self._actor_steps.zero_grad()
                (-goal).backward()
                torch.nn.utils.clip_grad_norm_(self.w.values(), GRADIENT)
                self._actor_steps.step()
                divergences.append(float(((ratio - 1 - change) * weight[part]).mean().detach()))
            if np.mean(divergences) > MOST_DIVERGENCE:
                break
        return f"explained {explained:.2f}, divergence {np.mean(divergences):.4f}"


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="The weights' file.")
@click.option("--begin-from", type=click.Path(exists=True, path_type=Path), help="Weights.")
@click.option("--updates", type=click.IntRange(0), default=100)
@click.option("--episodes", type=click.IntRange(2), default=100, help="Of an update.")
@click.option("--scored", type=click.IntRange(0), default=1000, help="Episodes of the score.")
@click.option("--seed", type=click.IntRange(0), default=0)
def main(
    out: Path | None, begin_from: Path | None, updates: int, episodes: int, scored: int, seed: int
) -> None:
    """Train, write the weights after every tenth update, and score the last ones."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    batched.seed(seed)
    draw = np.random.default_rng(seed)
    begun = load_weights(begin_from) if begin_from else (fresh_weights(draw), fresh_weights(draw))
    learners = [Learner(weights, which) for which, weights in enumerate(begun)]
    seeds = np.arange(episodes) + FIRST_OF_RUN * seed
    if updates or begin_from is None:
        taught = play(begun, list(map(int, TAUGHT_SEED + seeds)), batched.TAUGHT)
        print(f"the rules: {taught.totals.mean():.1f}", flush=True)
        for learner in learners:
            if begin_from is None:
                print(f"copied, loss {learner.copy(taught):.3f}", flush=True)
            for _ in range(3):
                learner.advantages(taught)
    for update in range(updates):
        chosen = list(map(int, FIRST_SEED + seeds + update * episodes))
        played = play(tuple(each.weights for each in learners), chosen, batched.SAMPLED)
        words = [each.improve(played, 1 - update / updates) for each in learners]
        print(
            f"{time.process_time():.0f} s, update {update}: {played.totals.mean():.1f}; {words}",
            flush=True,
        )
        if out is not None and (update % 10 == 9 or update == updates - 1):
            save_weights(out, (learners[0].weights, learners[1].weights))
    if scored:
        print(score(tuple(each.weights for each in learners), scored))


if __name__ == "__main__":
    main()
