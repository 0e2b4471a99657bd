"""Interleaved rounds, so that a busy moment of the machine affects every subject alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """Calls per second, and microseconds of CPU of the measured process per call."""

    rate: float
    cpu: float

    @classmethod
    def of(cls, measured: Mapping[str, Any]) -> Sample:
        if "rejected" in measured:
            raise RuntimeError(f"a call was rejected:\n{measured['rejected']}")
        calls = max(measured["calls"], 1)
        return cls(calls / measured["seconds"], measured["cpu"] / calls * 1e6)


Measure = Callable[[], Sample]
Samples = dict[str, list[Sample]]


def measure_rounds(rounds: int, measures: Mapping[str, Measure], report: Callable[[str], None]) -> Samples:
    """Measure each subject once per round, and return its samples."""
    samples: Samples = {name: [] for name in measures}
    for number in range(rounds):
        report(f"round {number + 1} of {rounds}")
        for name, measure in measures.items():
            samples[name].append(measure())
    return samples


def median_rate(samples: Sequence[Sample]) -> float:
    return median(sample.rate for sample in samples)


def median_cpu(samples: Sequence[Sample]) -> float:
    return median(sample.cpu for sample in samples)


def rate_ratio(samples: Sequence[Sample], base: Sequence[Sample]) -> float:
    """Return the median of the ratios within each round."""
    return median(sample.rate / other.rate for sample, other in zip(samples, base, strict=True))


def cpu_ratio(samples: Sequence[Sample], base: Sequence[Sample]) -> float:
    """Return the same for the CPU per call."""
    return median(sample.cpu / max(other.cpu, 1) for sample, other in zip(samples, base, strict=True))
