"""What the digests in cage_digests.json are of, and how they are taken.

Values are hashed as float64, int64, booleans or text, so that no digest depends on a dtype.

This command writes the file, or parts of it. CybORG as published plays. CAGE-1's has to be
installed apart (docs/explanations/simulators.md): without it the digests of CAGE-1 stay as before.

    python -m tests.kept.cage_digests --only 'CAGE-2 champion*'
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from tests.kept import cage_adapter as cage
from tests.kept.test_reference_weights import command, results_of

FILE = Path(__file__).parent / "cage_digests.json"


class Digest:
    """SHA-256 of values."""

    def __init__(self) -> None:
        self._content = hashlib.sha256()
        self.text = self._content.hexdigest

    def add(self, values: Any, dtype: Any) -> None:
        """Take in an array as another dtype."""
        array = np.asarray(values).astype(dtype)
        if dtype is np.float64:
            array = array + 0.0  # A negative zero becomes a positive one.
        self._content.update(array.tobytes())

    def tell(self, value: Any) -> None:
        """Take in plain values."""
        self._content.update(json.dumps(value).encode())


# --- Networks of CAGE-1 and CAGE-2 ---------------------------------------------------------------

HIDDEN_EVERY = 50
HOARDERS = ("decoys-only", "stacked-decoys", "decoys-on-one-host")


class Episodes(NamedTuple):
    """Episodes of agents in a network. Each Red plays all seeds. reds: none stands for all that can
    play there."""

    scenario: str
    blue: str
    reds: tuple[str, ...]
    seeds: Sequence[int]
    steps: int = 100


def _pairs(scenario: str, blues: Sequence[str], reds: Sequence[str]) -> dict[str, Episodes]:
    """Return three episodes of each pair of agents, all with different seeds."""
    names = [(blue, red) for blue in blues for red in reds]
    return {
        f"{blue} against {red}": Episodes(scenario, blue, (red,), range(3 * n, 3 * n + 3))
        for n, (blue, red) in enumerate(names)
    }


def _networks(*names: str) -> dict[str, Episodes]:
    return {name: Episodes(name, "every-kind", (), (7,)) for name in names}


PUBLISHED: dict[str, dict[str, Episodes]] = {
    "CAGE-2": _pairs(
        "scenario2",
        (*cage.SCRIPTED, "mixed-decoys", "all-kinds", *HOARDERS),
        (*cage.CYBORG_REDS, *cage.DRAWN_REDS),
    ),
    "CAGE-2, rare paths": {
        "a process is bound to a host's address": Episodes(
            "scenario2", "sleep", ("RedMeanderAgent",), (1097, 3082, 7425, 160431)
        ),
        "a PID is taken, or 0": Episodes(
            "scenario2", "all-kinds", ("RedMeanderAgent",), (110, 121, 139, 853)
        ),
        "hundreds of ports": Episodes("scenario2", "busy-host", ("B_lineAgent",), (87, 413, 1946)),
        **{
            f"1000 steps of {blue}": Episodes("scenario2", blue, cage.CYBORG_REDS, (1,), 1000)
            for blue in HOARDERS
        },
    },
    # For these networks the simulator is compiled as for Scenario 2.
    "small networks": _networks("family 0", "family 4", "family 6", "random 18 5", "random 36 7"),
    "large networks": _networks(
        *("family 7", "random 10 11", "random 11 18", "random 28 13"),
        *("random 44 63", "random 45 8", "random 46 15"),
    ),
    "CAGE-1": _pairs("scenario1b", (*cage.SCRIPTED, "all-kinds", "every-kind"), cage.CYBORG_REDS),
}
"""Episodes as CybORG as published plays them, by section and name."""


def digests_of_episodes(episodes: Episodes, simulator: str) -> dict[str, str]:
    """Return digests of all that steps show, of what is hidden, and of a network that is drawn."""
    scenario = cage.scenario_named(episodes.scenario)
    drawn, shown, hidden = Digest(), Digest(), Digest()
    for red in episodes.reds or cage.reds_in(scenario):
        network = cage.Network(simulator, scenario, episodes.blue, red, episodes.steps)
        for seed in episodes.seeds:
            for step, (bits, reward, caught, told) in enumerate(network.episode(seed)):
                shown.add(bits, np.float64)
                shown.add(reward, np.float64)
                shown.add(caught, np.bool_)
                shown.tell(told)
                if step % HIDDEN_EVERY == 0:
                    hidden.tell(network.hidden())
    digests = {"shown": shown.text(), "hidden": hidden.text()}
    if episodes.reds:
        return digests
    drawn.tell(network.description)
    return {"network": drawn.text(), **digests}


# --- Agents in the compiled simulators, and what they see ----------------------------------------


OF_CAGE4 = (
    *(f"CAGE-4 {team}" for team in (*cage.TEAMS_OF_CAGE4, *cage.RELEASED["CAGE-4"])),
    "chance in CAGE4-v0, observation=flat",
    "chance in CAGE4-v0, observation=flat, actions=repair, messages=alerts",
    "chance in CAGE4-v0, observation=belief, messages=learned",
    "chance in CAGE4-v0, observation=belief, actions=suspects, own_rewards=true",
    "chance in CAGE4-v0, observation=belief, actions=steadfast",
    "chance in CAGE4-v0, scenarios=every",
    "chance in CAGE4-red-v0, blue_agent=rules=1,champion=1,random=1",
)
OF_A_FAMILY = (
    "CAGE-2 any-network",
    "chance in CAGE2-v0, scenario=family, actions=by-host",
    "chance in CAGE2-v0, scenario=family, observation=history",
)
"""Games that draw 200 networks first, which takes seconds."""
GAMES = (
    *(f"{of} {agent}" for of in cage.SCENARIO_OF for agent in (*cage.SCRIPTED, *cage.RELEASED[of])),
    *(f"CAGE-2 {agent} on the bits" for agent in cage.RELEASED["CAGE-2"]),
    "CAGE-1 champion1b on the bits",
    "CAGE-1 any-network on the bits",
    "chance in CAGE2-v0, actions=all",
    "chance in CAGE2-v0, observation=belief, actions=by-host-timed",
    "chance in CAGE2-v0, observation=evidence, actions=by-host",
    "chance in CAGE2-v0, observation=history, actions=by-host",
    "chance in CAGE2-v0, observation=true-state",
    "chance in CAGE2-v0, scenario=scenario1b",
    "chance in CAGE2-v0, scenario=scenario1b, observation=belief, actions=by-host",
    "chance in CAGE2-v0, scenario=scenario1b, observation=history",
    "chance in CAGE2-red-v0, blue_agent=decoys",
    "chance in CAGE2-red-v0, blue_agent=champion",
    "chance in OrderedCAGE2-v0, obedience=mask",
    "chance in OrderedCAGE2-v0, order=op_server,enterprise,op_hosts,users",
    "chance in OrderedCAGE2-v0, obedience=penalty, penalty=1.0, workflow=a: User1; b: User2 User3",
    *OF_A_FAMILY[1:],
    *OF_CAGE4,
)
"""What plays: see `cage.game_named`. Scripted agents of CAGE-1 and CAGE-2 play Episodes."""
FEW, MANY = 4, 50
"""Numbers of episodes. FEW are for the ordinary tests of what is slow."""


def digests_of_game(name: str, episodes: int) -> dict[str, Any]:
    """Return digests of all steps of so many episodes, and the mean total reward."""
    challenge, agent = name.split(maxsplit=1)
    if challenge in cage.SCENARIO_OF and agent in cage.SCRIPTED:
        # Each of the three reds plays the seeds: 6 or 51 episodes.
        seeds = range(1000, 1001 + episodes // len(cage.CYBORG_REDS))
        played = Episodes(cage.SCENARIO_OF[challenge], agent, cage.CYBORG_REDS, seeds)
        return dict(digests_of_episodes(played, cage.COMPILED))
    game, totals = cage.game_named(name, episodes), np.zeros(episodes)
    digests = {what: Digest() for what in ("observations", "masks", "actions", "rewards")}
    observations, masks = game.begin()
    for step in range(game.steps + 1):
        digests["observations"].add(observations, np.float64)
        digests["masks"].add(masks > 0, np.bool_)
        if step < game.steps:
            actions = game.act()
            observations, masks, rewards = game.step(actions)
            digests["actions"].add(actions, np.int64)
            digests["rewards"].add(rewards, np.float64)
            totals += rewards
    if not masks.shape[1]:
        del digests["masks"]
    mean = math.fsum(totals.tolist()) / episodes
    return {"mean total": mean, **{what: digest.text() for what, digest in digests.items()}}


# --- Trainings -----------------------------------------------------------------------------------

_UPDATES = (
    *("--n-envs", "8", "--n-workers", "1", "--seed", "7"),
    *("--episodes-per-update", "8", "--total-episodes", "16"),
)
_DUEL = ("train-duel", *_UPDATES, "--generations", "1", "--payoff-episodes", "4")
TRAININGS: dict[str, tuple[str, ...]] = {
    **{
        preset: ("train-async", "--preset", preset, *_UPDATES)
        for preset in ("cage1-quick", "cage2-quick", "cage2-robust", "any-network")
    },
    "cage4-quick": ("train-async", "--preset", "cage4-quick", *_UPDATES, "--teacher-episodes", "4"),
    "duel in CAGE-2": (
        *(*_DUEL, "--preset", "cage2-robust"),
        *("--start", "Blue=robust", "--start", "Red=B_lineAgent"),
    ),
    "duel in CAGE-4": (*_DUEL, "--env", "workflow_rl/CAGE4-v0", "--max-steps", "60"),
    # An update of this command has 200 episodes.
    "workflow": ("train-workflow", "--seed", "7", "--total-episodes", "400"),
}
"""Commands of two updates each."""


def results_of_training(name: str, folder: Path) -> dict[str, Any]:
    """Train in a new folder. Return the results of each run in it, by its place."""
    command(*TRAININGS[name], "--run-dir", str(folder))
    runs = sorted(file.parent for file in folder.rglob("checkpoint.safetensors"))
    results: dict[str, Any] = {str(run.relative_to(folder)): results_of(run) for run in runs}
    return results | ({"payoffs": cage.payoffs_of_duel(folder)} if "duel" in name else {})


# --- The command ---------------------------------------------------------------------------------

SECTIONS = {**PUBLISHED, "agents": GAMES, "trainings": TRAININGS}
"""The names of all that is stored."""


def _digests_of(section: str, name: str) -> Any:
    """Return digests; None for those of a CybORG that is not here."""
    if section == "agents":
        counts = (FEW, MANY) if name in OF_CAGE4 else (MANY,)
        return {f"{n} episodes": digests_of_game(name, n) for n in counts}
    if section == "trainings":
        with tempfile.TemporaryDirectory() as folder:
            return results_of_training(name, Path(folder, "run"))
    episodes = PUBLISHED[section][name]
    is_here = cage.is_here(cage.PUBLISHED, cage.scenario_named(episodes.scenario))
    return digests_of_episodes(episodes, cage.PUBLISHED) if is_here else None


@click.command()
@click.option("--only", metavar="PATTERN", default="*", help="Of the names of what is played.")
def main(only: str) -> None:
    """Write the digests of what has such a name. The others stay as they are."""
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    record: dict[str, dict[str, Any]] = {}
    for section, names in SECTIONS.items():
        record[section] = {}
        for name in names:
            written = _digests_of(section, name) if fnmatchcase(name, only) else None
            if (digests := written or stored.get(section, {}).get(name)) is not None:
                record[section][name] = digests
            if written is not None:
                print(section, name, sep=": ", flush=True)
    FILE.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
