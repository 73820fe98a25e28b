import contextlib
import sqlite3
import struct

import pytest

from tests.workflow_rl.studies.search_runs import search_in
from workflow_rl.errors import UserError
from workflow_rl.runs.run_dir import NotWrittenError

optuna = pytest.importorskip("optuna")
from workflow_rl.studies import search  # noqa: E402
from workflow_rl.studies.search import Search  # noqa: E402


@pytest.mark.parametrize("name", ["study.db", "study.db-journal", "study.db-wal"])
def test_a_study_that_is_a_link_is_not_opened(name, tmp_path):
    """SQLite would write into what the link leads to."""
    own = tmp_path / "own.db"
    own.touch()
    search_in(tmp_path / "tuned")
    (tmp_path / "tuned" / name).symlink_to(own)
    with pytest.raises(UserError, match=f"{name} is a link"):
        search_in(tmp_path / "tuned").study()
    assert own.read_bytes() == b""


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER endless AFTER INSERT ON trials BEGIN SELECT 1; END",
        "CREATE VIEW endless AS SELECT 1",
    ],
)
def test_a_study_that_brings_statements_is_not_opened(statement, tmp_path):
    """SQLite would run them, perhaps without an end."""
    search = search_in(tmp_path / "tuned")
    search.study()
    with contextlib.closing(sqlite3.connect(tmp_path / "tuned" / "study.db")) as connection:
        connection.execute(statement)
    with pytest.raises(UserError, match="views or triggers"):
        search.study()


def test_a_journal_that_names_a_file_is_not_played_back(tmp_path):
    """SQLite would remove the file once it has played the journal back."""
    own = tmp_path / "own.txt"
    own.write_text("the user's")
    search_in(tmp_path).study()
    database, journal = tmp_path / "study.db", tmp_path / "study.db-journal"
    connection = sqlite3.connect(database, isolation_level=None)
    for command in ("PRAGMA cache_size=1", "BEGIN EXCLUSIVE", "CREATE TABLE filling (text)"):
        connection.execute(command)
    connection.executemany("INSERT INTO filling VALUES (?)", [("x" * 3000,)] * 200)
    crashed, played = database.read_bytes(), journal.read_bytes()
    connection.close()
    named = str(own).encode()
    page = struct.pack(">I", 2**30 // 4096 + 1)
    ends = page + named + struct.pack(">II", len(named), sum(named)) + played[:8]
    database.write_bytes(crashed)
    journal.write_bytes(played + ends)
    with pytest.raises(UserError, match="names another file"):
        search_in(tmp_path).study()
    assert own.exists()
    # One of a crash alone is played back.
    journal.write_bytes(played)
    assert search_in(tmp_path).study()
    assert not journal.exists()


@pytest.mark.parametrize("finals", [{"x": [1.0]}, {"0": ["x"]}, [1.0], {"0": None}, "a trial"])
def test_a_study_with_odd_finals_or_of_other_settings_is_one_line(finals, tmp_path):
    study = search_in(tmp_path).study()
    if finals == "a trial":
        study.tell(study.ask(), 1.0)
    else:
        study.set_user_attr(search.FINALS, finals)
    with pytest.raises(UserError, match="no search of this package"):
        search_in(tmp_path).study()


def test_folders_of_any_name_hold_their_study(tmp_path):
    path = tmp_path / "what?{is}%41this"
    search_in(path).study()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert (path / "study.db").exists()


def test_a_damaged_study_is_one_clear_line(tmp_path):
    (tmp_path / "study.db").write_bytes(b"no database" * 100)
    with pytest.raises(UserError, match=r"study\.db"):
        search_in(tmp_path).study()


def test_a_study_that_was_deleted_is_not_begun_again(tmp_path):
    """Its trials' folders are still there, and what it found."""
    own = search_in(tmp_path)
    own.study()
    (tmp_path / "trial-0").mkdir()
    own.study()
    (tmp_path / "study.db").unlink()
    with pytest.raises(UserError, match=r"no study\.db to go on from"):
        own.study()
    assert not (tmp_path / "study.db").exists()


def test_a_study_on_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def fails(self, *arguments):
        raise optuna.exceptions.StorageInternalError("the commit") from OSError("disk full\nSQL")

    monkeypatch.setattr(Search, "_run_trials", fails)
    own = search_in(tmp_path)
    with pytest.raises(NotWrittenError, match=r"study\.db cannot be written: disk full$"):
        own.run(own.study(), 1, None)
