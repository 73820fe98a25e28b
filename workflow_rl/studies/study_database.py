"""The database of a search's study, which may be a stranger's."""

import contextlib
import sqlite3
from pathlib import Path

from sqlalchemy import URL

from workflow_rl.errors import UserError
from workflow_rl.output_files import no_pipe

_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""SQLite's journals begin with these bytes, and end with them if they name another file."""


def url_of(database: Path) -> str:
    """Return a database's URL. Braces in folder names are doubled, as Optuna formats the URL."""
    url = URL.create("sqlite", database=str(database)).render_as_string()
    return url.replace("{", "{{").replace("}", "}}")


def require_own_database(database: Path) -> None:
    """Raise UserError for a database from which SQLite would change a file elsewhere."""
    for end in ("", "-journal", "-wal", "-shm"):
        file = Path(f"{database}{end}")
        if file.is_symlink():
            raise UserError(f"{file} is a link: put the file itself there")
    journal = Path(f"{database}-journal")
    # SQLite plays back the journal of a crash, which can name a file that SQLite then removes. Only
    # writing to several databases at once leaves such a name, and Optuna never does that.
    if journal.exists() and _last_bytes(journal, len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC:
        raise UserError(f"{journal} names another file: it is not one of Optuna's")
    if database.exists() and _runs_statements(database):
        problem = "has views, triggers or virtual tables: it is not one of Optuna's"
        raise UserError(f"{database} {problem}")


def _runs_statements(database: Path) -> bool:
    """Return whether using the tables runs statements of the database's author."""
    if not database.is_file():
        raise UserError(f"{database} is no file")
    schema = (
        "SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE '%virtual%'"
    )
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            return connection.execute(schema).fetchone() is not None
    except sqlite3.Error as error:
        raise UserError(f"{database} cannot be used: {error}") from None


def _last_bytes(path: Path, number: int) -> bytes:
    """Return the end of a file. Raises UserError if it is no file."""
    if not path.is_file():
        raise UserError(f"{path} is no file")
    with open(path, "rb", opener=no_pipe) as file:
        file.seek(max(0, path.stat().st_size - number))
        return file.read()
