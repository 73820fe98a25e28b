"""Linked lists of cells. A cell's index is 1 or more, and 0 means that there is no cell."""

from typing import Any

from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.state import TOO_MANY_CELLS


@compiled
def check_room(s: Any) -> None:
    """Set an error if the cells may not be enough for one more step."""
    if s.n_cells > ((4 * len(s.cells)) // 5):
        s.error = TOO_MANY_CELLS


@compiled
def new_cell(s: Any) -> int:
    """Return an unused cell that ends a list. The caller sets the cell's other fields."""
    cell = int64(s.free_cell)
    if cell != 0:
        s.free_cell = s.cells[cell].next
    else:
        cell = int64(s.n_cells)
        s.n_cells = cell + 1
    s.cells[cell].next = 0
    s.cells[cell].first = 0
    return cell


@compiled
def free_list(s: Any, first: int, last: int) -> None:
    """Give back the cells of a list that is not empty."""
    s.cells[last].next = s.free_cell
    s.free_cell = first


@compiled
def last_of(s: Any, first: int) -> int:
    """Return the last cell of a list that is not empty."""
    cell = first
    while s.cells[cell].next != 0:
        cell = int64(s.cells[cell].next)
    return cell


@compiled
def free_whole_list(s: Any, first: int) -> None:
    """Give back the cells of a list, which may be empty. Lists that they point to stay in use."""
    if first != 0:
        free_list(s, first, last_of(s, first))


@compiled
def append_cell(s: Any, first: int, cell: int) -> int:
    """Put a cell at the end of a list, after reading the whole list. Returns the first cell."""
    if first == 0:
        return cell
    s.cells[last_of(s, first)].next = cell
    return first


@compiled
def without(s: Any, first: int, cell: int) -> int:
    """Take a cell out of its list. Returns the list's new first cell."""
    if first == cell:
        return int64(s.cells[cell].next)
    before = first
    while s.cells[before].next != cell:
        before = int64(s.cells[before].next)
    s.cells[before].next = s.cells[cell].next
    return first
