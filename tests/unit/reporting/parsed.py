"""A page taken apart, for tests of anything that writes one."""

import re
from html.parser import HTMLParser

VOID = {"meta", "img"}


class ParsedPage(HTMLParser):
    """Checks nesting; collects text and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.source = page
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def values(self, tag: str, name: str) -> list[str]:
        return [value for *where, value in self.attributes if where == [tag, name]]

    def fetches_nothing(self) -> bool:
        elsewhere = re.search(r"<script|<link|@import|url\(|https?:", self.source)
        return not elsewhere and all(link.startswith("data:image/") for link in self.links)
