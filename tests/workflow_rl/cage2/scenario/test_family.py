from pathlib import Path

import numpy as np
import pytest

from workflow_rl import TrainConfig
from workflow_rl.cage2.agent.network_facts import FACTS, NetworkFacts, joined_hosts
from workflow_rl.cage2.agent.views import ActionSet, View
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.red.roster import refusals
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.files import write_scenario
from workflow_rl.cage2.scenario.loading import played_of, scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ScenarioError
from workflow_rl.environments.episode import EpisodeSpec

RANGES = {
    "networks": 4,
    "hosts": {"User": [3, 7], "Enterprise": [4, 5], "Operational": [2, 5]},
    "images": {"User": ["windows_user_host1", "linux_user_host1"]},
    "values": {"Enterprise": ["High"]},
    "links": [1, 2],
}
FAMILY = ScenarioFamily.from_ranges(RANGES)
WITH_WEB = Scenario.scenario2().add_host("Web0", "Gateway", "Enterprise")
HEADER = "start: scenario2\nnetworks: 4\n"


def test_a_network_follows_from_its_number():
    again = ScenarioFamily.from_text(FAMILY.text)
    networks = FAMILY.drawn(range(8))
    assert [network.digest for network in again.drawn(range(8))] == [n.digest for n in networks]
    assert len({network.digest for network in networks}) == 8
    assert networks[5].name == "family-5"


def test_networks_stay_within_the_ranges_and_red_agents_play_in_all():
    for network in FAMILY.drawn(range(8)):
        for subnet, (low, high) in RANGES["hosts"].items():
            assert low <= len(network.subnets[subnet]) <= high
        hosts = network.description()["Hosts"]
        assert {hosts[h]["ConfidentialityValue"] for h in network.subnets["Enterprise"]} == {"High"}
        assert set(refusals(network).values()) == {None}


def test_a_large_network_is_drawn_in_which_b_line_plays():
    family = ScenarioFamily.from_ranges({"hosts": {"User": [40, 40]}, "networks": 1})
    (network,) = family.drawn([0])
    assert len(network.hosts) == 48
    assert refusals(network)["B_lineAgent"] is None


def test_networks_do_not_depend_on_the_names_of_files_or_on_the_order_of_keys():
    first = {"start": "a.yaml", "hosts": {"User": [3, 6], "Enterprise": [5, 6]}, "links": [1, 2]}
    other = {"links": [1, 2], "hosts": {"Enterprise": [5, 6], "User": [3, 6]}, "start": "b.yaml"}
    mine = ScenarioFamily.from_ranges(first, WITH_WEB.renamed("a")).drawn(range(3))
    theirs = ScenarioFamily.from_ranges(other, WITH_WEB.renamed("b"), "other").drawn(range(3))
    assert [network.content for network in mine] == [network.content for network in theirs]


def test_ranges_that_came_later_leave_the_networks_of_older_files():
    family = ScenarioFamily.from_ranges({"networks": 5, "hosts": {"User": [2, 4]}})
    assert family.digest == "280f8c3bebab"


def test_where_red_enters_is_drawn_and_b_line_then_cannot_play():
    family = ScenarioFamily.from_ranges({"entry": ["User0", "User1"], "networks": 2})
    assert {network.red_host for network in family.drawn(range(12))} == {"User0", "User1"}
    assert "begins on User0" in str(refusals(family)["B_lineAgent"])
    assert refusals(family)["RedMeanderAgent"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts: {Lab: [1, 2]}", r":3: hosts\.Lab: there is no subnet Lab"),
        ("hosts: {User: [5, 2]}", r":3: hosts\.User: 5 is above 2"),
        ("hosts: {User: [1]}", r":3: hosts\.User"),
        ("hosts: {User: [1, 70]}", "less than or equal to 64"),
        ("hosts: {User: [1, 60]}", "up to 68 hosts"),
        ("hosts: {Enterprise: [2, 5]}", "Enterprise2, Defender are in every network: give 4"),
        ("images: {User: [Windows]}", "there is no image Windows"),
        ("images: {User: []}", "at least 1"),
        ("values: {User: [Huge]}", "'High'"),
        ("links: [1]", "links"),
        ("entry: [User9]", "there is no host User9"),
        ("host: {User: [1, 2]}", "Did you mean hosts"),
        ("start: ../other.yaml", "start is given twice"),
        ("decoys: [maybe]", r":3: decoys"),
    ],
)
def test_a_damaged_file_is_one_line_with_the_place(text: str, message: str, tmp_path: Path):
    path = tmp_path / "family.yaml"
    path.write_text(HEADER + text)
    with pytest.raises(ScenarioError, match=message) as error:
        played_of(path)
    assert "\n" not in str(error.value)


def test_the_start_is_a_file_of_the_same_folder(tmp_path: Path):
    write_scenario(WITH_WEB, tmp_path / "office.yaml")
    (tmp_path / "family.yaml").write_text("start: office.yaml\nhosts: {User: [4, 5]}\n")
    family = played_of(tmp_path / "family.yaml")
    assert family.start == WITH_WEB.renamed("office")
    for start, message in (
        ("../office.yaml", "is not in the same folder"),
        ("family.yaml", r":1: start: family.yaml is a family"),
    ):
        (tmp_path / "family.yaml").write_text(f"start: {start}\n")
        with pytest.raises(ScenarioError, match=message):
            played_of(tmp_path / "family.yaml")
    with pytest.raises(ScenarioError, match="is a family of scenarios"):
        scenario_of(FAMILY)


def test_ranges_without_a_network_are_one_line():
    impossible = ScenarioFamily.from_ranges({"links": [0, 0]})
    with pytest.raises(ScenarioError, match="draws gave no network"):
        impossible.draw(0)


@pytest.fixture(scope="module")
def small_and_large() -> tuple[Scenario, Scenario]:
    """Two networks of the family."""
    small, *_, large = sorted(FAMILY.drawn(range(4)), key=lambda network: len(network.hosts))
    return small, large


def test_blue_sees_facts_of_hosts_that_exist_and_no_number_of_theirs(small_and_large):
    small, large = small_and_large
    facts, n = NetworkFacts([small, large]), len(large.hosts)
    assert facts.n_hosts == n
    view = View("table", facts)
    seen = view.begin([0], np.ones((1, 4 * n), np.uint8))
    (row,) = ActionSet("all", facts).with_masks(seen, [0])
    hosts = row[: n * (4 + len(FACTS))].reshape(n, -1)
    exists, mask = hosts[:, 4], row[view.n_shown :]
    assert exists.tolist() == [1] * len(small.hosts) + [0] * (n - len(small.hosts))
    assert not hosts[exists == 0][:, 5:].any()
    assert mask[:2].tolist() == [1, 1]
    np.testing.assert_array_equal(mask[2:].reshape(-1, n), [exists] * 11)
    layout = View("table", facts).entities(facts.named)
    assert layout.traits.shape == (n, 0)


def test_a_network_of_a_family_tells_which_hosts_are_joined(small_and_large):
    small, large = small_and_large
    facts = NetworkFacts([small, large])
    layout = View("table", facts).entities(facts.named)
    row = View("table", facts).begin([0], np.zeros((1, 4 * len(large.hosts)), np.uint8))
    joined = np.pad(row[0], (0, 1))[layout.neighbours] > 0
    n = len(small.hosts)
    assert not joined[:, n:].any()
    assert not joined[:, :, n:].any()
    for relation, alone in zip(joined, joined_hosts(small).values(), strict=True):
        np.testing.assert_array_equal(relation[:n, :n], alone)
    _, leads_to, led_to = joined
    np.testing.assert_array_equal(leads_to, led_to.T)
    assert {(small.hosts[i], small.hosts[j]) for i, j in np.argwhere(leads_to)} == {
        (host, other) for host, others in small.leads_to.items() for other in others
    }
    assert len(layout.whole) == 0


def test_a_family_is_an_environment_of_entities():
    environment = Cage2(scenario=FAMILY.text, simulator="compiled")
    spaces = environment.spaces()
    assert spaces.masked
    assert spaces.obs_dim == spaces.entities.n_inputs
    assert environment.label == "family-B_lineAgent"


def test_a_run_on_a_family_learns_by_entities_unless_told_otherwise():
    args = {"scenario": FAMILY.text, "simulator": "compiled", "red_agent": "SleepAgent"}
    assert TrainConfig("async", env_args=args).settings.network == "entities"
    assert TrainConfig("async", env_args=args, network="gru").settings.network == "gru"
    assert TrainConfig("async").settings.network == "mlp"


def test_in_some_networks_blue_has_no_decoys():
    family = ScenarioFamily.from_ranges({"networks": 6, "decoys": [True, False]})
    networks = family.drawn(range(6))
    has_decoys = ["DecoyApache" in network.kinds_of_action for network in networks]
    assert sorted(set(has_decoys)) == [False, True]
    view = {"observation": "history", "actions": "by-host"}
    environment = Cage2("SleepAgent", simulator="compiled", scenario=family.text, **view)
    envs = environment.make_envs(6)
    rows = envs.reset(range(6), [EpisodeSpec(i, "SleepAgent", i, 0) for i in range(6)])
    n_choices = environment.spaces().distribution.n_outputs
    masks = rows[:, -n_choices:]
    n_hosts = (n_choices - 1) // 4
    assert masks[:, -n_hosts:].any(axis=1).tolist() == has_decoys
    assert masks[:, 1:-n_hosts].any(axis=1).all()
