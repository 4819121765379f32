"""The boundaries of group-sequential tests agree with published tables, and keep their level."""

import numpy as np
import pytest

from videomme_pipeline.scoring.statistics.sequential import boundaries, crossing_probability

# The bound of the last of 2 to 10 equal looks, two-sided 5%: tables of chapter 2 in Jennison and
# Turnbull, "Group Sequential Methods with Applications to Clinical Trials" (2000).
PUBLISHED = {
    0.0: [1.977, 2.004, 2.024, 2.040, 2.053, 2.063, 2.072, 2.080, 2.087],
    0.25: [2.038, 2.083, 2.113, 2.136, 2.154, 2.168, 2.180, 2.190, 2.199],
    0.5: [2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512, 2.535, 2.555],
}


def equal_looks(count: int) -> tuple[float, ...]:
    return tuple((number + 1) / count for number in range(count))


@pytest.mark.parametrize("shape", PUBLISHED)
def test_the_bounds_are_those_of_the_published_tables(shape: float) -> None:
    last = [float(boundaries(equal_looks(looks), 0.05, shape)[-1]) for looks in range(2, 11)]
    assert last == pytest.approx(PUBLISHED[shape], abs=0.0006)


def test_one_look_has_the_bound_of_an_ordinary_test() -> None:
    assert boundaries((1.0,), 0.05)[0] == pytest.approx(1.959964, abs=1e-6)


def test_random_walks_cross_the_bounds_as_often_as_the_level() -> None:
    shares = (0.1, 0.3, 0.35, 0.8, 1.0)
    bounds = boundaries(shares, 0.05)
    steps = np.random.default_rng(0).standard_normal((200_000, 5))
    walks = np.cumsum(steps * np.sqrt(np.diff((0.0, *shares))), axis=1)
    crossed = np.any(np.abs(walks) >= bounds * np.sqrt(shares), axis=1)
    assert np.mean(crossed) == pytest.approx(0.05, abs=0.002)
    assert crossing_probability(shares, bounds) == pytest.approx(0.05, abs=1e-9)


def test_early_bounds_are_higher() -> None:
    bounds = boundaries(equal_looks(9), 0.05)
    assert np.all(np.diff(bounds) < 0)
