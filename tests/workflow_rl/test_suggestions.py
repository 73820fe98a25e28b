"""What somebody may have meant, and that commands ask."""

from __future__ import annotations

import zipfile

import pytest
from click.testing import CliRunner

from tests.command_options import options_of
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.commands.main import main, places
from workflow_rl.suggestions import ELSEWHERE, option_meant, word_meant

OPTIONS = {name for option in options_of(train_async) for name in option.opts}


@pytest.mark.parametrize("typed", ELSEWHERE)
def test_options_of_other_packages_stand_for_ours(typed):
    assert ELSEWHERE[typed] in OPTIONS
    assert option_meant(typed, OPTIONS) == [ELSEWHERE[typed]]


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["train-async", "--lr", "1"], "Did you mean --learning-rate?"),
        (["train-async", "--red_agent", "mixed"], "Did you mean --red-agent?"),
        (["train-async", "--learning-rat", "1"], "--learning-rate"),
        (["train-async", "--red-agent", "Meander"], "Did you mean RedMeanderAgent?"),
        (["train-async", "--red-agent", "b_line"], "Did you mean B_lineAgent?"),
        (["train-async", "--simulator", "compield"], "Did you mean compiled?"),
        (["train"], "Did you mean train-sync or train-async"),
        (["trainasync"], "Did you mean train-async?"),
        (["evalute"], "Did you mean evaluate?"),
        (["evaluate", "champoin"], "decoys. Did you mean champion"),
        (["train-async", "--init-from", "champion"], "champion.npz is a policy file, which acts"),
        (["train-sync", "--preset", "alf"], "--preset alf (--batching first-come)"),
    ],
)
def test_the_commands_ask(arguments, asked):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert asked in result.output.splitlines()[-1]


def test_a_model_of_stable_baselines3_is_called_one(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as model:
        for name in ("data", "policy.pth", "_stable_baselines3_version"):
            model.writestr(name, "{}")
    result = CliRunner().invoke(main, ["evaluate", str(tmp_path / "model.zip")])
    assert result.exit_code == 2
    (error,) = (line for line in result.output.splitlines() if line.startswith("Error: "))
    assert "model.zip is a model of Stable-Baselines3" in error
    assert "damaged" not in error


def test_the_list_of_commands_has_whole_sentences():
    shown = CliRunner().invoke(main, ["--help"]).output.partition("Train:")[2]
    assert "..." not in shown
    assert shown.count(".\n") == len(places())


@pytest.mark.parametrize("arguments", [["evaluate"], ["evaluate", "{run}"]])
def test_options_of_an_evaluation_are_grouped(arguments, tmp_path):
    (tmp_path / "config.json").write_text('{"env": "CartPole-v1"}')
    words = [word.format(run=tmp_path) for word in arguments]
    shown = CliRunner().invoke(main, [*words, "--help"]).output
    headings = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert {"What is scored:", "Episodes:", "What is written:"} <= set(headings)


@pytest.mark.parametrize("typed", ["--zzzz", "--\x00", "--\n", "-"])
def test_who_meant_nothing_we_know_is_asked_nothing(typed):
    result = CliRunner().invoke(main, ["train-async", typed])
    assert result.exit_code == 2
    assert "Did you mean" not in result.output


def test_words():
    assert word_meant("sync", places()) == ["train-sync", "train-async"]
    assert word_meant("trian", places())[:2] == ["train-sync", "train-async"]
    for nothing in ("???", "", "qqq"):
        assert word_meant(nothing, places()) == []
