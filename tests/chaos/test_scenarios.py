"""The short form of the chaos scenarios: every acknowledged write is there once, with its event and its log rows."""

from __future__ import annotations

import pytest

from chaos.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.short], ids=lambda scenario: scenario.name)
def test_acknowledged_writes_survive(scenario: Scenario, tmp_path):
    findings = scenario.run(tmp_path, scenario.short)
    assert findings.acknowledged > 0
    assert findings.faults == 0, findings
