"""The software bill of materials: every crate, model and table in the binary, as CycloneDX 1.6 JSON.

Crates come from `cargo metadata`, for the target of the binary and without development dependencies. Their checksums come
from Cargo.lock. The model and the table of search are files that the binary contains, so each is looked for in the binary.
The official schema of CycloneDX checks the result.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from common import DESCRIPTION, LICENSE, ROOT, Failed, Release, note, run, sha256, step

# The dependencies that end up in the binary, or that run when it is built.
KINDS = (None, "build")
TEACHER = {
    "type": "machine-learning-model",
    "name": "all-MiniLM-L6-v2",
    "licenses": [{"license": {"id": "Apache-2.0"}}],
}


@dataclass(frozen=True)
class Embedded:
    """Files that are compiled into the binary. The README.md of their folder says where they come from."""

    kind: str
    name: str
    description: str
    folder: Path
    files: tuple[str, ...]


EMBEDDED = (
    Embedded(
        "machine-learning-model",
        "mcpproxy-tool-encoder",
        "A sentence encoder of three layers for tool search, int8, distilled from a fine-tuned all-MiniLM-L6-v2",
        ROOT / "crates/mcpproxy-encoder/data",
        ("embeddings.safetensors", "layers.safetensors"),
    ),
    Embedded(
        "data",
        "mcpproxy-tool-vectors",
        "A table of WordPiece tokens and their vectors for tool search, int8, distilled from all-MiniLM-L6-v2",
        ROOT / "crates/mcpproxy-core/data/search",
        ("scales.f32", "vectors.i8", "vocab.txt"),
    ),
)


def build(release: Release) -> Path:
    path = release.out / f"mcpproxy-{release.version}.cdx.json"
    with step(f"software bill of materials: {path.name}"):
        document = describe(release)
        text = json.dumps(document, indent=1) + "\n"
        path.write_text(text)
        problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
        if problem:
            raise Failed(f"{path.name} does not match the schema of CycloneDX 1.6: {problem}")
        note(f"{len(document['components']) - len(EMBEDDED)} crates, a model and a table; valid CycloneDX 1.6")
    return path


def describe(release: Release) -> dict[str, Any]:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", release.triple]
    printed = run(command, cwd=ROOT)
    # cargo may print progress of downloads before the JSON.
    metadata = json.loads(printed[printed.index('{"packages"') :])
    packages = {package["id"]: package for package in metadata["packages"]}
    edges = {node["id"]: used(node) for node in metadata["resolve"]["nodes"]}
    (root,) = [id for id, package in packages.items() if package["name"] == "mcpproxy" and package["source"] is None]
    reached = reach(root, edges)
    hashes = checksums()
    main = {**component(packages[root], hashes), "type": "application", "description": DESCRIPTION}
    main["licenses"] = [{"license": {"id": LICENSE}}]
    main["hashes"] = [{"alg": "SHA-256", "content": sha256(release.binary)}]
    models = [embedded(one, release) for one in EMBEDDED]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main, "tools": {"components": [{"type": "application", "name": "scripts/package"}]}},
        "components": [*(component(packages[id], hashes) for id in sorted(reached - {root})), *models],
        "dependencies": [
            {
                "ref": purl(packages[id]),
                "dependsOn": sorted({purl(packages[to]) for to in edges[id]})
                + [one["bom-ref"] for one in models if id == root],
            }
            for id in sorted(reached)
        ],
    }


def embedded(one: Embedded, release: Release) -> dict[str, Any]:
    """Describes a model or a table with one checksum for each of its files."""
    content = release.binary.read_bytes()
    if missing := [name for name in one.files if (one.folder / name).read_bytes() not in content]:
        raise Failed(f"the binary does not contain {', '.join(missing)} of {one.folder}. Build it again.")
    return {
        "type": one.kind,
        "bom-ref": f"{one.name}@{release.version}",
        "name": one.name,
        "version": release.version,
        "description": one.description,
        "licenses": [{"license": {"id": LICENSE}}],
        "pedigree": {"ancestors": [TEACHER]},
        "components": [
            {
                "type": "file",
                "bom-ref": f"{one.name}@{release.version}#{name}",
                "name": str((one.folder / name).relative_to(ROOT)),
                "hashes": [{"alg": "SHA-256", "content": sha256(one.folder / name)}],
            }
            for name in one.files
        ],
    }


def used(node: dict[str, Any]) -> list[str]:
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] in KINDS for kind in dep["dep_kinds"])]


def reach(root: str, edges: dict[str, list[str]]) -> set[str]:
    found, waiting = {root}, [root]
    while waiting:
        for one in edges[waiting.pop()]:
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def component(package: dict[str, Any], hashes: dict[tuple[str, str], str]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package.get("license"):
        # Old crates write `MIT/Apache-2.0`, which SPDX writes with OR.
        about["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := hashes.get((package["name"], package["version"])):
        about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return about


def purl(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def checksums() -> dict[tuple[str, str], str]:
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(one["name"], one["version"]): one["checksum"] for one in locked if "checksum" in one}
