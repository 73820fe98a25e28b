"""The guest's hook `scoring`, which scores agents of CAGE-2 by the challenge's protocol."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.agents.settings import ContentOf, OneOf, Settings
from workflow_rl.cage.scoring import Check, ResultSettings, as_tuple
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, scripted_blue
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.red.roster import REDS, able_reds, problem_of_reds
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import played_of, scenario_text
from workflow_rl.cage2.scenario.scenario import NAMED, Scenario
from workflow_rl.cage2.scenario.simulator_protocol import MAX_STEPS, SIMULATORS
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS, SCENARIO2
from workflow_rl.cage2.scoring.players import FamilyBlue, TrainedBlue, require_cage2, require_fit
from workflow_rl.cage2.scoring.scores import ProtocolScores, official_text, task_name
from workflow_rl.environments.environment import Environment
from workflow_rl.errors import ConfigError
from workflow_rl.output_files import write_text

Steps = Annotated[int, Field(ge=1, le=MAX_STEPS)]


class ProtocolSettings(ResultSettings):
    """The options of an evaluation on CAGE-2. A wrong value raises ConfigError."""

    agent: Annotated[str, OneOf(SCRIPTED_AGENTS)] | None = Field(
        default=None, description="Score this scripted agent instead of RUN_OR_CHECKPOINT."
    )
    red_agent: Annotated[
        tuple[Annotated[str, BeforeValidator(REDS.text)], ...], BeforeValidator(as_tuple)
    ] = Field(
        default=RED_AGENTS,
        description="Red agents of the cells, as in a training. By default the challenge's three "
        "red agents.",
    )
    max_steps: Annotated[tuple[Steps, ...], BeforeValidator(as_tuple)] = Field(
        default=HORIZONS, description="Episode lengths of the cells. By default 30, 50 and 100."
    )
    scenario: Annotated[str, ContentOf(scenario_text, tuple(NAMED))] | None = Field(
        default=None,
        description="The network: scenario2, scenario1b, a scenario file, or a family file, from "
        "which unseen networks are played. By default the training's network.",
    )
    simulator: Annotated[str, OneOf(SIMULATORS)] = Field(
        default="compiled",
        description="compiled plays all episodes in this package's own simulator; cyborg plays "
        "them on csle-cyborg, or in scenario1b on CAGE-1's own package, if it is installed.",
    )
    check: Check = Field(
        default=45,
        description="How many drawn episodes CybORG plays again, to see that their totals are "
        "equal; 0 for none. With --simulator cyborg, no episode is played again. Families of "
        "networks are not checked, because CybORG does not play them.",
    )


class Cage2Scoring:
    """Scoring by the challenge's protocol: see `environments.challenge.Scoring`."""

    unit = "episodes a cell"
    settings = ProtocolSettings

    def settings_for(self, args: Mapping[str, Any]) -> ProtocolSettings:
        """Return the settings that score an agent by the challenge's protocol.

        Raises ConfigError for an agent that sees the true state."""
        if args["observation"] == "true-state":
            raise ConfigError(
                "observation",
                "true-state is not for agents that are scored: no evaluation shows it",
            )
        return ProtocolSettings()

    def is_whole(self, settings: Settings) -> bool:
        """Return whether all nine cells are scored."""
        assert isinstance(settings, ProtocolSettings)
        cells = set(settings.red_agent), set(settings.max_steps)
        return settings.scenario is None and cells == (set(RED_AGENTS), set(HORIZONS))

    def returns(self, scores: Mapping[str, Any]) -> dict[str, list[float]]:
        scenario = scores.get("scenario", SCENARIO2)
        returns = {}
        for cell in scores["cells"]:
            name = task_name(cell["red_agent"], cell["max_steps"], scenario)
            returns[name] = list(map(float, cell["returns"]))
        return returns

    def score(
        self,
        actor: Actor | None,
        environment: Environment | None,
        settings: Settings,
        *,
        name: str,
        **played: Any,
    ) -> ProtocolScores:
        """Play all cells. Write a result file if `settings.output_dir` is given.

        Raises ConfigError if the simulator is not installed, UserError if the agent is not for
        CAGE-2, and TooManyFailuresError."""
        # This import is slow, and `--help` does not need it.
        from workflow_rl.cage2.scoring.protocol import evaluate_blue

        assert isinstance(settings, ProtocolSettings)
        played_on = _played(settings, environment)
        blue = _blue(actor, environment, played_on, settings, name)
        red_agents = settings.red_agent
        if red_agents == RED_AGENTS:
            red_agents = able_reds(played_on)
        simulator = settings.simulator
        if isinstance(played_on, ScenarioFamily) and simulator != "compiled":
            raise ConfigError(
                "simulator", f"{simulator} plays one scenario: for {played_on}, leave it out"
            )
        text = SCENARIO2 if isinstance(played_on, ScenarioFamily) else played_on.text
        # SleepAgent is enough to check the simulator. A red agent of the user's may need CybORG.
        of_user = set(red_agents) - set(RED_AGENTS)
        for red_agent in sorted({"SleepAgent"} | of_user):
            against = Cage2(red_agent, simulator=simulator, scenario=text, measures=True)
            against.check()
            if not against.steps_together:
                simulator = "cyborg"
        check, why_none = _checkable(settings, simulator, played_on)
        cells = evaluate_blue(
            blue,
            simulator=simulator,
            horizons=settings.max_steps,
            red_agents=red_agents,
            check=check,
            **played,
        )
        if why_none is not None:
            cells = cells._replace(checked=why_none)
        if settings.output_dir is not None:
            technique = "PPOAgent"
            if settings.agent is not None:
                words = settings.agent.split("-")
                technique = "".join(word.title() for word in words) + "Agent"
            path = settings.output_dir / f"{datetime.now():%Y%m%d_%H%M%S}_{technique}.txt"
            write_text(path, official_text(cells, settings.author, settings.team, technique))
        trained_against = () if environment is None else environment.variants
        return cells._replace(trained_against=trained_against)


def _played(
    settings: ProtocolSettings, environment: Environment | None
) -> Scenario | ScenarioFamily:
    """Return the settings' scenario or family, or else the training's scenario or family.

    Raises ConfigError if a red agent of the settings cannot play there."""
    played: Scenario | ScenarioFamily = Scenario.scenario2()
    if settings.scenario is not None:
        played = played_of(settings.scenario)
    elif isinstance(environment, Cage2):
        played = environment.family or environment.network
    asked_for = settings.red_agent if settings.red_agent != RED_AGENTS else ()
    for red_agent in asked_for:
        if (problem := problem_of_reds(played, REDS.read(red_agent))) is not None:
            raise ConfigError("red_agent", problem)
    return played


def _blue(
    actor: Actor | None,
    environment: Environment | None,
    played: Scenario | ScenarioFamily,
    settings: ProtocolSettings,
    name: str,
) -> Blue:
    """Return the agent that plays. Raises ConfigError and UserError."""
    if environment is None:
        assert settings.agent is not None
        require_fit(played, name)
        assert isinstance(played, Scenario)
        return scripted_blue(settings.agent, played)
    assert isinstance(actor, NumpyPolicy)
    require_cage2(actor, environment, name)
    if not isinstance(played, ScenarioFamily):
        return TrainedBlue(name, actor, environment, played)
    require_fit(played, name, actor, environment)
    assert isinstance(environment, Cage2)
    blue = FamilyBlue(name, actor, environment, played)
    if settings.output_dir is not None:
        raise ConfigError("output_dir", "a result file is about one scenario")
    return blue


def _checkable(
    settings: ProtocolSettings, simulator: str, played: Scenario | ScenarioFamily
) -> tuple[int, str | None]:
    """Return how many episodes CybORG plays again, and a line for the user that says why there are
    none. The line is None if the user does not expect the check."""
    if simulator == "cyborg" or not settings.check:
        return 0, None
    if isinstance(played, ScenarioFamily):
        is_asked = "check" in settings.model_fields_set
        reason = f"No episode was played again: CybORG does not play {played}."
        return 0, reason if is_asked else None
    try:
        if not played.is_scenario2:
            Cage2(simulator="cyborg", scenario=played.text).check()
    except ConfigError as error:
        return 0, f"No episode was played again: {error.message}."
    return settings.check, None
