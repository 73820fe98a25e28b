"""What holds of any page that the package writes: well-formed HTML, and nothing from elsewhere."""

import re
from html.parser import HTMLParser

VOID = {"br", "col", "hr", "img", "input", "link", "meta"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.errors: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if len(given) != len(attrs):
            self.errors.append(f"<{tag}> has an attribute twice")
        self.ids += [given["id"]] if "id" in given else []
        for name in ("for", "aria-labelledby", "aria-describedby", "aria-controls"):
            self.references += given.get(name, "").split()
        loads = "src" in given or (tag == "link" and "href" in given)
        if loads and not (given.get("src") or given["href"]).startswith("data:"):
            self.loaded.append(f"<{tag}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.errors.append(f"<{tag}/> is not HTML")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> ends nothing, line {self.getpos()[0]}")


def assert_valid(text: str) -> None:
    """Elements are nested, ids unique and known where they are named, the language and the title
    given, and nothing is loaded."""
    page = _Page()
    page.feed(text)
    page.close()
    assert not page.errors, page.errors
    assert not page.open, page.open
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.references) <= set(page.ids), set(page.references) - set(page.ids)
    assert not page.loaded
    assert text.startswith("<!doctype html>\n<html lang=")
    assert re.search(r"<title>[^<{]+</title>", text)
    assert "{{" not in text.split("<script>")[0]
    for style in re.findall(r"<style>(.*?)</style>", text, re.DOTALL):
        assert "url(" not in style
        assert "@import" not in style
