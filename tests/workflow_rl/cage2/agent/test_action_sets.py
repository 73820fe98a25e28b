import numpy as np

from workflow_rl.cage2.agent.network_facts import BlueDecoys, untold_facts
from workflow_rl.cage2.agent.views import ActionSet
from workflow_rl.cage2.compiled.tables import FALSE
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.environments.episode import episode_spec

FACTS = untold_facts(Scenario.scenario2())


def test_the_useful_actions() -> None:
    decoys = BlueDecoys(FACTS)
    decoys.begin([0])
    names = {ACTION_NAMES[action] for action in np.flatnonzero(decoys.useful_actions([0])[0])}
    assert len(names) == 67
    assert {"Sleep", "Analyse Op_Host2", "Remove User1", "Restore Op_Server0"} <= names
    assert {"DecoyFemitter Enterprise1", "DecoyVsftpd User4"} <= names
    # Of what would do nothing, or no good.
    assert not {"Monitor", "Restore User0", "Analyse Defender", "DecoyApache User4"} & names
    assert ActionSet("all", FACTS).n == len(ACTION_NAMES)


def test_one_action_for_all_decoys_of_a_host() -> None:
    """The next that fits, in the order in which Red falls for them, until Restore takes them."""
    actions = ActionSet("by-host", FACTS)
    assert actions.n == 45
    actions.begin([0, 3])
    restore = ACTION_NAMES.index("Restore User2")

    def play(choice: int, envs: list[int]) -> list[str]:
        chosen = actions.chosen(envs, np.full(len(envs), choice))
        actions.after(envs, chosen)
        return [ACTION_NAMES[action] for action in chosen]

    on_user2 = actions.n - 3
    in_order = [f"Decoy{name} User2" for name in ("Femitter", "Tomcat", "Apache", "SSHD")]
    assert play(on_user2, [3]) == in_order[:1]
    # Every env has its own.
    assert play(on_user2, [0, 3]) == in_order[:2]
    assert [play(on_user2, [3])[0] for _ in range(3)] == [*in_order[2:], "Sleep"]
    actions.after([3], np.array([restore]))
    assert play(on_user2, [0, 3]) == [in_order[1], in_order[0]]
    actions.begin([0])
    assert play(on_user2, [0]) == in_order[:1]


def test_the_next_decoy_is_one_that_can_be_set_up() -> None:
    """As the simulator has it: every action on the way succeeds."""
    environment = Cage2("SleepAgent", 60, "compiled", "belief", "by-host")
    envs = environment.make_envs(1)
    envs.reset([0], [episode_spec(0, 0, environment.variants)])
    (simulator,) = {envs._envs.batch}
    for choice in range(ActionSet("by-host", FACTS).n - 11, ActionSet("by-host", FACTS).n):
        for _ in range(5):
            envs.step([0], np.array([choice]))
            # Sleep's success is not known.
            assert simulator.states[0]["blue_success"] != FALSE
