"""The space of raw observations."""

from typing import Any

from gymnasium.spaces import Space


class RawSpace(Space[dict[str, Any]]):
    """The dictionaries of `simulator_protocol.Simulator.raw_observations`.

    A dictionary's keys change from step to step, so no space of Gymnasium can describe it. This
    space has no shape and no dtype, and cannot be flattened: a policy reads the dictionaries. The
    space contains a dictionary with the key `success` if all its values are dict, list, str, int,
    float or bool. `sample` returns a dictionary that has only `success`.
    """

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> dict[str, Any]:
        return {"success": "UNKNOWN"}

    def contains(self, x: Any) -> bool:
        return isinstance(x, dict) and "success" in x and _is_plain(x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawSpace)

    def __repr__(self) -> str:
        return "RawSpace()"


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(part) for key, part in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return type(value) in (str, int, float, bool)
