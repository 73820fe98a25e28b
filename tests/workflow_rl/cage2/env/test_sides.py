import pytest

from tests.workflow_rl.cage2.actors import Sleeping
from workflow_rl.cage2.env.red_environment import Cage2Red
from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.studies.duel import actor_for_side


def test_each_side_is_an_environment_with_opponents():
    guest = Cage2Guest()
    args = {**guest.make(guest.arguments()()).args, "max_steps": 30}
    for side, opponents in (("Blue", "B_lineAgent=3,SleepAgent=1"), ("Red", "champion=2,sleep=1")):
        found = guest.sides(args)[side]
        environment = make_environment(found.env, {**found.args, found.opponents: opponents})
        assert environment.episode_steps == 30


def test_a_blue_of_the_start_keeps_what_it_sees_and_does():
    guest = Cage2Guest()
    side = guest.sides({**guest.make(guest.arguments()()).args, "max_steps": 30})["Blue"]
    _, args = actor_for_side("robust", side, {"B_lineAgent": 1.0})
    assert (args["max_steps"], args["observation"], len(args["opening"])) == (30, "evidence", 3)
    assert args["red_agent"] == "B_lineAgent=1000"


def test_an_episode_of_red_meets_one_of_several_blues():
    """Red gets what Blue pays for its own actions."""

    def rewards(blue: str, number: int) -> list[float]:
        envs = Cage2Red(blue, 80).make_envs(1)
        return play_episode(envs, Sleeping(), episode_spec(0, number)).reward.tolist()

    names = ("random", "sleep")
    met = [
        [rewards("random=2,sleep=1", n) == rewards(blue, n) for blue in names] for n in range(12)
    ]
    assert all(sum(pair) == 1 for pair in met)
    assert all(any(blue) for blue in zip(*met, strict=True))


def test_what_is_no_blue_is_told():
    for blue in ("champion=x", "nobody=1,sleep=2"):
        with pytest.raises(ConfigError) as error:
            Cage2Red(blue).opponents  # noqa: B018
        assert error.value.field_name == "blue_agent"
