"""What a notebook's user meets: names to complete, short texts, figures."""

import pytest
from matplotlib.figure import Figure

import workflow_rl
from tests.tiny_runs import config_of, on_counting_envs
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.evaluation.evaluate import Evaluation
from workflow_rl.runs import loop


def test_lazy_names_are_completed_and_there():
    lazy = {"train", "evaluate", "load_agent", "learning_curves", "TrainConfig"}
    assert lazy <= set(dir(workflow_rl))
    assert all(getattr(workflow_rl, name) for name in lazy)


def test_an_evaluation_is_a_short_text():
    returns = [float(n % 3) for n in range(1000)]
    text = repr(Evaluation("CartPole-v1", 0, returns, [1] * 1000, 0.1))
    assert text == "Evaluation(CartPole-v1, 1000 episodes, mean 0.999 ± 0.051)"


def test_learning_curves_are_a_figure(tmp_path):
    for seed in (0, 1):
        with on_counting_envs():
            loop.train_policy(config_of(seed=seed), tmp_path / f"seed-{seed}", quiet=True)
    figure = workflow_rl.learning_curves(tmp_path / "seed-0", str(tmp_path / "seed-1"))
    assert isinstance(figure, Figure)
    labels = [line.get_label() for line in figure.axes[0].get_lines()]
    assert "2 seeds" in labels
    with pytest.raises(UserError):
        workflow_rl.learning_curves(tmp_path)


def test_labels_name_the_lines_in_their_order(tmp_path):
    with on_counting_envs():
        for name, seed, clip in (("a", 0, 0.2), ("b", 1, 0.2), ("c", 0, 0.1)):
            config = config_of(settings={"clip_range": clip}, seed=seed)
            loop.train_policy(config, tmp_path / name, quiet=True)
    runs = [tmp_path / name for name in "cab"]
    figure = workflow_rl.learning_curves(*runs, labels=["new", "old"])
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["new", "old"]
    one = workflow_rl.learning_curves(runs[0], labels=["new"])
    assert one.get_suptitle().startswith("new: ")
    for labels in (["new"], ["new", "new"], ["new", "old", "older"]):
        with pytest.raises(ConfigError, match="one for each line"):
            workflow_rl.learning_curves(*runs, labels=labels)
