"""The costs of a step, counted by other code: it reads the controller of CybORG as published."""

from __future__ import annotations

from typing import Any

from workflow_rl.cage4.cyborg.private_cyborg import published_cyborg
from workflow_rl.cage4.cyborg.scenarios import scenario_generator
from workflow_rl.cage4.scenario.scenario4 import AGENTS, CHALLENGE

RIGHTS = {"user": 1, "ubuntu": 1, "root": 2, "SYSTEM": 2}


class OfficialCyborg:
    """The challenge's env with its wrapper. costs: those of the last step by name, levels too."""

    def __init__(self, red_agent: str, max_steps: int) -> None:
        cyborg = published_cyborg()
        generator = scenario_generator(cyborg, red_agent, max_steps, CHALLENGE)
        inner = cyborg["env"].CybORG(generator, "sim", seed=0)
        self._env = cyborg["Agents.Wrappers"].BlueEnterpriseWrapper(inner)
        self._controller = inner.environment_controller
        # The machine's reward takes half of the time, and changes nothing.
        self._controller.calculate_reward = lambda calculator: 0
        self.costs: dict[str, float] = {}

    def reset(self, seed: int) -> None:
        self._env.reset(seed=seed)
        self._start = {host for host, level in self._held().items() if level}
        assert len(self._start) == 1
        self._before = self._levels()

    def step(self, actions: list[int]) -> bool:
        """Play a step. Return whether the episode is over."""
        *_, dones, _, _ = self._env.step(dict(zip(AGENTS, actions, strict=True)))
        self.costs = {**self._costs(), **{f"level {h}": n for h, n in self._levels().items()}}
        self._before = self._levels()
        return bool(dones[AGENTS[0]])

    def _held(self) -> dict[str, int]:
        """Return the highest rights of Red on each host, read from the hosts' own lists."""
        state, held = self._controller.state, {}
        for name, host in state.hosts.items():
            owned = [
                RIGHTS[state.sessions[agent][ident].username]
                for agent, idents in host.sessions.items()
                if "red" in agent
                for ident in idents
            ]
            held[name] = max(owned, default=0)
        return held

    def _levels(self) -> dict[str, int]:
        held = self._held()
        assert not any(n for host, n in held.items() if "router" in host or "internet" in host)
        return {
            host: level
            for host, level in held.items()
            if ("_user_host_" in host or "_server_host_" in host) and host not in self._start
        }

    def _costs(self) -> dict[str, float]:
        controller, levels = self._controller, self._levels()
        blues = [self._executed(agent) for agent in AGENTS]
        repairs = [one for one in blues if type(one).__name__ in ("Remove", "Restore")]
        busy = [controller.actions_in_progress[agent] for agent in AGENTS]
        work = self._of_greens("GreenLocalWork")
        access = self._of_greens("GreenAccessService")
        kinds = [type(action).__name__ for action in blues]
        begun = [type(item["action"]).__name__ for item in busy if item]
        restore_steps = [*kinds, *begun].count("Restore")
        at_level = [list(levels.values()).count(level) for level in range(3)]
        return {
            "clean_hosts": at_level[0],
            "user_hosts": at_level[1],
            "root_hosts": at_level[2],
            "impacts": self._of_reds("Impact"),
            "degrades": self._of_reds("DegradeServices"),
            "restores": kinds.count("Restore"),
            "removes": kinds.count("Remove"),
            "healthy_recoveries": sum(self._before[one.hostname] == 0 for one in repairs),
            "counter_actions": sum(self._before[one.hostname] > 0 for one in repairs),
            "blocks": kinds.count("BlockTrafficZone"),
            "decoys": kinds.count("DeployDecoy"),
            "analyses": kinds.count("Analyse"),
            "restore_steps": restore_steps,
            "blocked_pairs": len(
                {
                    (to, source)
                    for to, sources in controller.state.blocks.items()
                    for source in sources
                }
            ),
            "green_failures": work.count(False) + access.count(False),
            "blue_failures": access.count(False),
            "red_failures": work.count(False),
            "green_work": len(work) + len(access),
            "downtime": restore_steps + access.count(False),
            "red_present": any(
                level and not host.startswith("contractor") for host, level in levels.items()
            ),
            "action_cost": -controller.reward["Blue"]["action_cost"],
        }

    def _executed(self, agent: str) -> Any:
        (action,) = self._controller.action[agent]
        return action

    def _outcome(self, agent: str) -> str:
        """Return the outcome of the action that an agent executed, "" if it was dropped."""
        action = self._executed(agent)
        for observation in self._controller.observation[agent].observations:
            if observation.data.get("action") is action:
                return str(observation.data["success"].name)
        return ""

    def _of_greens(self, kind: str) -> list[bool]:
        """Return whether the greens' actions of this kind succeeded."""
        greens = [agent for agent in self._controller.action if "green" in agent]
        mine = [agent for agent in greens if type(self._executed(agent)).__name__ == kind]
        outcomes = [self._outcome(agent) for agent in mine]
        assert {*outcomes} <= {"TRUE", "FALSE"}
        return [outcome == "TRUE" for outcome in outcomes]

    def _of_reds(self, kind: str) -> int:
        reds = [agent for agent in self._controller.action if "red" in agent]
        return sum(
            type(self._executed(agent)).__name__ == kind and self._outcome(agent) == "TRUE"
            for agent in reds
        )
