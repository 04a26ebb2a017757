"""The deploy archive: files for Compose and Kubernetes, the build context of the image, a dashboard and alert rules.

Nothing here starts a cluster. The files are checked against the official schemas, which the tools carry, once in the
checkout and once in the unpacked archive. The archive is used alone, so every path in it has to lead to a file of it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from common import PACKAGING, ROOT, TOOLS, Failed, Release, copy_committed, fresh, note, run, step, workspace_version
from tarball import pack

KUBERNETES = PACKAGING / "kubernetes"
COMPOSE = PACKAGING / "compose" / "compose.yaml"
# Folders of the archive, besides the build context of the image.
FOLDERS = ("kubernetes", "compose", "observability")
# The oldest version with everything that the manifests use (`preStop.sleep`), and the newest with a schema.
KUBERNETES_VERSIONS = ("1.30", "1.37")


def check() -> None:
    """Checks the files of the checkout."""
    with step("Kubernetes: manifests against the schemas"):
        check_kubernetes()
    with step("Compose: compose.yaml against the schema"):
        check_compose()
        interpret_compose()


def build(release: Release, context: Path) -> Path:
    """Packs the archive, unpacks it elsewhere, and checks what a user would find there."""
    name = f"mcpproxy-{release.version}-{release.triple}-deploy"
    path = release.out / f"{name}.tar.gz"
    with step(f"deploy archive: {path.name}"):
        folder = fresh(release.out / "work" / name)
        for what in FOLDERS:
            copy_committed(PACKAGING / what, folder / what, may_differ=release.is_quick)
        shutil.copytree(context, folder / "container")
        shutil.copy2(PACKAGING / "deploy" / "README.md", folder)
        shutil.copy2(ROOT / "LICENSE", folder)
        pack(folder, path, name, 1 if release.is_quick else 9)
    with step("deploy archive: unpack, and check every file and path in it"):
        unpacked = fresh(release.out / "work" / "unpacked-deploy")
        run(["tar", "-xzf", path, "-C", unpacked])
        check_archive(unpacked / name)
    return path


def check_archive(folder: Path) -> None:
    """Checks an unpacked archive alone: no path may lead out of it or to nothing."""
    compose = folder / "compose" / "compose.yaml"
    if missing := [path for path in paths_of_compose(compose) if not path.exists()]:
        raise Failed(f"compose.yaml names {', '.join(map(str, missing))}, which the archive does not have")
    check_kustomization(folder / "kubernetes")
    if outside := [path for path in folder.rglob("*") if not path.resolve().is_relative_to(folder.resolve())]:
        raise Failed(f"{', '.join(map(str, outside))} leads out of the archive")
    check_kubernetes(folder / "kubernetes")
    check_compose(compose)


# -- Kubernetes -------------------------------------------------------------------------------------------------


def documents(folder: Path = KUBERNETES) -> list[dict[str, Any]]:
    """Returns every object in the manifests, also the example of the secret."""
    files = [path for path in sorted(folder.glob("*.yaml")) if path.name != "kustomization.yaml"]
    return [one for path in files for one in yaml.safe_load_all(path.read_text()) if one]


def validate(document: dict[str, Any]) -> None:
    """Checks an object against the strict schemas, which refuse unknown fields."""
    name = f"{document.get('kind')} {document.get('metadata', {}).get('name')}"
    for version in KUBERNETES_VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            raise Failed(f"{name} does not match the schema of Kubernetes {version}: {error.message}") from None
        except kubernetes_validate.SchemaNotFoundError as error:
            raise Failed(f"{name}: Kubernetes {version} does not have this kind of object: {error}") from None


def check_kubernetes(folder: Path = KUBERNETES) -> None:
    found = documents(folder)
    for document in found:
        validate(document)
    note(f"{len(found)} objects match the schemas of Kubernetes {' and '.join(KUBERNETES_VERSIONS)}")
    check_kustomization(folder)
    if not shutil.which("kubectl"):
        note("NOT TRIED: kubectl is not installed, so the overlay was not rendered with it")
        return
    rendered = [one for one in yaml.safe_load_all(run(["kubectl", "kustomize", folder])) if one]
    for document in rendered:
        validate(document)
    note(f"kubectl kustomize renders {len(rendered)} objects, which match too")


def check_kustomization(folder: Path = KUBERNETES) -> None:
    """Checks that every named file exists, that no manifest is forgotten, and that the image has this version."""
    about = yaml.safe_load((folder / "kustomization.yaml").read_text())
    files = [file for one in about["configMapGenerator"] for file in one["files"]]
    if missing := [name for name in [*about["resources"], *files] if not (folder / name).is_file()]:
        raise Failed(f"kustomization.yaml names files that do not exist: {', '.join(missing)}")
    apart = {"kustomization.yaml", "secret.example.yaml"}
    if forgotten := {path.name for path in folder.glob("*.yaml")} - set(about["resources"]) - apart:
        raise Failed(f"kustomization.yaml does not name {', '.join(sorted(forgotten))}")
    if (tag := about["images"][0]["newTag"]) != workspace_version():
        raise Failed(f"kustomization.yaml has the image of {tag}, and Cargo.toml has {workspace_version()}")


# -- Compose ----------------------------------------------------------------------------------------------------


def check_compose(path: Path = COMPOSE) -> None:
    run([TOOLS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", path])
    image = yaml.safe_load(path.read_text())["services"]["mcpproxy"]["image"]
    if image != f"mcpproxy:{workspace_version()}":
        raise Failed(f"compose.yaml has the image {image}, and Cargo.toml has {workspace_version()}")
    note("compose.yaml matches the schema")


def interpret_compose(path: Path = COMPOSE) -> None:
    """Lets Compose itself read the file, which needs no daemon."""
    compose = ["docker", "compose"]
    if not shutil.which("docker") or subprocess.run([*compose, "version"], capture_output=True).returncode != 0:
        note("NOT TRIED: Docker Compose is not installed, so it did not read the file")
        return
    run([*compose, "-f", path, "config", "--quiet"], env={"POSTGRES_PASSWORD": "for this check"})
    note("`docker compose config` accepts it")


def paths_of_compose(path: Path) -> list[Path]:
    """Returns the files and folders of this machine that the services use: mounts, and what images are built from."""
    found = []
    for service in yaml.safe_load(path.read_text())["services"].values():
        found += [mount.split(":")[0] for mount in service.get("volumes", []) if mount.startswith(".")]
        if built := service.get("build"):
            found += [built["context"], f"{built['context']}/{built['dockerfile']}", f"{built['context']}/mcpproxy"]
    return [path.parent / one for one in found]
