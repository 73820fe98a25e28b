import json
import sys
from pathlib import Path

import pytest

from scripts import check_clients
from scripts.check_clients import CLIENTS, PAGE, ROWS, TABLE, ExampleError, learnt, table


def row_of(*returns: float) -> dict[str, object]:
    runs = [
        {"seed": i, "steps": 2000, "seconds": 7 + i, "return": r} for i, r in enumerate(returns)
    ]
    return {"version": "2.9.2", "gymnasium": "1.4.0", "runs": runs}


def test_the_page_has_the_table_of_the_rows():
    rows = json.loads(ROWS.read_text())
    found = TABLE.search(PAGE.read_text())
    assert found is not None
    assert found[0] == table(rows)
    assert rows.keys() == CLIENTS.keys()
    assert all(learnt(name, row) for name, row in rows.items())
    assert not learnt("sb3_ppo", row_of(-60.1, -20))
    assert learnt("rllib_cage4", row_of(-4000.0, -3000.0))


def test_what_an_example_is_told_and_what_is_read(tmp_path, monkeypatch):
    program = tmp_path / "examples" / "sb3_ppo.py"
    program.parent.mkdir()
    program.write_text(
        "import os; print(f\"{os.environ['STEPS']} steps in 3 s; return -{os.environ['SEED']}.5\")"
    )
    monkeypatch.setattr(check_clients, "ROOT", tmp_path)
    run = check_clients.run_example(Path(sys.executable), "sb3_ppo", 4, 70)
    assert run == {"seed": 4, "steps": 70, "seconds": 3, "return": -4.5}
    program.write_text("print('40.0')")
    with pytest.raises(ExampleError, match="sb3_ppo exited with"):
        check_clients.run_example(Path(sys.executable), "sb3_ppo", 0, None)


def test_rows_replace_those_of_the_same_example_and_go_when_it_fails(tmp_path, monkeypatch):
    page, rows = tmp_path / "clients.md", tmp_path / "clients.json"
    page.write_text("before\n<!-- table -->\nnothing yet\n<!-- end -->\nafter\n")
    monkeypatch.setattr(check_clients, "PAGE", page)
    monkeypatch.setattr(check_clients, "ROWS", rows)
    for written in (row_of(-61), row_of(-50)):
        check_clients.write_row("torchrl_ppo", written)
    check_clients.write_row("sb3_ppo", row_of(-20))
    both = {"torchrl_ppo": row_of(-50), "sb3_ppo": row_of(-20)}
    assert json.loads(rows.read_text()) == both
    assert page.read_text() == f"before\n<!-- table -->\n{table(both)}<!-- end -->\nafter\n"
    check_clients.write_row("sb3_ppo", None)
    assert json.loads(rows.read_text()).keys() == {"torchrl_ppo"}
