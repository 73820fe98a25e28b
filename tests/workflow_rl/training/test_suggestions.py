"""What somebody may have meant, and that commands ask."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.cli import MODULES, main
from workflow_rl.training.suggestions import ELSEWHERE, option_meant, word_meant

OPTIONS = {name for option in train_async.params for name in option.opts}


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
        (["train-sync", "--preset", "alf"], "--preset alf (--batching first-come)"),
    ],
)
def test_the_commands_ask(arguments, asked):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert asked in result.output.splitlines()[-1]


@pytest.mark.parametrize("typed", ["--zzzz", "--\x00", "--\n", "-"])
def test_who_meant_nothing_we_know_is_asked_nothing(typed):
    result = CliRunner().invoke(main, ["train-async", typed])
    assert result.exit_code == 2
    assert "Did you mean" not in result.output


def test_words():
    assert word_meant("sync", MODULES) == ["train-sync", "train-async"]
    assert word_meant("???", MODULES) == []
