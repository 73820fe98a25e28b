"""The user's checkout of CAGE Challenge 4: where its folder is, and a check of its commit."""

import hashlib
import os
from pathlib import Path

COMMIT = "8c3c50ca54b176c2de199847944e8dcc035497e3"
"""The commit of the challenge's repository that the compiled simulator repeats."""
VARIABLE = "WORKFLOW_RL_CYBORG4"
"""The environment variable that names the folder. Worker processes inherit it."""
SOURCES = ("env.py", "Agents/SimpleAgents", "Agents/Wrappers", "Shared", "Simulator")
DIGEST = "9977eb199ec24c9fde9ed17ddd932f55"
"""The result of `source_digest` for a checkout at COMMIT."""
HOW_TO_GET_IT = (
    "git clone https://github.com/cage-challenge/cage-challenge-4 && "
    f"git -C cage-challenge-4 checkout {COMMIT}"
)


class CheckoutError(RuntimeError):
    """CybORG 4 is missing or is another commit. The message is one line, and says what to do."""


def cyborg_checkout() -> Path:
    """Check the user's checkout. Return the folder that holds the package `CybORG`.

    Raises:
        CheckoutError: VARIABLE names no folder, or the folder does not hold CybORG 4 at COMMIT.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        raise CheckoutError(
            f"CybORG 4 is needed: get it with `{HOW_TO_GET_IT}`, and name the folder with "
            f"--cyborg4 or {VARIABLE}"
        )
    folder = Path(named)
    if not (folder / "CybORG" / "env.py").is_file():
        raise CheckoutError(
            f"{VARIABLE}={named}: this folder holds no CybORG/env.py; get it with `{HOW_TO_GET_IT}`"
        )
    if source_digest(folder) != DIGEST:
        raise CheckoutError(
            f"{VARIABLE}={named}: the CybORG there differs from commit {COMMIT}; get this commit "
            f"with `{HOW_TO_GET_IT}`"
        )
    return folder


def source_digest(folder: Path) -> str:
    """Return a digest of the names and lines of the files in SOURCES."""
    package = folder / "CybORG"
    files = [package / SOURCES[0]]
    for source in SOURCES[1:]:
        files += sorted((package / source).rglob("*.py"))
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        digest.update(file.relative_to(package).as_posix().encode())
        digest.update(b"\n".join(file.read_bytes().splitlines()))
    return digest.hexdigest()
