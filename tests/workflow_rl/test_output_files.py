import os
from pathlib import Path

import click
import pytest

from workflow_rl import output_files
from workflow_rl.errors import UserError
from workflow_rl.output_files import (
    appending,
    copy_file,
    make_folder,
    put,
    read_json,
    reading,
    remove_own,
    remove_unfinished,
    replacing,
    require_writable,
    sha256_of,
    write_json,
    write_text,
)


def test_what_is_written_is_on_the_disk_before_it_takes_the_old_ones_place(tmp_path, monkeypatch):
    """After a power cut a name that was changed may stand for contents that were never written."""
    path = tmp_path / "file"
    write_text(path, "old")
    happened = []
    fsync, replace = os.fsync, Path.replace

    def recorded_fsync(descriptor):
        fsync(descriptor)
        happened.append(("fsync", os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))

    def recorded_replace(source, target):
        happened.append(("replace", source.stat().st_ino, target.read_text()))
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    write_text(path, "a longer text")
    number = path.stat().st_ino
    assert happened == [("fsync", number, len("a longer text")), ("replace", number, "old")]


def test_what_was_not_finished_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "kept").mkdir()
    ours, draft = f".{'0a' * 8}.writing", ".draft.writing"
    for name in ("file", ".hidden", draft, "kept/file", ours, f"kept/{ours}"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path)
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")}
    assert left == {"file", ".hidden", draft, "kept", "kept/file"}


@pytest.mark.parametrize("kind", ["link", "link to nothing", "link to a folder", "pipe", "folder"])
def test_what_is_no_file_is_neither_replaced_nor_removed(kind, tmp_path):
    own, path = tmp_path / "own", tmp_path / "file"
    own.mkdir()
    (own / "notes").write_text("the user's")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        own.rename(path)
    else:
        places = {"link": own / "notes", "link to nothing": own / "none", "link to a folder": own}
        path.symlink_to(places[kind])
    before = sorted(tmp_path.rglob("*"))
    for call in (lambda: write_text(path, "new"), lambda: remove_own(path)):
        with pytest.raises(OSError, match=r"is a link|is no file|Is a directory|not empty"):
            call()
    with pytest.raises(click.BadParameter, match=r"is a link|is no file|is a folder"):
        require_writable(path, "--output")
    assert sorted(tmp_path.rglob("*")) == before
    assert (path if kind == "folder" else own).joinpath("notes").read_text() == "the user's"


def test_what_is_whole_takes_the_place_of_an_empty_folder_alone(tmp_path):
    for name in ("whole", "empty", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "whole" / "file").touch()
    (tmp_path / "notes" / "own").touch()
    with pytest.raises(OSError, match="not empty"):
        put(tmp_path / "whole", tmp_path / "notes")
    put(tmp_path / "whole", tmp_path / "empty")
    assert (tmp_path / "empty" / "file").exists()
    assert (tmp_path / "notes" / "own").exists()


def test_an_error_while_writing_leaves_the_old_one_alone(tmp_path):
    write_text(tmp_path / "file", "old")

    def fail_half_way() -> None:
        with replacing(tmp_path / "file") as file:
            file.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    with pytest.raises(OSError, match="File name too long") as raised:
        write_text(tmp_path / ("n" * 300), "text")
    assert Path(raised.value.filename).name == "n" * 300
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_digest_is_of_a_file_that_is_there_and_not_too_large(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of(path) == known
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe", tmp_path / "nowhere"):
        assert sha256_of(other) is None
    monkeypatch.setattr(output_files, "MOST_OF_AGENT", 2)
    assert sha256_of(path) is None


def test_json_is_read_as_it_was_written_and_an_error_names_the_file(tmp_path):
    path = tmp_path / "record.json"
    write_json(path, {"seed": 1, "names": ["ä"]})
    assert read_json(path) == {"seed": 1, "names": ["ä"]}
    with pytest.raises(ValueError, match="more than 9 bytes"):
        read_json(path, 9)
    lacking = r"record\.json cannot be read: it has no 'score'"
    with pytest.raises(UserError, match=lacking), reading(path):
        read_json(path)["score"]
    path.write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"record\.json cannot be read: "), reading(path):
        read_json(path)


def test_whether_a_file_can_be_written_is_tried_through_no_link(tmp_path):
    """Another folder would get an empty file."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / ".page.html.writing").symlink_to(tmp_path / "elsewhere")
    require_writable(tmp_path / "given" / "page.html", "--output")
    assert [path.name for path in (tmp_path / "given").iterdir()] == [".page.html.writing"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("kind", ["pipe", "link", "another's"])
def test_nothing_that_was_prepared_under_a_temporary_name_counts(kind, tmp_path, monkeypatch):
    """Whatever a stranger puts there: a pipe would be waited for, and a link written through."""
    path, prepared, own = tmp_path / "file", tmp_path / ".file.writing", tmp_path / "own"
    own.write_text("the user's")
    if kind == "pipe":
        os.mkfifo(prepared)
    elif kind == "link":
        prepared.symlink_to(own)
    else:
        prepared.write_text("another's")
    require_writable(path, "--output")
    write_text(path, "new")
    assert (path.read_text(), own.read_text()) == ("new", "the user's")


def test_two_may_write_one_file_at_a_time(tmp_path):
    """The last to end wins, with the whole of what it wrote."""
    path = tmp_path / "file"
    with replacing(path) as first:
        first.write("first")
        with replacing(path) as second:
            second.write("the second")
        remove_unfinished(tmp_path)  # As a run does that begins there meanwhile.
    assert path.read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_copy_is_of_a_file_that_ends(tmp_path):
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(10))
    for name in ("endless", "pipe", "large"):
        with pytest.raises(ValueError, match=r"no regular file|more than 9 bytes"):
            copy_file(tmp_path / name, tmp_path / "copy", 9)
    assert not (tmp_path / "copy").exists()
    copy_file(tmp_path / "large", tmp_path / "copy", 10)
    assert (tmp_path / "copy").read_bytes() == bytes(10)


def test_what_is_written_on_is_neither_a_link_nor_a_pipe(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "own").write_text("the user's")
    for name in ("folder", "own"):
        (tmp_path / f"link to {name}").symlink_to(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link to own", "pipe"):
        with pytest.raises(OSError, match=r"link|no file|No such device"):
            appending(tmp_path / name)
    with pytest.raises(OSError, match="folder is a link"):
        make_folder(tmp_path / "link to folder")
    make_folder(tmp_path / "folder")
    with appending(tmp_path / "own") as file:
        file.write(", and more")
    assert (tmp_path / "own").read_text() == "the user's, and more"
