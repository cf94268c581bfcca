"""Evidence of many pairs at once: the same as one at a time, in any order, on any machine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.evidence import Stakes, log_evidence, log_evidence_units
from affine_dagster.scoring.exact_logs import UNIT
from affine_dagster.scoring.histogram import MISSING, Histogram
from affine_dagster.scoring.intervals import difference_interval, difference_intervals, reward_interval, reward_intervals

THOUSAND = settings(max_examples=1000)


def histograms(lowest: int = -1000) -> st.SearchStrategy[Histogram]:
    bins = st.dictionaries(st.integers(lowest, 1000), st.integers(1, 5000), max_size=6)
    return st.builds(lambda found, missing: Histogram(tuple(sorted(found.items())), missing), bins, st.integers(0, 50))


stakes = st.sampled_from(
    [Stakes(0.02, 0.05, 0.06, 0.3), Stakes(0.02, 0.05, 0.06, 0.15), Stakes(0.0, 0.2, 0.9, 1.0), Stakes(0.03, 0.1, 0.1, 0.05)]
)
rows = st.lists(st.tuples(histograms(), stakes), max_size=8)


@THOUSAND
@given(rows)
def test_many_rows_at_once_are_each_row_alone(given_rows: list[tuple[Histogram, Stakes]]) -> None:
    seen, laid = [one for one, _ in given_rows], [one for _, one in given_rows]
    made = log_evidence_units(Counts.of_histograms(seen), laid) / UNIT
    assert made.tolist() == [list(vars(log_evidence(one, at)).values()) for one, at in given_rows]


@THOUSAND
@given(histograms(), stakes)
def test_e_values_of_more_tasks_multiply_bet_by_bet_so_shards_merge_exactly(one: Histogram, laid: Stakes) -> None:
    halves = Histogram(one.bins[::2], one.missing // 2), Histogram(one.bins[1::2], one.missing - one.missing // 2)
    merged = Counts.of_histograms([halves[0]]) + Counts.of_histograms([halves[1]])
    assert log_evidence_units(merged, [laid]).tolist() == log_evidence_units(Counts.of_histograms([one]), [laid]).tolist()


@THOUSAND
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([MISSING, -1000, -3, 0, 7, 1000])), max_size=40), st.randoms())
def test_counts_do_not_depend_on_the_order_of_results(values: list[tuple[int, int]], random: Any) -> None:
    def counted(results: list[tuple[int, int]]) -> list[Histogram]:
        columns = np.array(results, dtype=np.int64).reshape(-1, 2).T
        return Counts.of_values(columns[0], columns[1], 4).histograms()

    shuffled = values[:]
    random.shuffle(shuffled)
    expected = [Histogram.of_steps(np.array([value for row, value in values if row == at], dtype=np.int32)) for at in range(4)]
    assert counted(shuffled) == expected


@THOUSAND
@given(st.lists(histograms(), max_size=6), st.lists(histograms(), max_size=6))
def test_counts_add_and_mirror_and_fill_as_histograms_do(first: list[Histogram], second: list[Histogram]) -> None:
    height = min(len(first), len(second))
    one, other = Counts.of_histograms(first[:height]), Counts.of_histograms(second[:height])
    assert (one + other).histograms() == [left + right for left, right in zip(first[:height], second[:height], strict=True)]
    assert one.mirrored(0).histograms() == [each.negated() for each in first[:height]]
    assert one.filled(-1000).histograms() == [each.filled(-1000) for each in first[:height]]
    assert one.tasks.tolist() == [each.tasks for each in first[:height]]


def test_rows_of_different_pairs_do_not_add_up() -> None:
    with pytest.raises(AffineError, match="bad_table"):
        Counts.empty(2) + Counts.empty(3)


@settings(max_examples=200)
@given(st.lists(histograms(), max_size=5), st.lists(histograms(0), max_size=5), st.sampled_from([0.01, 0.05, 0.5]))
def test_intervals_of_many_rows_are_those_of_each_row(differences: list[Histogram], rewards: list[Histogram], alpha: float) -> None:
    both, alone = difference_intervals(Counts.of_histograms(differences), alpha), [difference_interval(one, alpha) for one in differences]
    assert [both.row(at) for at in range(len(differences))] == alone
    both, alone = reward_intervals(Counts.of_histograms(rewards), alpha), [reward_interval(one, alpha) for one in rewards]
    assert [both.row(at) for at in range(len(rewards))] == alone


PROGRAM = """
import hashlib, numpy
from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.evidence import Stakes, log_evidence_units
from affine_dagster.scoring.intervals import difference_intervals
random = numpy.random.default_rng(3)
counts = Counts.of_values(random.integers(0, 300, 100_000), random.integers(-1000, 1001, 100_000), 300)
logs = log_evidence_units(counts, [Stakes(.02, .05, .06, q) for q in (.15, .3, .45)] * 100)
bounds = difference_intervals(counts, .05)
print(hashlib.sha256(logs.tobytes() + bounds.lower.tobytes() + bounds.upper.tobytes()).hexdigest())
"""


def test_other_processes_threads_and_vector_units_give_the_same_bytes() -> None:
    """One without the processor's widest vectors, one with another number of threads: NumPy then runs other code for the logarithms."""
    machines: list[dict[str, str]] = [
        {}, {"OMP_NUM_THREADS": "7", "POLARS_MAX_THREADS": "1", "PYTHONHASHSEED": "5"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"},
    ]
    made = {
        subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], env=machine, check=True, capture_output=True, text=True).stdout
        for machine in machines
    }
    assert len(made) == 1
