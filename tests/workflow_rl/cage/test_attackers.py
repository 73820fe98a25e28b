from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.cage.attackers import MOST_WEIGHT, Attacker, AttackerError, Roster
from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.scenario2 import RED_AGENTS

WORDS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
NAMES = st.one_of(
    st.sampled_from(RED_AGENTS),
    st.builds("{}.{}:{}".format, WORDS, WORDS, WORDS),
    st.builds("{}/{}".format, WORDS, WORDS),
    st.builds("{}.npz".format, WORDS),
)
SHARES = st.dictionaries(NAMES, st.integers(1, 99), min_size=1, max_size=6)


class Mine:
    def act(self, seen: Any) -> str:
        return "Sleep"


@given(SHARES, st.sampled_from((",", " , ")))
def test_what_is_written_is_read(shares: dict[str, int], comma: str) -> None:
    text = comma.join(f"{name}={weight}" for name, weight in shares.items())
    read = REDS.read(text)
    assert {member.name: member.weight for member in read.members} == shares
    assert Counter(read.variants) == shares
    assert [member.name for member in read.foreign] == [n for n in shares if n not in RED_AGENTS]
    assert REDS.read(str(read)).variants == (read.variants if len(shares) > 1 else (*shares,))
    assert REDS.read(shares).variants == read.variants
    assert REDS.text(text) == text


@given(SHARES, st.integers(0, 2**63 - 1))
def test_the_seed_draws_one_of_the_shares(shares: dict[str, int], seed: int) -> None:
    read = REDS.read(shares)
    (word,) = np.random.SeedSequence(seed, spawn_key=(1,)).generate_state(1)
    assert read.drawn(seed).name == read.variants[int(word) % sum(shares.values())]


def test_the_path_of_a_folder_is_one_attacker(tmp_path: Path) -> None:
    for name in ("red", "red=2"):
        (tmp_path / name).mkdir()
    path = str(tmp_path / "red=2")
    for value in (path, Path(path)):
        assert REDS.read(value).variants == (path,)
        assert REDS.text(value) == str(REDS.read(value)) == f"{path}=1"
    assert REDS.read(f"{path}=3,SleepAgent").members[0].weight == 3
    (tmp_path / "red=2").rmdir()
    assert REDS.read(f"{path}=1").variants == (path,)
    (tmp_path / "a,b").mkdir()
    with pytest.raises(AttackerError, match="a,b has a comma, which separates"):
        REDS.read(str(tmp_path / "a,b"))


def test_named_mixtures_are_as_ever() -> None:
    assert REDS.read("mixed").variants == RED_AGENTS
    shares = ("B_lineAgent",) * 8 + ("RedMeanderAgent",) * 11 + ("SleepAgent",)
    assert REDS.read("attackers").variants == shares


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("b_line", "'b_line' is no red agent: choose B_lineAgent, RedMeanderAgent, SleepAgent, mi"),
        ("", "'' is no red agent"),
        ("B_lineAgent,", "'' is no red agent"),
        ("B_lineAgent=0", "B_lineAgent=0: a weight is a whole number from 1 up"),
        ("B_lineAgent=-1,SleepAgent", "B_lineAgent=-1: a weight is a whole number"),
        ({"B_lineAgent": 0.5}, r"B_lineAgent=0\.5: a weight is a whole number"),
        ("B_lineAgent,B_lineAgent=2", "B_lineAgent is given twice"),
        (f"B_lineAgent={MOST_WEIGHT + 1}", "the weights have to be 10,000 or less together"),
        ("mixed=2,runs/red", "mixed is several: give B_lineAgent,RedMeanderAgent,SleepAgent in"),
        ("runs/my_red.py:Mine", r"runs/my_red\.py:Mine names a file: give my_red:Mine"),
        ("my red:Mine", "'my red:Mine' is no red agent"),
        (None, "None is no red agent"),
        ({}, "the weights have to be"),
    ],
)
def test_what_names_no_attackers_is_refused(value: Any, message: str) -> None:
    with pytest.raises(AttackerError, match=f"^{message}"):
        REDS.read(value)


def test_classes_objects_and_paths_are_attackers() -> None:
    name = f"{__name__}:Mine"
    mine = Mine()
    assert REDS.read(Mine).members[0].found() is Mine
    assert REDS.read(mine).members[0].found() is mine
    assert REDS.read(name).members[0].found() is Mine
    assert REDS.text(Mine) == name
    assert REDS.text({Mine: 2, "SleepAgent": 1}) == f"{name}=2,SleepAgent=1"
    assert [REDS.text(Path(path)) for path in ("runs/red", "red", "red.npz")] == [
        *("runs/red", "./red", "red.npz")
    ]
    assert REDS.read("runs/red=1").members[0].is_path


def test_a_config_keeps_no_object_and_no_local_class() -> None:
    class Local(Mine):
        pass

    with pytest.raises(AttackerError, match=r"Mine\(\): give the class Mine"):
        REDS.text(Mine())
    with pytest.raises(AttackerError, match="Local is a class of a script or function: define"):
        REDS.text(Local)


def test_a_library_has_names_of_its_own() -> None:
    own = Roster(("One",), {"all": "quiet,One"}, {"quiet": f"{__name__}:Mine"})
    quiet, one = own.read("all").members
    assert quiet == Attacker("quiet")
    assert quiet.found() is Mine
    assert own.read("all").foreign == (quiet,)
    assert one.place == ""
    with pytest.raises(AttackerError, match=r"Did you mean quiet\?"):
        own.read("quite")


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(AttackerError, match="no_such_module:Mine cannot be imported: ModuleNotF"):
        REDS.read("no_such_module:Mine").members[0].found()
