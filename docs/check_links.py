"""Check all links of the built site: `python docs/check_links.py site`.

Every link and picture within the site must lead to a file that exists, and to an anchor that its page has. Pages
must load nothing from elsewhere. Links to other sites are counted; where there is a network, `sphinx -b linkcheck`
follows them.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"img", "script", "link", "iframe", "video", "audio", "source"}
"""Tags whose address a browser loads by itself."""


class Page(HTMLParser):
    """The addresses that a page names, those that it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.named: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        values = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := values.get(key))}
        found = {value for key in ("href", "src") if (value := values.get(key))}
        self.named |= found
        if tag in _LOADED and values.get("rel") not in ("canonical", "search", "index"):
            self.loaded |= found


def check(site: Path) -> tuple[list[str], int]:
    """What is wrong with a site, in sentences, and how many links lead to other sites."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    troubles: list[str] = []
    elsewhere: set[str] = set()
    for path, page in pages.items():
        for address in sorted(page.named):
            where = f"{path.relative_to(site.resolve())}: {address}"
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                elsewhere.add(address)
                if address in page.loaded:
                    troubles.append(f"{where} is loaded from elsewhere.")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                troubles.append(f"{where} leads nowhere.")
            elif parts.fragment and target in pages and _lacks(pages[target], parts.fragment, path):
                troubles.append(f"{where} names an anchor that is not on its page.")
    return troubles, len(elsewhere)


def _lacks(page: Page, anchor: str, source: Path) -> bool:
    """Whether a page lacks an anchor that another page names.

    Pages of source code are let off: where a name is public in two places, they link back to either.
    """
    return unquote(anchor) not in page.anchors and "_modules" not in source.parts


if __name__ == "__main__":
    site = Path(sys.argv[1])
    troubles, elsewhere = check(site)
    print(*troubles, sep="\n", end="\n" if troubles else "")
    print(f"{len(list(site.rglob('*.html')))} pages, {len(troubles)} dead links, {elsewhere} links elsewhere")
    sys.exit(bool(troubles))
