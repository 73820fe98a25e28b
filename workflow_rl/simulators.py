"""A worker's envs, by the name of their simulator. Imports that simulator alone."""

from __future__ import annotations

import functools

from workflow_rl.env_batch import EnvBatch, SerialEnvs


def make_envs(max_steps: int, simulator: str, n_envs: int) -> EnvBatch:
    """So many envs of one of `cyborg_env.SIMULATORS`. The compiled ones step in one call."""
    if simulator == "compiled":
        from workflow_rl.compiled.env_batch import CompiledEnvs

        return CompiledEnvs(max_steps, n_envs)
    from workflow_rl.cyborg_env import CyborgEnv

    make_env = functools.partial(CyborgEnv, max_steps=max_steps, simulator=simulator)
    return SerialEnvs(make_env, n_envs)


def worker_preload(simulator: str) -> str:
    """The module that makes workers share what is costly about the simulator."""
    if simulator == "compiled":
        return "workflow_rl.compiled.worker_preload"
    return "workflow_rl.worker_preload"
