"""Which parts of an observation space are images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gymnasium import spaces

from workflow_rl.agents.policies.image_layout import SIDE, WIDEST, Image, ImageLayout
from workflow_rl.agents.policies.network import MOST

_LEAST_GREY = 8
_WHITEST = 65_535


def images_of(space: spaces.Space[Any]) -> ImageLayout | None:
    """Return the images in flat observations of a space; None if there are none.

    An image is a Box of three sides: height, width and channels. The two sides that are equal, or
    else the two larger ones, are height and width; if that leaves a choice, channels are last. A
    Box of two sides is an image without channels if it holds bytes from 0 to 255.
    """
    size = spaces.flatdim(space)
    images = list(_within(space, 0)) if size <= MOST else []
    return ImageLayout(size, images) if images else None


def _within(space: spaces.Space[Any], first: int) -> Iterator[Image]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        for part in parts:
            yield from _within(part, first)
            first += spaces.flatdim(part)
    elif isinstance(space, spaces.Box) and (image := _image(space, first)) is not None:
        yield image


def _image(space: spaces.Box, first: int) -> Image | None:
    is_byte = space.dtype.kind in "iu" and space.low.min() == 0 and space.high.max() == 255
    if len(space.shape) == 3:
        a, b, c = space.shape
        channels_first = (b == c != a) if a == b or b == c else a < min(b, c)
        sizes = (b, c, a) if channels_first else (a, b, c)
    elif len(space.shape) == 2 and is_byte and min(space.shape) >= _LEAST_GREY:
        channels_first, sizes = False, (*space.shape, 1)
    else:
        return None
    if min(sizes[:2]) < SIDE or max(sizes) > WIDEST or not sizes[2]:
        return None
    whitest = float(space.high.max())
    return Image(first, *sizes, channels_first, whitest if 1 < whitest <= _WHITEST else 1.0)
