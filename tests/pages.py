"""The pages, as a reader takes them: what is to be typed, what is linked, what is named."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

# Whatever begins like a block is one, so that none is left out for how it is written.
_FENCE = re.compile(r"^ *```(?P<info>[^\n]+)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SNIPPET = re.compile(r'^--8<-- "(.*)"\n$')
_GENERATED = re.compile(r"^:::", re.MULTILINE)


class Block(NamedTuple):
    """Fenced code. title: the file that it is to be, if it says so."""

    language: str
    title: str | None
    text: str

    @property
    def snippet(self) -> str | None:
        """The file that is shown here."""
        found = _SNIPPET.match(self.text)
        return found[1] if found else None


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    found = []
    for match in _FENCE.finditer(page.read_text()):
        language = re.search(r"\w+", match["info"])
        title = re.search(r'title="(.*?)"', match["info"])
        assert language is not None, match["info"]
        text = textwrap.dedent(match["text"])
        found.append(Block(language[0], title and title[1], text))
    return found


def lines_of_blocks() -> list[tuple[Path, str]]:
    """Of the shell, on all pages, without what is after a comment or `&&`."""
    commands = [(page, block) for page in PAGES for block in blocks(page)]
    return [
        (page, line.partition("  #")[0].partition(" && ")[0].strip())
        for page, block in commands
        if block.language == "bash"
        for line in block.text.replace("\\\n", " ").splitlines()
    ]


def prose(page: Path) -> str:
    """Without what is in blocks."""
    return _FENCE.sub("", page.read_text())


def code_spans(page: Path) -> list[str]:
    """What stands between backticks in the prose, on one line each."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page)))


def is_generated(page: Path) -> bool:
    """Whether there is more on it than it says itself."""
    return _GENERATED.search(page.read_text()) is not None


def anchors(page: Path) -> set[str]:
    """Of the headings: those that are the same on the site and where the repository is shown."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        if words.replace(" ", "-") == re.sub(r"[-\s]+", "-", words):
            found.add(words.replace(" ", "-"))
    return found


def table(page: Path, first_heading: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    text = page.read_text().split(f"| {first_heading} |")[1]
    rows = text.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
