"""Helm, built once by Go, and what it renders of the chart with values that the documents name.

`python tests/support/helm.py FOLDER` writes the manifests of each of these values to FOLDER (`make manifests`).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from support.built import BUILD_WITHIN_S, ROOT, built
from support.waiting import PATIENCE_S

VERSION = "v3.18.6"
CHART = ROOT / "deploy" / "helm" / "fleetgauge"
STRIMZI = ROOT / "deploy" / "strimzi"
PAGE = ROOT / "docs" / "operate" / "kubernetes.md"
KUBERNETES = ("1.28", "1.34")
"""The oldest version that the chart takes, and a current one."""

MISSING = "" if shutil.which("go") else "Helm is built with Go, which is not installed"


def helm_program() -> Path:
    """The program; built the first time, which takes minutes."""

    def install(target: Path) -> None:
        environment = {**os.environ, "GOFLAGS": "-buildvcs=false -trimpath", "GOBIN": str(target)}
        command = ["go", "install", "-ldflags=-s -w", f"helm.sh/helm/v3/cmd/helm@{VERSION}"]
        subprocess.run(command, env=environment, check=True, timeout=BUILD_WITHIN_S)

    return built(f"helm-{VERSION}", install, VERSION) / "helm"


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs Helm; its return code and output are the caller's to judge."""
    return subprocess.run([helm_program(), *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def documented_values() -> dict[str, dict[str, Any]]:
    """The values on the page about Kubernetes by the title in their first line, and those for Strimzi."""
    blocks = re.findall(r"^```yaml\n# values\.yaml: (.+?)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    named = {title: yaml.safe_load(text) for title, text in blocks}
    return {**named, "strimzi": yaml.safe_load((STRIMZI / "values.yaml").read_text())}


def rendered(values: Path, *words: str, kubernetes: str = KUBERNETES[-1]) -> str:
    """The manifests of the chart with a file of values, as the release `fleetgauge` in the namespace `kafka`."""
    release = ("template", "fleetgauge", CHART, "--namespace", "kafka", "--kube-version", f"{kubernetes}.0")
    done = helm(*release, "-f", values, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def resources(manifests: str) -> list[dict[str, Any]]:
    """The resources of rendered manifests."""
    return [each for each in yaml.load_all(manifests, Loader=yaml.CSafeLoader) if each]


def pod_templates(found: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and pod template of every workload."""
    for each in found:
        if each["kind"] == "CronJob":
            yield each["metadata"]["name"], each["spec"]["jobTemplate"]["spec"]["template"]
        elif each["kind"] in ("Deployment", "StatefulSet"):
            yield each["metadata"]["name"], each["spec"]["template"]


def write_manifests(folder: Path) -> None:
    """One file for each of the documented values, and the chart itself."""
    folder.mkdir(parents=True, exist_ok=True)
    for title, values in documented_values().items():
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(values))
        file.write_text(rendered(file))
        print(file)
    done = helm("package", CHART, "--destination", folder)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    if MISSING:
        sys.exit(MISSING)
    write_manifests(Path(sys.argv[1]))
