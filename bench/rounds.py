"""Rounds: everything is measured in turn, several times over, so that a busy minute of the machine hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """Calls a second, and microseconds of CPU that the measured process used for each."""

    rate: float
    cpu: float

    @classmethod
    def of(cls, measured: Mapping[str, Any]) -> Sample:
        if "refused" in measured:
            raise RuntimeError(f"a call was refused:\n{measured['refused']}")
        calls = max(measured["calls"], 1)
        return cls(calls / measured["seconds"], measured["cpu"] / calls * 1e6)


Measure = Callable[[], Sample]
Samples = dict[str, list[Sample]]


def interleaved(rounds: int, measures: Mapping[str, Measure], said: Callable[[str], None]) -> Samples:
    """The samples of each, one per round."""
    samples: Samples = {name: [] for name in measures}
    for number in range(rounds):
        said(f"round {number + 1} of {rounds}")
        for name, measure in measures.items():
            samples[name].append(measure())
    return samples


def rate(samples: Sequence[Sample]) -> float:
    return median(sample.rate for sample in samples)


def cpu(samples: Sequence[Sample]) -> float:
    return median(sample.cpu for sample in samples)


def times_the_rate(samples: Sequence[Sample], base: Sequence[Sample]) -> float:
    """The median over the rounds of the ratios within each round."""
    return median(sample.rate / other.rate for sample, other in zip(samples, base, strict=True))


def times_the_cpu(samples: Sequence[Sample], base: Sequence[Sample]) -> float:
    """The same of the CPU per call."""
    return median(sample.cpu / max(other.cpu, 1) for sample, other in zip(samples, base, strict=True))
