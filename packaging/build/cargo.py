"""`cargo install`: what users with Rust run, tried with the build that the packages carry.

`cargo install` selects the same package with the same features and profile as the build of `scripts/package`, and uses the
same target folder. So it links nothing again, and only copies the binary. Without such a build, it would compile for
20 minutes or more. Then only the selection is checked.
"""

from __future__ import annotations

import json

from common import ROOT, Failed, Release, fresh, note, run, step
from smoke import smoke

CRATE = ROOT / "crates" / "mcpproxy"
# Enough to compile everything, should the target folder have another build.
INSTALL_SECONDS = 2 * 3600


def try_install(release: Release, is_built: bool) -> None:
    with step("cargo install: one program, from the locked versions"):
        check_programs()
        if not is_built:
            note("NOT TRIED: cargo install compiles everything. Run scripts/package without --binary, or add --cargo-install")
            return
        root = fresh(release.out / "work" / "cargo")
        # No version is looked up: the build before this one has fetched all crates.
        command = ["cargo", "install", "--locked", "--offline", "--profile", "dist", "--path", CRATE, "--root", root]
        said = run(command, cwd=ROOT, seconds=INSTALL_SECONDS)
        compiled = said.count(" Compiling ")
        note(f"compiled {compiled} crates again" if compiled else "took over the build of the packages")
        smoke([root / "bin" / "mcpproxy"])


def check_programs() -> None:
    """Checks that `cargo install` would install `mcpproxy` and nothing else."""
    printed = run(["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"], cwd=ROOT)
    packages = json.loads(printed[printed.index('{"packages"') :])["packages"]
    (crate,) = [package for package in packages if package["manifest_path"] == str(CRATE / "Cargo.toml")]
    programs = [target["name"] for target in crate["targets"] if "bin" in target["kind"]]
    if programs != ["mcpproxy"]:
        raise Failed(f"`cargo install --path crates/mcpproxy` would install {', '.join(programs)}, and should mcpproxy alone")
