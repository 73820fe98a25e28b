import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from workflow_rl.cage4.cyborg.checkout import VARIABLE

BESIDE_THE_REPOSITORY = Path(__file__).parents[4] / "shared" / "cage4"


@pytest.fixture(scope="session")
def checkout() -> Iterator[Path]:
    """The checkout of CybORG 4 that the developer names, or the copy beside the repository."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else BESIDE_THE_REPOSITORY / "upstream"
    if not (folder / "CybORG").is_dir():
        pytest.skip(f"needs a checkout of CybORG 4, named by {VARIABLE}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield folder
