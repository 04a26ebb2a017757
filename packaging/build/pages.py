"""Checks that the pages for users name files that exist: those that this run built, under the names they have.

The pages write `*` for the version and the platform, so that their commands work on every machine. Image tags cannot have
one, so they must have the version of Cargo.toml.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from common import PACKAGING, ROOT, Failed, note, step, workspace_version

PAGES = (ROOT / "README.md", ROOT / "docs" / "install.md", PACKAGING / "deploy" / "README.md")
# Names such as `mcpproxy-*.tgz`, `mcpproxy_*.deb` and `mcpproxy-VERSION.cdx.json`. A plain `mcpproxy.db` has no version.
FILE = re.compile(r"\bmcpproxy[-_][\w.*-]*\.(?:tgz|whl|deb|tar\.gz|cdx\.json)\b")
TAG = re.compile(r"\bmcpproxy:(\d[\w.]*)")


def check(built: list[Path], pages: tuple[Path, ...] = PAGES) -> None:
    with step("pages: every file that README.md and docs/install.md name was built"):
        names = [path.name for path in built]
        found = [(page, name) for page in pages for name in FILE.findall(page.read_text())]
        for page, name in found:
            if not any(fnmatchcase(one, name.replace("VERSION", workspace_version())) for one in names):
                raise Failed(f"{page.name} names {name}, and this run built {', '.join(sorted(names))}")
        for page in pages:
            if wrong := set(TAG.findall(page.read_text())) - {workspace_version()}:
                raise Failed(f"{page.name} names the image of {', '.join(wrong)}, and Cargo.toml has {workspace_version()}")
        note(f"{len(found)} names in {len(pages)} pages")
