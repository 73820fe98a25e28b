"""An episode on the sped-up copy of CybORG 4: the loop of `SimulationController`."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from workflow_rl.cage4.cyborg.draws import Draws
from workflow_rl.cage4.cyborg.greens import Greens
from workflow_rl.cage4.cyborg.measures import Executed
from workflow_rl.cage4.cyborg.private_cyborg import Cyborg
from workflow_rl.cage4.cyborg.reds import (
    combined,
    forget_all,
    hide_foreign_zones,
    knows_parameters,
    update_action_space,
)
from workflow_rl.cage4.scenario.scenario4 import AGENTS

FIRST = 1
"""The priority of the actions Allow and Block, which take effect before all other actions."""
GREEN_INTERFACE = SimpleNamespace(active=True, agent=None, action_space=None)


class Episode:
    """The network, its agents and the agents' actions in progress.

    The attributes have the names of `SimulationController`'s attributes, because some methods of
    that class are called with this object. `agent_interfaces` holds only blue and red agents.

    last_blue_actions: the five actions that took effect in the last step, in CybORG's words.
    blue_outcomes: by agent, the action that the agent executed last, and the action's observation.
    outcomes: the outcomes of all actions that agents executed in the last step.

    Args:
        cyborg: the copy of CybORG that `speedups` returns.
        scenario_generator: draws the network.
        draws: the episode's random numbers.
    """

    def __init__(self, cyborg: Cyborg, scenario_generator: Any, draws: Draws) -> None:
        self.scenario_generator = scenario_generator
        self.np_random = draws
        self._controller = cyborg["Simulator.SimulationController"].SimulationController
        self._observation = cyborg["Shared.Observation"].Observation
        self._observations = cyborg["Shared.ObservationSet"].ObservationSet
        self._in_progress = cyborg["Shared.Enums"].TernaryEnum.IN_PROGRESS
        self._sleep = cyborg["Simulator.Actions"].Sleep
        self._impact = cyborg["Simulator.Actions"].Impact
        self._session_types = cyborg["Shared.ActionSpace"].SESSION_TYPES
        self._machine = cyborg["Shared.BlueRewardMachine"].BlueRewardMachine
        scenario = scenario_generator.create_scenario(draws)
        self.state = cyborg["Simulator.State"].State(scenario, draws)
        self.greens = Greens(cyborg, self.state, scenario)
        self.step_count = 0
        self.last_blue_actions: list[str] = []
        self.blue_outcomes: dict[str, tuple[Any, Any]] = {}
        self.outcomes: list[Executed] = []
        self._make_agents(cyborg["Shared.AgentInterface"].AgentInterface, scenario)
        self._session_checks = {
            name: action(**parameters)
            for name, (action, parameters) in scenario.get_end_turn_actions().items()
            if name in self._reds or name in AGENTS
        }

    def _make_agents(self, interface_class: Any, scenario: Any) -> None:
        teams = scenario.team_agents
        self.agent_interfaces = {}
        for name in (*AGENTS, *teams["Red"]):
            info = scenario.agents[name]
            info.agent_type.np_random = self.np_random
            info.agent_type.end_episode()
            self.agent_interfaces[name] = interface_class(
                info.agent_type,
                name,
                info.actions,
                allowed_subnets=info.allowed_subnets,
                scenario=scenario,
                active=info.active,
            )
        self._reds = {name: self.agent_interfaces[name] for name in teams["Red"]}
        self._blue_progress: dict[str, Any] = dict.fromkeys(AGENTS)
        self._red_progress: dict[str, Any] = dict.fromkeys(self._reds)
        cidrs = self.state.subnet_name_to_cidr
        self._cidrs = {}
        self.observation = {}
        for name, interface in self._reds.items():
            self._cidrs[name] = {cidrs[zone] for zone in interface.allowed_subnets}
            known = scenario.agents[name].osint["Hosts"]
            for host in known.values():
                host["Sessions"] = name
            obs = self.state.get_true_state(known)
            hide_foreign_zones(obs.data, self._cidrs[name])
            forget_all(interface.action_space, self.state)
            update_action_space(interface.action_space, obs.data, self._session_types)
            self.observation[name] = self._observations([obs])

    @property
    def actions_in_progress(self) -> dict[str, Any]:
        """`{"action", "remaining_ticks"}` or None, for each blue and red agent."""
        return {**self._blue_progress, **self._red_progress}

    def as_controller(self) -> SimpleNamespace:
        """Return an object with the attributes of a controller that `true_state` reads."""
        greens = dict.fromkeys(self.greens.names, GREEN_INTERFACE)
        blues = {name: self.agent_interfaces[name] for name in AGENTS}
        return SimpleNamespace(
            state=self.state,
            step_count=self.step_count,
            agent_interfaces={**blues, **greens, **self._reds},
            actions_in_progress=self.actions_in_progress,
        )

    def step(self, actions: Sequence[Any]) -> tuple[int, int]:
        """Play a step with blue's five CybORG actions. Return the two parts of the reward: what
        `BlueRewardMachine` gives, and the actions' costs."""
        state = self.state
        state.check_next_phase_on_update_step(self.step_count)
        for name, action in zip(AGENTS, actions, strict=True):
            _begin(self._blue_progress, name, action)
        chosen = self.greens.choose()
        for name, interface in self._reds.items():
            _begin(self._red_progress, name, self._red_action(name, interface))
            self.observation[name] = self._observations([])
        blue, red = self._due_actions()
        self.last_blue_actions = [str(action) for _, action in blue]
        blue_played, red_played = self._with_sessions(blue), self._with_sessions(red)
        # CybORG shuffles the actions to limit bandwidth, but no action uses bandwidth.
        self.np_random.skip_shuffle(len(blue_played) + len(chosen) + len(red_played))
        # Allow and Block come first. The sort keeps the order of the other actions.
        for name, action in sorted(blue_played, key=lambda played: played[1].priority != FIRST):
            self.blue_outcomes[name] = action, action.execute(state)
        self.outcomes = [Executed.of(*self.blue_outcomes[name]) for name, _ in blue_played]
        reward = self.greens.play(chosen)
        self.outcomes += self.greens.outcomes
        for name, action in red_played:
            obs = action.execute(state)
            self.outcomes.append(Executed.of(action, obs))
            hide_foreign_zones(obs.data, self._cidrs[name])
            obs.data["action"] = action
            self.observation[name].append(obs)
        self._move_sessions()
        self._end_turn()
        self.step_count += 1
        return reward + self._impact_reward(red), sum(action.cost for action in actions)

    def _red_action(self, name: str, interface: Any) -> Any:
        if not interface.active:
            return self._sleep()
        action = interface.get_action(combined(self.observation[name].observations))
        if knows_parameters(interface.action_space, action):
            return action
        return self._controller.replace_action_if_invalid(self, action, interface)

    def _due_actions(self) -> tuple[list[Any], list[Any]]:
        """Return blue's and red's pairs of an agent and the action that takes effect now.

        This action is a Sleep if the action that the agent chose is still in progress.
        """
        due = []
        for progress in (self._blue_progress, self._red_progress):
            actions = []
            for name, item in progress.items():
                item["remaining_ticks"] -= 1
                if item["remaining_ticks"] < 1:
                    progress[name] = None
                    actions.append((name, item["action"]))
                    continue
                actions.append((name, self._sleep()))
                if name in self._reds:
                    self.observation[name].append(self._observation(self._in_progress))
            due.append(actions)
        return due[0], due[1]

    def _with_sessions(self, actions: list[Any]) -> list[Any]:
        """`filter_actions`: drop the actions whose session is gone."""
        sessions = self.state.sessions
        return [
            (name, action)
            for name, action in actions
            if not hasattr(action, "session") or action.session in sessions.get(action.agent, ())
        ]

    def _move_sessions(self) -> None:
        """`different_subnet_agent_reassignment`, which is called only if a session needs it."""
        zones = self.state.hostname_subnet_map
        if any(
            zones[session.hostname].value not in interface.allowed_subnets
            for name, interface in self._reds.items()
            for session in self.state.sessions[name].values()
        ):
            self._controller.different_subnet_agent_reassignment(self)
        for name, interface in self._reds.items():
            sessions = self.state.sessions[name].values()
            interface.active = any(session.active for session in sessions)

    def is_active(self, name: str) -> bool:
        return bool(self._controller.is_active(self, name))

    def has_active_non_parent_sessions(self, name: str) -> bool:
        return bool(self._controller.has_active_non_parent_sessions(self, name))

    def _end_turn(self) -> None:
        for name, action in self._session_checks.items():
            if not self.agent_interfaces[name].active:
                continue
            obs = action.execute(self.state)
            if name in self._reds:
                self.observation[name].append(obs)
        for name, interface in self._reds.items():
            for obs in self.observation[name].observations:
                update_action_space(interface.action_space, obs.data, self._session_types)

    def _impact_reward(self, red: list[Any]) -> int:
        """Return the reward of `BlueRewardMachine` for Impacts.

        A failed Impact counts, too: CybORG's test of the success is true for every outcome.
        """
        state = self.state
        rewards = self._machine.get_phase_rewards(None, state.mission_phase)
        return sum(
            rewards[state.hostname_subnet_map[action.hostname].value]["RIA"]
            for name, action in red
            if isinstance(action, self._impact) and self._reds[name].active
        )


def _begin(progress: dict[str, Any], name: str, action: Any) -> None:
    if progress[name] is None:
        progress[name] = {"action": action, "remaining_ticks": action.duration}
