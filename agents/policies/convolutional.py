"""The layout of images in an observation, and a convolutional network on these images and on the
other numbers. Imports no torch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import MLP, MOST, Layers, Network, Shape, relu
from workflow_rl.errors import UserError

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.policies.torch_entities import ConvolutionalModule
    from workflow_rl.agents.spaces import Spaces


SIDE, WIDEST = 3, 4096
"""The smallest and the largest side of an image."""


class Image(NamedTuple):
    """An image in a flat observation.

    first: the column of its first number. channels_first: whether its numbers are in the order
    channels, height, width, instead of height, width, channels. divisor: divides the numbers so
    that they are at most 1, such as 255.
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
        if self.channels_first:
            return self.channels, self.height, self.width
        return self.height, self.width, self.channels

    @property
    def columns(self) -> slice:
        return slice(self.first, self.first + self.height * self.width * self.channels)

    def pixels(self, obs: FloatArray) -> FloatArray:
        """Return the image in observations [N, n_inputs] as numbers of at most 1, [N, width,
        height, channels]."""
        x = obs[:, self.columns].reshape(len(obs), *self.shape)
        x = x.transpose((0, 3, 2, 1) if self.channels_first else (0, 2, 1, 3))
        return np.divide(x, np.float32(self.divisor), order="C")


class ImageLayout:
    """The images in observations of `n_inputs` numbers. All other numbers are single numbers.

    Raises ValueError for images that do not fit.
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
            # This form of the comparison also refuses NaN.
            if type(image.divisor) is not float or not 0 < image.divisor < 1e9:
                raise ValueError(f"images: {image.divisor!r:.50} is no divisor")
        self.n_inputs, self.images = n_inputs, tuple(images)

    def __str__(self) -> str:
        return "; ".join(map(str, self.images))

    @functools.cached_property
    def numbers(self) -> NDArray[np.int64]:
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
        """Raise ValueError if one network's weights cannot play both this layout and the other."""
        if other.to_plain() != self.to_plain():
            raise ValueError(f"it learned on images of {self}, and the environment has {other}")

    def to_plain(self) -> dict[str, Any]:
        return {"n_inputs": self.n_inputs, "images": [list(image) for image in self.images]}


def image_layout_of(values: Any) -> ImageLayout:
    """Return the layout from a result of `to_plain`. Raises ValueError."""
    images = values.get("images") if isinstance(values, Mapping) else None
    rows = images if isinstance(images, list | tuple) else []
    if not all(isinstance(row, list | tuple) and len(row) == len(Image._fields) for row in rows):
        raise ValueError(f"images: {images!r:.100} are no images")
    return ImageLayout(values.get("n_inputs", 0) if rows else 0, [Image(*row) for row in rows])


class Convolution(NamedTuple):
    """Filters of size x size numbers and all channels, in steps of `stride` in both directions,
    without padding."""

    filters: int
    size: int
    stride: int

    def over(self, side: int) -> int:
        """Return the number of positions of the filters along a side."""
        return (side - self.size) // self.stride + 1


NATURE = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
"""The layers of Mnih et al. 2015, "Human-level control through deep reinforcement learning"."""
SMALL = (Convolution(16, 2, 1), Convolution(32, 2, 1), Convolution(64, 2, 1))
LEAST_OF_NATURE = 36


@dataclass(frozen=True)
class CNN(Network):
    """Convolutions with ReLUs on each image. Their outputs and the numbers in no image are the
    inputs of an MLP.

    The weight of a convolution is [size, size, channels, filters], width before height.

    convolutions: rows of filters, size and stride. The default is NATURE for images of at least
    LEAST_OF_NATURE x LEAST_OF_NATURE, and SMALL for smaller images. layout: the environment's
    `ImageLayout` as plain values, or None until the environment is known.
    """

    convolutions: Any = None
    layout: Mapping[str, Any] | None = None
    kind = "cnn"
    declared = "images"
    takes_bytes = True

    def __post_init__(self) -> None:
        if self.convolutions is not None and not _are_convolutions(self.convolutions):
            raise ValueError(
                f"convolutions={self.convolutions!r:.100} are no rows of filters, size and stride, "
                "such as [[16, 3, 1], [32, 3, 1]]"
            )
        for image in self.images.images if self.layout is not None else ():
            sides = image.height, image.width
            for row in self.convolutions_of(image):
                if row.size > min(sides):
                    raise UserError(
                        f"convolutions: filters of size {row.size} do not fit into the "
                        f"{sides[0]} x {sides[1]} numbers that the layers before leave of an image"
                    )
                sides = row.over(sides[0]), row.over(sides[1])

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        described = cls(1, (), 1, activation, **args)
        n_before = sum(map(len, map(described.convolutions_of, described.images.images)))
        *hidden, n_outputs = (len(bias) for bias in layers.biases[n_before:])
        return cls(described.images.n_inputs, tuple(hidden), n_outputs, activation, **args)

    @classmethod
    def critics_args(cls, args: Mapping[str, Any], n_further: int) -> Mapping[str, Any]:
        layout = args["layout"]
        return {**args, "layout": {**layout, "n_inputs": layout["n_inputs"] + n_further}}

    @classmethod
    def lacking(cls, spaces: Spaces) -> str | None:
        if spaces.images is not None:
            return None
        if spaces.team is not None:
            return f"{cls.kind} does not learn teams: mlp sees each agent's image as numbers"
        return (
            f"{cls.kind} needs images among what one agent observes: a Box of height x width x "
            "channels, or channels first"
        )

    layout_of = staticmethod(image_layout_of)

    @functools.cached_property
    def images(self) -> ImageLayout:
        return image_layout_of(self.layout)

    def convolutions_of(self, image: Image) -> tuple[Convolution, ...]:
        if self.convolutions is not None:
            return tuple(Convolution(*row) for row in self.convolutions)
        side = min(image.height, image.width)
        return NATURE if side >= LEAST_OF_NATURE else SMALL[: side - 1]

    @property
    def alike(self) -> NDArray[np.int64]:
        return self.images.alike

    @functools.cached_property
    def limit(self) -> FloatArray:
        return np.where(self.alike < 0, np.float32(np.inf), super().limit)

    @functools.cached_property
    def mlp(self) -> MLP:
        """The network on the outputs of the convolutions and on the numbers in no image."""
        n_inputs = len(self.images.numbers)
        for image in self.images.images:
            height, width, channels = image.height, image.width, image.channels
            for row in self.convolutions_of(image):
                height, width, channels = row.over(height), row.over(width), row.filters
            n_inputs += height * width * channels
        return MLP(n_inputs, self.hidden_sizes, self.n_outputs, self.activation)

    def shapes(self) -> list[tuple[Shape, Shape]]:
        found: list[tuple[Shape, Shape]] = []
        for image in self.images.images:
            rows = self.convolutions_of(image)
            channels = [image.channels, *(row.filters for row in rows)]
            for row, (n_in, n_out) in zip(rows, itertools.pairwise(channels), strict=True):
                found.append(((row.size, row.size, n_in, n_out), (n_out,)))
        return found + self.mlp.shapes()

    def names(self) -> list[tuple[str, str]]:
        places = [
            f"images.{n}.{2 * layer}"
            for n, image in enumerate(self.images.images)
            for layer in range(len(self.convolutions_of(image)))
        ]
        after = [(f"mlp.{weight}", f"mlp.{bias}") for weight, bias in self.mlp.names()]
        return [(f"{place}.weight", f"{place}.bias") for place in places] + after

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        n, used = len(obs), 0
        parts = []
        for image in self.images.images:
            x = image.pixels(obs)
            for row in self.convolutions_of(image):
                weight, bias = layers.weights[used], layers.biases[used]
                used += 1
                # As for an MLP, each observation has its own product of matrices.
                windows = sliding_window_view(x, (row.size, row.size), axis=(1, 2))
                windows = windows[:, :: row.stride, :: row.stride].transpose(0, 1, 2, 4, 5, 3)
                _, width, height = windows.shape[:3]
                patches = windows.reshape(n, width * height, -1)
                x = relu(patches @ weight.reshape(-1, row.filters) + bias)
                x = x.reshape(n, width, height, row.filters)
            parts.append(x.transpose(0, 3, 2, 1).reshape(n, -1))
        parts.append(obs.take(self.images.numbers, axis=1))
        after = Layers(layers.weights[used:], layers.biases[used:])
        return self.mlp.forward(after, np.concatenate(parts, axis=1))

    def module(self, output_gain: float, generator: torch.Generator | None) -> ConvolutionalModule:
        from workflow_rl.agents.policies.torch_entities import ConvolutionalModule

        return ConvolutionalModule(self, output_gain, generator)


def _are_convolutions(rows: Any) -> bool:
    """Return whether values are at least one row, and each row has three counts."""
    return (
        isinstance(rows, list | tuple)
        and 1 <= len(rows) <= 32
        and all(isinstance(row, list | tuple) and len(row) == 3 for row in rows)
        and all(type(count) is int and 1 <= count <= 4096 for row in rows for count in row)
    )
