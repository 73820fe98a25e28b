import dataclasses
import json
import math
import os
import resource
import shutil
from contextlib import contextmanager

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import is_finished, read_config, read_metrics, read_summary
from workflow_rl.runs.metrics import METRICS
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.run_dir import RUN_FILE, NotWrittenError, RunDir, make_run_folder
from workflow_rl.runs.training_state import TrainingState

CONFIG = TrainConfig("async", n_envs=2)


def a_row(update: int) -> dict[str, float]:
    return {**dict.fromkeys(METRICS, 0.5), "update": update, "eval_return_mean": math.nan}


def events_of(path):
    events = EventAccumulator(str(path))
    events.Reload()
    return events


@contextmanager
def files_of_at_most(size):
    """As on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def begun(path, *updates, name="run", saves=False):
    """The path of a run with these rows. saves: a checkpoint after each."""
    with RunDir(path / name, CONFIG) as run:
        for update in updates:
            run.log(a_row(update))
            if saves:
                run.save("checkpoint.safetensors", after(update))
    return path / name


def after(updates: int, run_id: str = "") -> Checkpoint:
    return Checkpoint(CONFIG.to_dict(), {}, TrainingState(updates=updates), run_id=run_id)


def test_a_picture_that_is_a_link_is_refused_before_the_training(tmp_path):
    with RunDir(tmp_path / "run", CONFIG) as run:
        checkpoint = after(0, run.run_id)
    (tmp_path / "run" / "learning_curve.png").symlink_to(tmp_path / "own.png")
    with pytest.raises(UserError, match=r"learning_curve\.png is a link"):
        RunDir(tmp_path / "run", CONFIG, checkpoint)


def test_a_new_run_keeps_its_config_and_metrics_and_its_summary(tmp_path):
    with RunDir(tmp_path / "run", CONFIG) as run:
        run.log(a_row(1))
        run.log({**a_row(2), "return_mean": -1.25e299})
        run.write_summary({"episodes": 3})
    assert read_config(tmp_path / "run") == CONFIG
    rows = read_metrics(tmp_path / "run")
    assert [row["update"] for row in rows] == [1, 2]
    assert tuple(rows[0]) == METRICS
    assert math.isnan(rows[0]["eval_return_mean"])
    assert rows[1]["return_mean"] == -1.25e299
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == {"episodes": 3}


def test_tensorboard_events_have_every_metric(tmp_path):
    events = events_of(begun(tmp_path, 1))
    tags = events.Tags()["scalars"]
    assert {tag.partition("/")[2] for tag in tags} == set(METRICS) - {"update"}
    assert {"returns/return_mean", "speed/eps", "learning/entropy", "run/episodes"} <= set(tags)
    assert events.Scalars("learning/entropy")[0].value == 0.5
    (started,) = events.PluginTagToContent("hparams").values()
    hyperparameters = HParamsPluginData.FromString(started).session_start_info.hparams
    assert hyperparameters["seed"].number_value == CONFIG.seed
    assert hyperparameters["learning_rate"].number_value == CONFIG.settings.learning_rate


def test_a_resumed_run_drops_what_came_after_its_checkpoint(tmp_path):
    """TensorBoard shows no update twice, and not at all what never came again."""
    path = begun(tmp_path, 1, 2, 3, 4)
    # A run that is killed can leave half a row.
    with (path / "metrics.csv").open("a") as file:
        file.write("5,0.5,0.")
    with RunDir(path, CONFIG, resumed=after(2)) as run:
        run.log({**a_row(3), "entropy": 0.25})
    assert [row["update"] for row in read_metrics(path)] == [1, 2, 3]
    entropy = [(event.step, event.value) for event in events_of(path).Scalars("learning/entropy")]
    assert entropy == [(1, 0.5), (2, 0.5), (3, 0.25)]


def test_an_update_that_waits_for_its_row_may_have_its_own_columns(tmp_path):
    """The user has changed the algorithm since."""
    path, row = begun(tmp_path, 1), {**a_row(2), "curiosity": 0.25}
    checkpoint = Checkpoint(CONFIG.to_dict(), {}, TrainingState(updates=2, unlogged=row))
    with RunDir(path, CONFIG, resumed=checkpoint) as run:
        run.log(row)
    assert read_metrics(path)[1]["curiosity"] == 0.25


def test_a_run_that_ended_before_its_first_checkpoint_is_begun_again(tmp_path):
    path = tmp_path / "run"
    RunDir(path, CONFIG).close()
    half = path / f".{'0a' * 8}.writing"
    half.write_bytes(b"half")
    with RunDir(path, CONFIG) as run:
        with pytest.raises(UserError, match="in use"):
            RunDir(path, CONFIG)
        run.log(a_row(1))
        run.save("checkpoint.safetensors", after(1))
    assert len(read_metrics(path)) == 1
    assert not half.exists()
    with pytest.raises(UserError, match="not empty"):
        RunDir(path, CONFIG)


def log_up_to(run: RunDir, update: int) -> None:
    for number in range(2, update):
        run.log(a_row(number))


@pytest.mark.parametrize("size", [0, 20, 4096])
def test_a_full_disk_is_told_in_one_line_and_nothing_saved_is_harmed(size, tmp_path):
    path = tmp_path / "run"
    larger = dataclasses.replace(after(2), agent={"a": "x" * 5000})
    with RunDir(path, CONFIG) as run:
        run.log(a_row(1))
        run.save("checkpoint.safetensors", after(1))
        before = (path / "checkpoint.safetensors").read_bytes()
        with files_of_at_most(size):
            with pytest.raises(NotWrittenError, match="cannot be written: File too large"):
                log_up_to(run, 100)
            with pytest.raises(NotWrittenError, match=r"checkpoint\.safetensors cannot be written"):
                run.save("checkpoint.safetensors", larger)
            with pytest.raises(NotWrittenError, match=r"summary\.json cannot be written"):
                run.write_summary({"text": "x" * 5000})
            with pytest.raises(NotWrittenError, match=r"machine\.json cannot be written"):
                run.record_weights("x" * 5000)
            run.close()
    assert (path / "checkpoint.safetensors").read_bytes() == before
    assert not list(path.glob(".*"))
    with RunDir(path, CONFIG, after(1)) as run:
        run.log(a_row(2))
    assert [row["update"] for row in read_metrics(path)] == [1, 2]


def test_one_training_at_a_time(tmp_path):
    """Another one's rows would be cut, and its checkpoint replaced."""
    path = begun(tmp_path, 1)
    before = (path / "metrics.csv").read_bytes()
    with RunDir(path, CONFIG, after(1)), pytest.raises(UserError, match="in use: another process"):
        RunDir(path, CONFIG, after(1))
    assert (path / "metrics.csv").read_bytes() == before
    RunDir(path, CONFIG, after(1)).close()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path, other = (begun(tmp_path, 1, name=name, saves=True) for name in ("one", "other"))
    foreign = other / "checkpoint.safetensors"
    shutil.copy(foreign, path)
    before = content_of(path)
    with pytest.raises(UserError, match="of another run"):
        RunDir(path, CONFIG, load_checkpoint(foreign))
    assert content_of(path) == before


def test_a_run_that_went_on_meanwhile_loses_nothing(tmp_path):
    """Its checkpoint was read before the other process was done."""
    path = begun(tmp_path, 1, saves=True)
    before = load_checkpoint(path / "checkpoint.safetensors")
    with RunDir(path, CONFIG, before) as run:
        run.log(a_row(2))
        run.save("checkpoint.safetensors", after(2))
    with pytest.raises(UserError, match="gone on meanwhile"):
        RunDir(path, CONFIG, before)
    assert len(read_metrics(path)) == 2
    RunDir(path, CONFIG, load_checkpoint(path / "checkpoint.safetensors")).close()


def test_folders_of_before_there_were_ids_take_their_checkpoints(tmp_path):
    with RunDir(tmp_path / "run", CONFIG) as run:
        first = run.run_id
        run.log(a_row(1))
    (tmp_path / "run" / RUN_FILE).unlink()
    with RunDir(tmp_path / "run", CONFIG, after(1)) as run:
        assert run.run_id not in ("", first)
    with RunDir(tmp_path / "run", CONFIG, after(1)) as again:
        assert again.run_id == run.run_id


def test_a_folder_that_cannot_be_used_is_refused_and_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path, said in (
        (tmp_path, "not empty"),
        (tmp_path / "file" / "run", "cannot be used"),
        (tmp_path / "file", "cannot be used"),
    ):
        with pytest.raises(UserError, match=said):
            RunDir(path, CONFIG)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_new_path_is_never_one_that_exists(tmp_path):
    paths = [make_run_folder("sync", "mixed", tmp_path / "runs") for _ in range(3)]
    assert len(set(paths)) == 3
    assert all(path.is_dir() and "-sync-mixed" in path.name for path in paths)


def test_no_run_folder(tmp_path):
    for read in (read_config, read_metrics):
        with pytest.raises(UserError, match="not a run folder"):
            read(tmp_path)
    with pytest.raises(UserError, match=r"frist does not exist$"):
        read_config(tmp_path / "frist")


def test_a_run_is_finished_if_its_summary_says_so(tmp_path):
    assert not is_finished(tmp_path)
    for finished in (True, False):
        (tmp_path / "summary.json").write_text(json.dumps({"finished": finished}))
        assert is_finished(tmp_path) == finished
    (tmp_path / "summary.json").write_text("[]")
    with pytest.raises(UserError, match=r"summary.json cannot be read"):
        is_finished(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"wall_seconds": "long"}', "{", None])
def test_a_summary_that_cannot_be_read_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    with pytest.raises(UserError, match=r"summary.json cannot be read: "):
        read_summary(tmp_path)


@pytest.mark.parametrize(("number", "is_taken"), [(2**63 - 1, True), (2**63, False)])
def test_counts_are_of_64_bits(tmp_path, number, is_taken):
    with RunDir(tmp_path / "run", CONFIG) as run:
        run.log({**a_row(1), "episodes": number})
    if is_taken:
        assert read_metrics(tmp_path / "run")[0]["episodes"] == number
    else:
        with pytest.raises(UserError, match=f"episodes is {number}"):
            read_metrics(tmp_path / "run")


def finished_run(path):
    with RunDir(path, CONFIG) as run:
        run.log(a_row(1))
        for name in ("checkpoint.safetensors", "best.safetensors", "kept/000001.safetensors"):
            run.save(name, after(1))
        run.write_summary({"finished": True})


def content_of(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("left", ["best.safetensors", "kept", "metrics.csv", "summary.json"])
def test_a_run_without_its_checkpoint_is_not_a_new_one(left, tmp_path):
    """Whatever is left of it was deleted for space."""
    path = tmp_path / "run"
    finished_run(path)
    for name in ("checkpoint.safetensors", "best.safetensors", "metrics.csv", "summary.json"):
        if name != left:
            (path / name).unlink()
    if left != "kept":
        shutil.rmtree(path / "kept")
    before = content_of(path)
    with pytest.raises(UserError, match=r"not empty: choose another folder, .* no check"):
        RunDir(path, CONFIG.changed(seed=1))
    assert content_of(path) == before


def test_a_finished_run_that_cannot_go_on_stays_finished(tmp_path):
    """On a full disk, what it has is kept."""
    path = tmp_path / "run"
    finished_run(path)
    before = content_of(path)
    with files_of_at_most(0), pytest.raises(UserError, match="cannot be used: File too large"):
        RunDir(path, CONFIG, after(1))
    assert content_of(path) == before
    with RunDir(path, CONFIG, after(1)):
        assert not is_finished(path)


def test_an_id_that_is_a_pipe_is_not_waited_for(tmp_path):
    finished_run(tmp_path / "run")
    (tmp_path / "run" / RUN_FILE).unlink()
    os.mkfifo(tmp_path / "run" / RUN_FILE)
    with pytest.raises(UserError, match="cannot be used"):
        RunDir(tmp_path / "run", CONFIG, after(1))


def test_config_json_says_where_each_value_came_from(tmp_path):
    config = TrainConfig("async", env="CartPole-v1", seed=3, settings={"epochs": 2})
    with RunDir(tmp_path / "run", config):
        pass
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    asked = {name for name, origin in content["came_from"].items() if origin == "option"}
    assert asked == {"mode", "env", "seed", "epochs"}
    assert content["came_from"]["learning_rate"] == "environment"
    assert "n_envs" not in content["came_from"]
    assert content["settings"]["epochs"] == 2
    assert read_config(tmp_path / "run") == config
    assert not read_config(tmp_path / "run").named_by_file
