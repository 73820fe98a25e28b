"""The guests that are installed. A guest is imported when it is asked for, never before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from workflow_rl.errors import UserError
from workflow_rl.plug_ins import PlugIn, plug_ins

if TYPE_CHECKING:
    from workflow_rl.environments.guest import Guest


class Guests(Mapping[str, "Guest"]):
    """The guests by the ids of their environments, this package's first.

    Asking for a guest imports it. Raises UserError for one that cannot be imported, or is none.
    """

    def __init__(self) -> None:
        self._imported: dict[str, Guest] = {}

    def __getitem__(self, env_id: str) -> Guest:
        if env_id not in self._imported:
            point = plug_ins("guests")[env_id]
            guest = _imported(point)()
            if guest.env_id != env_id:
                raise UserError(f"the guest {env_id} ({point.value}) calls itself {guest.env_id}")
            self._imported[env_id] = guest
        return self._imported[env_id]

    def __contains__(self, env_id: object) -> bool:
        return isinstance(env_id, str) and env_id in plug_ins("guests")

    def __iter__(self) -> Iterator[str]:
        return iter(plug_ins("guests"))

    def __len__(self) -> int:
        return len(plug_ins("guests"))

    def importable(self) -> Iterator[Guest]:
        """Yield all guests but those that cannot be imported."""
        for env_id in self:
            with suppress(UserError):
                yield self[env_id]

    def bringing(self, group: str, name: str) -> Guest | None:
        """Return the guest that brings something of this name: a preset if the group is "presets",
        an agent if it is "released". Nothing else is imported. None if there is no such guest."""
        point = plug_ins(group).get(name)
        return None if point is None else self[_imported(point).env_id]


def _imported(point: PlugIn) -> type[Guest]:
    from workflow_rl.environments.guest import Guest  # Whoever plays no guest does without.

    try:
        found = point.load()
    except Exception as error:
        raise UserError(f"the guest {point.value} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Guest)):
        raise UserError(f"the guest {point.value} is no class of a Guest")
    return found


guests = Guests()


def default_env() -> str:
    """Return the id of the environment that is trained on unless another one is named."""
    # A wheel sorts its entry points: the first guest is not the first that was declared.
    return next(iter(plug_ins("default_env")))
