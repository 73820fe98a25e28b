"""Which numbers of an observation are images, and of which shape. No torch."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import MOST

SIDE, WIDEST = 3, 4096
"""The least side of an image, and the greatest."""


class Image(NamedTuple):
    """An image in a flat observation.

    first: the column of its first number. channels_first: whether its numbers are in the order
    channels, height, width, instead of height, width, channels. divisor: what brings the numbers to
    at most 1, such as 255.
    """

    first: int
    height: int
    width: int
    channels: int
    channels_first: bool
    divisor: float

    def __str__(self) -> str:
        many = f"{self.channels} channel{'s' * (self.channels > 1)}"
        size = f"{self.height} x {self.width}"
        return f"{many} x {size}" if self.channels_first else f"{size} x {many}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """The image's shape in the order of its numbers."""
        if self.channels_first:
            return self.channels, self.height, self.width
        return self.height, self.width, self.channels

    @property
    def columns(self) -> slice:
        """Where its numbers stand."""
        return slice(self.first, self.first + self.height * self.width * self.channels)

    def pixels(self, obs: FloatArray) -> FloatArray:
        """Return the image in observations [N, n_inputs] as [N, width, height, channels], where
        its numbers are at most 1."""
        x = obs[:, self.columns].reshape(len(obs), *self.shape)
        x = x.transpose((0, 3, 2, 1) if self.channels_first else (0, 2, 1, 3))
        return np.divide(x, np.float32(self.divisor), order="C")


class ImageLayout:
    """The images in observations of `n_inputs` numbers, of which all others are single numbers.

    Raises ValueError for images that cannot be there.
    """

    def __init__(self, n_inputs: int, images: Sequence[Image]) -> None:
        if type(n_inputs) is not int or not 1 <= n_inputs <= MOST or not images:
            raise ValueError(f"images: {n_inputs!r:.50} numbers hold no {len(images)} images")
        end = 0
        for image in images:
            sizes = image.height, image.width, image.channels
            kinds = [*map(type, (image.first, *sizes))], type(image.channels_first)
            if kinds != ([int] * 4, bool) or not min(sizes[:2]) >= SIDE or max(sizes) > WIDEST:
                raise ValueError(f"images: {tuple(image)!r:.100} is no image")
            is_next = end <= image.first and image.channels >= 1
            end = image.columns.stop
            if not is_next or end > n_inputs:
                raise ValueError(f"images: {tuple(image)!r:.100} is not in {n_inputs} numbers")
            # NaN is not greater, either.
            if type(image.divisor) is not float or not 0 < image.divisor < 1e9:
                raise ValueError(f"images: {image.divisor!r:.50} is no divisor")
        self.n_inputs, self.images = n_inputs, tuple(images)

    def __str__(self) -> str:
        return "; ".join(map(str, self.images))

    @functools.cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The columns that are in no image."""
        is_in_none = np.ones(self.n_inputs, np.bool_)
        for image in self.images:
            is_in_none[image.columns] = False
        return np.flatnonzero(is_in_none)

    @functools.cached_property
    def alike(self) -> NDArray[np.int64]:
        """See `Network.alike`: images are not normalised."""
        alike = np.full(self.n_inputs, -1)
        alike[self.numbers] = np.arange(len(self.numbers))
        return alike

    def demand_like(self, other: ImageLayout) -> None:
        """Raise ValueError if the same weights cannot play this layout and another one."""
        if other.to_plain() != self.to_plain():
            raise ValueError(f"it learned on images of {self}, and the environment has {other}")

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as files keep them."""
        return {"n_inputs": self.n_inputs, "images": [list(image) for image in self.images]}


def image_layout_of(values: Any) -> ImageLayout:
    """Return the layout that `to_plain` described. Raises ValueError."""
    images = values.get("images") if isinstance(values, Mapping) else None
    rows = images if isinstance(images, list | tuple) else []
    if not all(isinstance(row, list | tuple) and len(row) == len(Image._fields) for row in rows):
        raise ValueError(f"images: {images!r:.100} are no images")
    return ImageLayout(values.get("n_inputs", 0) if rows else 0, [Image(*row) for row in rows])
