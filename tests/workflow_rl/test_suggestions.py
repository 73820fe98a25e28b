import zipfile

import pytest

from tests.cli import call, refused, said_by
from tests.command_options import command_named, options_of
from workflow_rl.commands.main import places
from workflow_rl.suggestions import ELSEWHERE, option_meant, word_meant

OPTIONS = {name for option in options_of(command_named("train-async")) for name in option.opts}


@pytest.mark.parametrize("typed", ELSEWHERE)
def test_options_of_other_packages_stand_for_ours(typed):
    assert ELSEWHERE[typed] in OPTIONS
    assert option_meant(typed, OPTIONS) == [ELSEWHERE[typed]]


def test_who_plays_a_model_of_stable_baselines3_is_told(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as model:
        for name in ("data", "policy.pth", "_stable_baselines3_version"):
            model.writestr(name, "{}")
    told = (
        "model.zip is an archive: unpack it, and give what is in it. A model of Stable-Baselines3"
    )
    assert "damaged" not in refused(call("evaluate", tmp_path / "model.zip"), told)


def test_options_of_an_evaluation_are_grouped(tmp_path):
    (tmp_path / "config.json").write_text('{"env": "CartPole-v1"}')
    for words in (["evaluate"], ["evaluate", tmp_path]):
        lines = said_by(*words, "--help").splitlines()
        headings = {line for line in lines if line.endswith(":") and line[0] != " "}
        assert {"What is scored:", "Episodes:", "What is written:"} <= headings


def test_words():
    assert word_meant("sync", places()) == ["train-sync", "train-async"]
    assert word_meant("trian", places())[:2] == ["train-sync", "train-async"]
    for nothing in ("???", "", "qqq"):
        assert word_meant(nothing, places()) == []
