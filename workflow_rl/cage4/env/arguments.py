"""The arguments of CAGE-4 as an environment to train on, with their ranges and descriptions."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from workflow_rl.agents.settings import OneOf, Settings, Share
from workflow_rl.cage4.agent.messages import MESSAGES
from workflow_rl.cage4.agent.views import ACTION_SETS, OBSERVATIONS, SUSPECTING, VIEWS, BeliefView
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.env.red_environment import Cage4Red
from workflow_rl.cage4.red.roster import REDS
from workflow_rl.cage4.scenario.scenario4 import LEAST_STEPS, MOST_OF_SCENARIO, SCENARIOS, Scenario
from workflow_rl.cage4.scenario.simulator_protocol import SIMULATORS
from workflow_rl.errors import ConfigError

MOST_STEPS = 10_000
"""The longest episode that the compiled simulator's records can hold."""


def _one(value: Any) -> str:
    if (name := REDS.single(REDS.text(value))) is None:
        raise ValueError(f"{value} names several: call the command once for each red agent")
    return name


OneRed = Annotated[str, BeforeValidator(_one)]
"""One red agent of the challenge, or one trained red team."""


class ScenarioSettings(Settings):
    """The fields of `Scenario`, checked. The constructor raises ConfigError."""

    phishing_rate: Share = Field(
        Scenario.phishing_rate,
        description="Share of green's successful work that is a phishing mail, which opens a "
        "session for red.",
    )
    false_alert_rate: Share = Field(
        Scenario.false_alert_rate,
        description="Share of green's successful work and access to servers that raises a false "
        "alert: an event of a process, or of a connection.",
    )
    aggressive_scan_detection: Share = Field(
        Scenario.aggressive_scan_detection,
        description="Share of red's aggressive scans of a host that blue sees.",
    )
    stealth_scan_detection: Share = Field(
        Scenario.stealth_scan_detection,
        description="Share of red's stealthy scans of a host that blue sees.",
    )
    longest_red_action: Annotated[int, Field(ge=1, le=MOST_OF_SCENARIO["longest_red_action"])] = (
        Field(
            Scenario.longest_red_action,
            description="Longest duration of a red action in steps. With 1, all take one step.",
        )
    )
    users: Annotated[int, Field(ge=1, le=MOST_OF_SCENARIO["users"])] | None = Field(
        Scenario.users,
        description="Number of user hosts in every zone. By default, 3 to 10 are drawn.",
    )
    servers: Annotated[int, Field(ge=1, le=MOST_OF_SCENARIO["servers"])] | None = Field(
        Scenario.servers,
        description="Number of servers in every zone. By default, 1 to 6 are drawn.",
    )


class EpisodeSettings(ScenarioSettings):
    """The simulator and the scenarios of episodes: the values of one scenario, or the names of
    several scenarios. The constructor raises ConfigError."""

    simulator: Annotated[str, OneOf(SIMULATORS)] = Field(
        Cage4.simulator,
        description="compiled is this package's own simulator; cyborg is the official CybORG 4 of "
        "--cyborg4, with speed-ups that change no bit. Both play equal episodes.",
    )
    scenarios: Annotated[tuple[Annotated[str, OneOf(SCENARIOS)], ...], Field(strict=False)] = Field(
        (),
        description="Name of a scenario, instead of its values. From several, a training draws a "
        "scenario for each episode, and an evaluation plays every scenario.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.scenarios and (changes := Scenario.among(dict(self)).changes):
            raise ConfigError("scenarios", f"have values of their own: leave out {changes}")
        return self


class Cage4Arguments(EpisodeSettings):
    """The arguments of `Cage4`, checked. The constructor raises ConfigError."""

    red_agent: Annotated[str, BeforeValidator(REDS.text)] = Field(
        Cage4.red_agent,
        description="The red agents: FiniteStateRedAgent, which is the challenge's, "
        "DiscoveryFSRed, RandomSelectRedAgent or SleepAgent; an attacker of the library, such as "
        "greedy; library for all its attackers; module:Class of your own; or the folder or policy "
        "file of a trained red team. From several with weights, such as "
        "FiniteStateRedAgent=3,runs/red=1, each episode draws one.",
    )
    max_steps: Annotated[int, Field(ge=LEAST_STEPS, le=MOST_STEPS)] = Field(
        Cage4.max_steps, description="Length of an episode. The challenge has 500 steps."
    )
    observation: Annotated[str, OneOf(OBSERVATIONS)] = Field(
        Cage4.observation,
        description="What the policies see. flat: the challenge's own vectors of the last step. "
        "belief: what blue knows of each host from the raw observations of all steps, with "
        "Analyse's files and the sources of attacks. hidden: the belief, and the chance that a "
        "session of red hides on each host.",
    )
    actions: Annotated[str, OneOf(ACTION_SETS)] = Field(
        Cage4.actions,
        description="What the policies choose from. all: every action on a host that exists. "
        "repair: only Sleep, Remove and Restore. suspects: Remove and Restore on hosts that the "
        "belief suspects; a free agent without them does its best Analyse or DeployDecoy. "
        "steadfast: as suspects, but while the team sees few exploits, it restores hosts on which "
        "red probably hides.",
    )
    own_rewards: bool = Field(
        Cage4.own_rewards,
        description="Let each agent learn from the events in its own zones and the costs of its "
        "own Restores, instead of the team's reward. A central critic then sees the true state. "
        "Needs the simulator compiled, and actions without blocking of traffic. Scores are still "
        "the team's.",
    )
    messages: Annotated[str, OneOf(MESSAGES)] = Field(
        Cage4.messages,
        description="What the agents send each other. alerts: per own zone, whether the agent "
        "suspects a server, and whether it suspects a user host. learned: two bits, which each "
        "agent chooses together with its action. Policies that send messages also see the messages "
        "of the other agents.",
    )

    measures: bool = Field(
        Cage4.measures,
        description="Let each step have costs beside its reward: numbers of hosts, actions and "
        "failures, counted from the true state. Agents do not see the costs.",
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.actions in SUSPECTING and not issubclass(VIEWS[self.observation], BeliefView):
            told = f"needs the observation belief or hidden, not {self.observation}"
            raise ConfigError("actions", f"{self.actions} {told}")
        if self.actions == "steadfast" and self.messages != "none":
            raise ConfigError("messages", "must be none: actions steadfast sends its own messages")
        if self.own_rewards and self.simulator != "compiled":
            raise ConfigError("own_rewards", f"needs the simulator compiled, not {self.simulator}")
        return self


class Cage4RedArguments(ScenarioSettings):
    """The arguments of `Cage4Red`, checked. The constructor raises ConfigError."""

    blue_agent: str = Field(
        Cage4Red.blue_agent,
        description="The blue team that Red is trained against, which does not learn: a run "
        "folder, checkpoint or policy file, or the name of a team. Or several teams with weights, "
        "such as champion=2,rules=1, from which the seed of each episode draws one.",
    )
    max_steps: Annotated[int, Field(ge=LEAST_STEPS, le=MOST_STEPS)] = Field(
        Cage4Red.max_steps, description="Length of an episode. The challenge has 500 steps."
    )
