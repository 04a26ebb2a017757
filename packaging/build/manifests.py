"""Checks the files for Kubernetes, Compose and the container image, and packs them.

Nothing here starts a cluster. The files are checked against the official schemas, which the tools carry. The image is
built if docker, podman or buildah can build one, and linted in any case.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from common import PACKAGING, ROOT, TOOLS, Failed, Release, fresh, note, run, step, workspace_version
from tarball import pack

KUBERNETES = PACKAGING / "kubernetes"
COMPOSE = PACKAGING / "compose" / "compose.yaml"
DOCKERFILE = PACKAGING / "container" / "Dockerfile"
# The oldest version with everything that the manifests use (`preStop.sleep`), and the newest with a schema.
KUBERNETES_VERSIONS = ("1.30", "1.37")
# The version of glibc in distroless/cc-debian12.
IMAGE_GLIBC = (2, 36)


def build(release: Release) -> Path:
    with step("Kubernetes: manifests against the schemas"):
        check_kubernetes()
    with step("Compose: compose.yaml against the schema"):
        check_compose()
    with step("container: Dockerfile"):
        check_image(release)
    return archive(release)


# -- Kubernetes -------------------------------------------------------------------------------------------------


def documents() -> list[dict[str, Any]]:
    """Returns every object in the manifests, also the example of the secret."""
    files = [path for path in sorted(KUBERNETES.glob("*.yaml")) if path.name != "kustomization.yaml"]
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


def check_kubernetes() -> None:
    found = documents()
    for document in found:
        validate(document)
    note(f"{len(found)} objects match the schemas of Kubernetes {' and '.join(KUBERNETES_VERSIONS)}")
    check_kustomization()
    if not shutil.which("kubectl"):
        note("NOT TRIED: kubectl is not installed, so the overlay was not rendered with it")
        return
    rendered = [one for one in yaml.safe_load_all(run(["kubectl", "kustomize", KUBERNETES])) if one]
    for document in rendered:
        validate(document)
    note(f"kubectl kustomize renders {len(rendered)} objects, which match too")


def check_kustomization() -> None:
    """Checks that every named file exists, that no manifest is forgotten, and that the image has this version."""
    about = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = [file for one in about["configMapGenerator"] for file in one["files"]]
    if missing := [name for name in [*about["resources"], *files] if not (KUBERNETES / name).is_file()]:
        raise Failed(f"kustomization.yaml names files that do not exist: {', '.join(missing)}")
    apart = {"kustomization.yaml", "secret.example.yaml"}
    if forgotten := {path.name for path in KUBERNETES.glob("*.yaml")} - set(about["resources"]) - apart:
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


# -- the image --------------------------------------------------------------------------------------------------


def check_image(release: Release) -> None:
    run([TOOLS / "hadolint", "--failure-threshold", "style", DOCKERFILE])
    note("hadolint finds nothing")
    check_toolchain()
    if release.glibc > IMAGE_GLIBC:
        note(f"this binary needs glibc {release.glibc[0]}.{release.glibc[1]}; the image is built on Debian 12 instead")
    builder = image_builder()
    if builder is None:
        note("NOT BUILT: no docker, podman or buildah works on this machine, so the image was linted only")
        return
    tag = f"mcpproxy:{release.version}"
    run([*builder, "-f", DOCKERFILE, "-t", tag, ROOT])
    note(f"built {tag}")
    if builder[0] != "buildah":
        said = run([builder[0], "run", "--rm", tag, "--version"]).strip()
        if said != f"mcpproxy {release.version}":
            raise Failed(f"the image prints `{said}`")


def check_toolchain() -> None:
    """Checks that the image is built with a Rust that Cargo.toml accepts."""
    wanted = re.search(r'rust-version = "([0-9.]+)"', (ROOT / "Cargo.toml").read_text())
    used = re.search(r"^FROM rust:([0-9.]+)-", DOCKERFILE.read_text(), re.M)
    if not wanted or not used or wanted[1] != used[1]:
        raise Failed("the Rust version in packaging/container/Dockerfile is not `rust-version` of Cargo.toml")


def image_builder() -> list[str] | None:
    """Returns the first builder that works. A docker command without a daemon does not."""
    for name, words in [("docker", ["build"]), ("podman", ["build"]), ("buildah", ["build"])]:
        if shutil.which(name):
            done = subprocess.run([name, "info"], capture_output=True, check=False)
            if done.returncode == 0:
                return [name, *words]
    return None


def archive(release: Release) -> Path:
    """Packs the files for Kubernetes and Compose together, because Compose uses a script of Kubernetes."""
    name = f"mcpproxy-{release.version}-deploy"
    folder = fresh(release.out / "work" / name)
    for what in ("kubernetes", "compose", "container"):
        shutil.copytree(PACKAGING / what, folder / what)
    path = release.out / f"{name}.tar.gz"
    pack(folder, path, name, 9)
    return path
