"""The prefix scheduler: the best lengths there are when a pass costs more the more it verifies."""

from fractions import Fraction
from itertools import product
import random

import pytest

from specdec_core.prefix_scheduler import prefix_lengths

F = Fraction


def throughput(conditional, lengths, steps_per_second) -> Fraction:
    tokens = F(len(lengths))
    for chances, length in zip(conditional, lengths):
        survival = F(1)
        for chance in chances[:length]:
            survival *= chance
            tokens += survival
    return tokens * steps_per_second(len(lengths) + sum(lengths))


@pytest.mark.parametrize("case", range(20))
def test_no_other_lengths_emit_more_when_time_grows_linearly(case):
    """Survivals fall, so the sum is concave in what is admitted; over a linear time its quotient has one peak."""
    generator = random.Random(case)
    requests = generator.randint(1, 3)
    conditional = [[F(generator.randint(0, 6), 6) for _ in range(generator.randint(0, 3))] for _ in range(requests)]
    fixed, each = F(generator.randint(1, 8)), F(generator.randint(0, 6), 4)

    def steps_per_second(rows: int) -> Fraction:
        return 1 / (fixed + each * rows)

    lengths = prefix_lengths(conditional, steps_per_second)
    best = max(
        throughput(conditional, other, steps_per_second)
        for other in product(*(range(len(chances) + 1) for chances in conditional))
    )
    assert throughput(conditional, lengths, steps_per_second) == best


def test_a_worked_batch():
    """Survivals .9, .81 | .5, .4: at 1 / (1 + rows / 4) steps a second the best three are worth it, the fourth not."""
    conditional = [[F(9, 10), F(9, 10)], [F(1, 2), F(4, 5)]]
    seconds = [F(1) + F(rows, 4) for rows in range(7)]
    rates = [F(2) / seconds[2], F(29, 10) / seconds[3], F(371, 100) / seconds[4], F(421, 100) / seconds[5]]
    assert rates[0] < rates[1] < rates[2] < rates[3] > (F(461, 100) / seconds[6])
    assert prefix_lengths(conditional, lambda rows: 1 / seconds[rows]) == (2, 1)


def test_the_search_ends_at_the_first_loss():
    """A step in the cost curve at 2 rows hides the gain behind it; looking past it would be looking ahead."""
    cost = {1: F(1), 2: F(3), 3: F(3), 4: F(3)}
    assert prefix_lengths([[F(1), F(1), F(1)]], lambda rows: 1 / cost[rows]) == (0,)


def test_equal_survivals_go_to_earlier_positions_then_to_lower_requests():
    conditional = [[F(1), F(1)], [F(1), F(1)]]
    # 3 more rows are free, then verification stops paying
    assert prefix_lengths(conditional, lambda rows: F(1) if rows <= 5 else F(1, 9)) == (2, 1)


def test_nothing_to_schedule():
    assert prefix_lengths([], lambda rows: F(1)) == ()
    assert prefix_lengths([[], []], lambda rows: F(1)) == (0, 0)


def test_a_chance_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"conditional\[1\]\[0\] is 2"):
        prefix_lengths([[0.5], [2]], lambda rows: 1.0)
