"""The files for deployment are valid, and agree with the settings and the server."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shopfloor.settings import Settings

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
STOP_SECONDS = 10
"""How long a server takes to stop; see docs/operating.md."""


def list_instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def list_documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "shopfloor.service", "kubernetes.yaml"])
def test_every_setting_that_is_named_exists(name):
    named = set(re.findall(r"SHOPFLOOR_([A-Z_]+)\b", (DEPLOY / name).read_text())) - {"DOMAIN"}
    assert {each.lower() for each in named} <= Settings.model_fields.keys()
    assert named


def test_dockerfile_has_known_instructions_and_no_root_server():
    instructions = list_instructions()
    assert {name for name, _ in instructions} <= INSTRUCTIONS
    names = [name for name, _ in instructions]
    assert names.index("USER") < names.index("ENTRYPOINT")
    root = DEPLOY.parent
    copied = [rest for name, rest in instructions if name == "COPY" and not rest.startswith("--from")]
    assert [source for rest in copied for source in rest.split()[:-1] if not (root / source).exists()] == []


def test_compose_file_names_what_it_defines():
    (compose,) = list_documents("compose.yaml")
    services = compose["services"]
    assert (DEPLOY / services["shopfloor"]["build"]["context"] / services["shopfloor"]["build"]["dockerfile"]).exists()
    used = {volume.split(":")[0] for each in services.values() for volume in each["volumes"]}
    assert {name for name in used if not name.startswith(".")} == set(compose["volumes"])
    assert set(services["shopfloor"]["depends_on"]) <= set(services)
    assert int(services["shopfloor"]["stop_grace_period"].rstrip("s")) > STOP_SECONDS


def test_kubernetes_manifest_is_consistent():
    deployment, service, budget = list_documents("kubernetes.yaml")
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["minAvailable"] < deployment["spec"]["replicas"]
    (container,) = pod["spec"]["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
    assert pod["spec"]["terminationGracePeriodSeconds"] > STOP_SECONDS
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_systemd_unit_can_be_parsed():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "shopfloor.service")
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert int(unit["Service"]["TimeoutStopSec"]) > STOP_SECONDS


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path):
    unit = tmp_path / "shopfloor.service"
    # The user of the example does not exist here.
    text = (DEPLOY / "shopfloor.service").read_text()
    unit.write_text(text.replace("User=shopfloor\nGroup=shopfloor\n", ""))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    complaints = [line for line in checked.stderr.splitlines() if "shopfloor.service" in line]
    assert complaints == []
