"""Two npm packages: `mcpproxy` with a launcher, and one with the binary for each platform that is built.

npm installs an optional dependency only where its `os`, `cpu` and `libc` fit. So users download one binary, and no
install script runs. Only the platform of this machine is built here. A release for more platforms builds the platform
packages on their machines, and `--npm-platform` adds them to the launcher's list.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from common import DESCRIPTION, LICENSE, PACKAGING, ROOT, Failed, Release, fresh, note, run, step
from smoke import smoke


def build(release: Release, more_platforms: list[str]) -> list[Path]:
    here = f"mcpproxy-linux-{release.npm_machine}"
    work = fresh(release.out / "work" / "npm")
    with step(f"npm: {here}, mcpproxy"):
        platforms = sorted({here, *(f"mcpproxy-{one}" for one in more_platforms)})
        note(f"built here: linux-{release.npm_machine}; the launcher installs {', '.join(platforms)}")
        archives = [
            pack(platform_package(release, work / here, here), release.out),
            pack(launcher_package(release, work / "mcpproxy", platforms), release.out),
        ]
    with step("npm: install both in an empty project, npx mcpproxy, start a gateway, call a tool"):
        project = fresh(work / "project")
        (project / "package.json").write_text('{"name": "try", "private": true}')
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        run(["npm", "install", "--offline", *quiet, *archives], cwd=project)
        # npx does not look into the registry with --no, so this runs the installed package.
        said = run(["npx", "--no", "mcpproxy", "--", "--version"], cwd=project).strip().splitlines()[-1]
        if said != f"mcpproxy {release.version}":
            raise Failed(f"`npx mcpproxy --version` prints `{said}`")
        smoke([project / "node_modules" / ".bin" / "mcpproxy"])
    with step("npm: install both with --global, start a gateway, call a tool"):
        prefix = fresh(work / "global")
        run(["npm", "install", "--global", "--prefix", prefix, "--offline", *quiet, *archives], cwd=work)
        smoke([prefix / "bin" / "mcpproxy"])
    return archives


def platform_package(release: Release, folder: Path, name: str) -> Path:
    fresh(folder)
    shutil.copy2(release.binary, folder / "mcpproxy")
    (folder / "mcpproxy").chmod(0o755)
    shutil.copy2(ROOT / "LICENSE", folder)
    (folder / "README.md").write_text(f"# {name}\n\nThe binary of [mcpproxy](../mcpproxy) for this platform.\n")
    about = {
        **common(release, name),
        "files": ["mcpproxy"],
        "os": ["linux"],
        "cpu": [release.npm_machine],
        "libc": ["glibc"],
        "preferUnplugged": True,
    }
    (folder / "package.json").write_text(json.dumps(about, indent=2) + "\n")
    return folder


def launcher_package(release: Release, folder: Path, platforms: list[str]) -> Path:
    fresh(folder)
    shutil.copy2(PACKAGING / "npm" / "mcpproxy.js", folder)
    (folder / "mcpproxy.js").chmod(0o755)
    shutil.copy2(PACKAGING / "npm" / "README.md", folder)
    shutil.copy2(ROOT / "LICENSE", folder)
    about = {
        **common(release, "mcpproxy"),
        "bin": {"mcpproxy": "mcpproxy.js"},
        "files": ["mcpproxy.js"],
        "engines": {"node": ">=18"},
        "optionalDependencies": {name: release.version for name in platforms},
    }
    (folder / "package.json").write_text(json.dumps(about, indent=2) + "\n")
    return folder


def common(release: Release, name: str) -> dict[str, object]:
    return {"name": name, "version": release.version, "description": DESCRIPTION, "license": LICENSE}


def pack(folder: Path, out: Path) -> Path:
    printed = run(["npm", "pack", "--json", "--loglevel=error", "--pack-destination", out], cwd=folder)
    # npm may print warnings of its own before the JSON.
    (packed,) = json.loads(printed[printed.index("[") :])
    return out / packed["filename"]
