"""TorchRL's multi-agent PPO on CAGE-4: two groups of agents, with masks and central critics.

Usage: [STEPS=49900] [SEED=0] python examples/torchrl_cage4.py
"""

import os
import time

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import DTypeCastTransform, PettingZooWrapper, TransformedEnv
from torchrl.modules import MaskedCategorical, MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss

from workflow_rl.cage4 import parallel_env

STEPS, SEED = int(os.environ.get("STEPS", 49_900)), int(os.environ.get("SEED", 0))
GROUPS = {"zones": [f"blue_agent_{i}" for i in range(4)], "headquarters": ["blue_agent_4"]}
torch.set_num_threads(1)  # Networks of this size gain nothing from more.
torch.manual_seed(SEED)
team = PettingZooWrapper(parallel_env(), group_map=GROUPS, categorical_actions=True, seed=SEED)
cast = DTypeCastTransform(torch.int64, torch.float32, [(one, "observation") for one in GROUPS])
env = TransformedEnv(team, cast)
actors, losses = {}, {}
for one, agents in GROUPS.items():
    seen = [(one, "observation")]
    n_inputs = env.observation_spec[seen[0]].shape[-1]
    shape = {"n_agents": len(agents), "share_params": True, "num_cells": [64, 64]}
    n_actions = env.full_action_spec[one, "action"].space.n
    logits = MultiAgentMLP(n_inputs, n_actions, centralized=False, **shape)
    value = MultiAgentMLP(n_inputs, 1, centralized=True, **shape)
    actors[one] = ProbabilisticActor(
        TensorDictModule(logits, seen, [(one, "logits")]),
        in_keys={"logits": (one, "logits"), "mask": (one, "action_mask")},
        out_keys=[(one, "action")],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
        log_prob_key=(one, "log_prob"),
    )
    critic = TensorDictModule(value, seen, [(one, "value")])
    losses[one] = ClipPPOLoss(actors[one], critic, entropy_coeff=0.01)
    names = ("reward", "action", "done", "terminated", "advantage", "value_target", "value")
    losses[one].set_keys(**{name: (one, name) for name in names}, sample_log_prob=(one, "log_prob"))
optimizer = torch.optim.Adam([p for loss in losses.values() for p in loss.parameters()], lr=1e-3)
policy = TensorDictSequential(*actors.values())
start = time.perf_counter()
for rollout in Collector(env, policy, frames_per_batch=4990, total_frames=STEPS):
    mean = rollout["next", "zones", "reward"][:, 0].sum() / 10  # Ten episodes of 499 steps.
    for one in GROUPS:
        rollout["next", one, "reward"] /= 100
        losses[one].value_estimator(rollout)
    for batch in (rollout[rows] for _ in range(4) for rows in torch.randperm(4990).split(998)):
        optimizer.zero_grad()
        for loss in losses.values():
            terms = loss(batch).items()
            sum(term for name, term in terms if name.startswith("loss")).backward()
        optimizer.step()
seconds = time.perf_counter() - start
print(f"{STEPS} steps in {seconds:.0f} s; return {mean:.1f}")
