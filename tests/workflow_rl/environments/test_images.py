import numpy as np
import pytest
from gymnasium import spaces

from workflow_rl.agents.policies.convolutional import Image
from workflow_rl.environments.making import images_of


def byte(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("space", "image"),
    [
        (byte(84, 84, 4), Image(0, 84, 84, 4, False, 255.0)),
        (byte(4, 84, 84), Image(0, 84, 84, 4, True, 255.0)),
        (byte(7, 7, 20), Image(0, 7, 7, 20, False, 255.0)),
        (byte(20, 7, 7), Image(0, 7, 7, 20, True, 255.0)),
        (byte(210, 160, 3), Image(0, 210, 160, 3, False, 255.0)),
        (byte(3, 210, 160), Image(0, 210, 160, 3, True, 255.0)),
        (byte(5, 5, 5), Image(0, 5, 5, 5, False, 255.0)),
        (byte(84, 84), Image(0, 84, 84, 1, False, 255.0)),
        (spaces.Box(0, 1, (9, 9, 2)), Image(0, 9, 9, 2, False, 1.0)),
        (spaces.Box(-np.inf, np.inf, (9, 9, 2)), Image(0, 9, 9, 2, False, 1.0)),
        (spaces.Box(0, 10, (9, 9, 2), np.int64), Image(0, 9, 9, 2, False, 10.0)),
        (spaces.Tuple([spaces.Discrete(3), byte(8, 9, 1)]), Image(3, 8, 9, 1, False, 255.0)),
    ],
)
def test_an_image_is_found(space, image):
    layout = images_of(space)
    assert layout.images == (image,)


@pytest.mark.parametrize(
    "space",
    [
        *(byte(9), byte(5, 5), byte(2, 9, 9, 9), byte(2, 2, 3)),
        *(spaces.Box(0, 1, (84, 84)), spaces.MultiBinary((4, 4, 4)), spaces.Discrete(3)),
    ],
)
def test_other_spaces_hold_no_image(space):
    assert images_of(space) is None


def test_several_images_beside_numbers():
    layout = images_of(
        spaces.Dict(
            {
                "bearing": spaces.Discrete(4),
                "cameras": spaces.Tuple([byte(8, 8, 3), byte(1, 9, 8)]),
                "speed": spaces.Box(-1, 1, (2,)),
            }
        )
    )
    assert layout.images == (Image(4, 8, 8, 3, False, 255.0), Image(196, 9, 8, 1, True, 255.0))
    assert layout.numbers.tolist() == [0, 1, 2, 3, 268, 269]
    assert str(layout) == "8 x 8 x 3 channels; 1 channel x 9 x 8"
