"""A challenge of one's own as a guest of workflow-rl: its options, preset, report, replays and a
command. Install it beside the package: pip install examples/own_guest

python -m workflow_rl train-async --env intruders/Intruders-v0 --red-agent hasty
"""

from html import escape
from typing import Annotated, ClassVar, Literal

import click
import gymnasium
import numpy as np
from pydantic import Field

from workflow_rl.agents.settings import Settings
from workflow_rl.environments.challenge import Guest, Replay

ENV_ID = "intruders/Intruders-v0"
SPREAD = {"steady": 0.3, "hasty": 0.6}
"""By red agent: how likely a host is taken in a step, for each neighbour that is taken."""


class Arguments(Settings):
    """Each field is an option of the commands, checked and described as it stands here."""

    hosts: Annotated[int, Field(ge=2, le=50)] = Field(6, description="Number of hosts in a row.")
    red_agent: Literal["steady", "hasty"] = Field("steady", description="The intruder.")


class Network(gymnasium.Env):
    """Hosts in a row. An intruder spreads from the first host; Blue cleans one host a step."""

    def __init__(self, hosts: int, red_agent: str) -> None:
        self.spread = SPREAD[red_agent]
        self.observation_space = gymnasium.spaces.MultiBinary(hosts)
        self.action_space = gymnasium.spaces.Discrete(hosts)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.taken = 0, np.zeros(self.observation_space.n, np.int8)
        self.taken[0] = 1
        return self.taken.copy(), {}

    def step(self, action):
        self.steps += 1
        self.taken[action] = 0
        beside = np.convolve(self.taken, [1, 0, 1], "same")
        self.taken |= (self.np_random.random(len(self.taken)) < self.spread * beside).astype(
            np.int8
        )
        self.taken[0] = 1
        return self.taken.copy(), -float(self.taken.sum()), False, self.steps >= 30, {}


class Pages:
    """How the command `replay` shows an episode."""

    settings = Settings  # Nothing can be chosen.

    def load(self, agent, which, greedy):
        from workflow_rl.runs.saved_agent import load_agent, load_saved, saved_path

        path = saved_path(agent, which)
        return load_agent(path, greedy=greedy), load_saved(path).environment.args

    def replay(self, agents, settings, seed, episode):
        from workflow_rl.environments.episode import SeedStream, episode_spec

        spec = episode_spec(seed, episode, stream=SeedStream.EVALUATION)
        page, lines = "<!doctype html>", []
        for agent, args in agents:
            env, rows, total, ended = Network(**args), [], 0.0, False
            obs, _ = env.reset(seed=spec.env_seed)
            while not ended:
                action = agent.act(obs)
                rows.append("".join("#" if taken else "." for taken in obs) + f" cleans {action}")
                obs, reward, _, ended, _ = env.step(action)
                total += reward
            page += "<pre>" + "\n".join(rows) + "</pre>"
            lines.append(f"{len(rows)} steps against {args['red_agent']}: return {total:.0f}")
        return Replay(page, lines)


class Intruders(Guest):
    """What the package is told of this challenge."""

    env_id = ENV_ID
    title = "Intruders"
    most_used = ("red_agent",)
    presets: ClassVar = {"intruders-quick": {"n_envs": 20, "total_episodes": 400}}

    def arguments(self):
        return Arguments

    def make(self, args):
        from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

        return GymnasiumEnvironment(ENV_ID, dict(args), Network)

    def known_returns(self, args):
        return {"idle": -30.0 * args["hosts"]}

    def replays(self):
        return Pages()

    def report_sections(self, runs, folder):
        from workflow_rl.reporting.report_sections import Section

        reds = ", ".join(run.config["red_agent"] for run in runs)
        return [Section("Intruders", f"<p>Trained against {escape(reds)}.</p>")]


@click.command("intruders-rules")
def rules():
    """Print the rules of the game."""
    click.echo(Network.__doc__)
