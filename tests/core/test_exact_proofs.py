"""Every lossless rule has exactly the target's law on every instance it may judge: `output_law == target_law`.

The rules are those in `RULES`, whatever it holds: a new one is proved, or fails here. Enumeration takes every answer
of the coins for independent; so each branch also checks that no key of the round's noise is asked twice.
"""

from collections import Counter
from collections.abc import Sequence

import pytest

from specdec_core.coins import Coins
from specdec_core.exact_instances import Instance, exact_instances
from specdec_core.laws import output_law, target_law
from specdec_core.rules import RULES, Rule, Verdict

INSTANCES = exact_instances()
LOSSLESS = {name: rule for name, rule in RULES.items() if rule.lossless}
# `make test` takes every n-th of a category, so that it stays within seconds
STRIDE = {"chain": 9, "iid tree": 11, "tree without replacement": 7, "6 and 7 nodes": 25}
FEWEST = {
    "chain": 144,
    "deterministic chain": 36,
    "temperature 0": 18,
    "one level": 44,
    "iid tree": 84,
    "tree without replacement": 84,
    "deterministic tree": 84,
    "duplicate siblings": 30,
    "one-hot q": 50,
    "zeros": 50,
    "disjoint supports": 50,
    "p = q": 50,
    "6 and 7 nodes": 72,
}


def with_single_keys(rule: Rule):
    """The rule, and a check that its questions have keys of their own and that it emits every `sample` it draws."""

    def verify(drafted, draft_probs, target_probs, coins: Coins) -> Verdict:
        verdict = rule.verify(drafted, draft_probs, target_probs, coins)
        keys = [(event.purpose, event.node) for event in coins.events]
        assert len(set(keys)) == len(keys), f"{rule.name} asks a key twice: {keys}"
        samples = sum(purpose == "sample" for purpose, _ in keys)
        assert samples in (0, verdict.num_accepted + 1), f"{rule.name} drops a draw that is keyed by position"
        return verdict

    return verify


def prove(instances: Sequence[Instance]) -> Counter[str]:
    """How many of the instances each rule was proved on."""
    proved: Counter[str] = Counter()
    for instance in instances:
        expected = target_law(instance.target, instance.prefix, instance.horizon)
        for name, rule in LOSSLESS.items():
            if not instance.suits(rule):
                continue
            drafter = instance.drafter(rule)
            found = output_law(with_single_keys(rule), instance.target, drafter, instance.prefix, instance.horizon)
            is_lossless = found == expected
            assert is_lossless, f"{name} changes the law on {instance.name}"
            proved[name] += 1
    return proved


@pytest.mark.parametrize("category", INSTANCES)
def test_some_instances_of_each_category(category):
    assert prove(INSTANCES[category][:: STRIDE.get(category, 3)])


@pytest.mark.slow
@pytest.mark.parametrize("category", INSTANCES)
def test_every_instance(category):
    instances = INSTANCES[category]
    assert dict(prove(instances)) == {
        name: judged
        for name, rule in LOSSLESS.items()
        if (judged := sum(instance.suits(rule) for instance in instances))
    }


def test_over_five_hundred_instances_and_none_of_the_kinds_is_missing():
    counts = {category: len(instances) for category, instances in INSTANCES.items()}
    assert counts.keys() == FEWEST.keys()
    assert {category: count for category, count in counts.items() if count < FEWEST[category]} == {}
    assert sum(counts.values()) >= 800


def test_every_lossless_rule_is_proved_on_many_instances():
    judged = {
        name: sum(instance.suits(rule) for instances in INSTANCES.values() for instance in instances)
        for name, rule in LOSSLESS.items()
    }
    fewest = {"kseq": 55, "greedy": 18}
    assert {name: count for name, count in judged.items() if count < fewest.get(name, 240)} == {}


def test_every_accepted_proposal_of_a_rule_is_proved():
    """ "coupled" is proved in test_exact_match.py: enumeration cannot tie the draft's draw to the target's."""
    for name, rule in LOSSLESS.items():
        kinds = {i.proposal for instances in INSTANCES.values() for i in instances if i.suits(rule)}
        assert kinds == set(rule.proposals) - {"coupled"}, name


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("recursive", "tree without replacement"),
        ("recursive_without_replacement", "iid tree"),
        ("traversal", "tree without replacement"),
        ("traversal_without_replacement", "iid tree"),
    ],
)
def test_a_rule_for_the_other_kind_of_siblings_fails(name, category):
    rule = RULES[name]
    wrong = [
        instance
        for instance in INSTANCES[category][:14]
        if output_law(rule.verify, instance.target, instance.drafter(rule), instance.prefix, instance.horizon)
        != target_law(instance.target, instance.prefix, instance.horizon)
    ]
    assert len(wrong) >= 5
    assert not any(instance.is_chain for instance in wrong)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.lossless])
def test_a_lossy_rule_fails(name):
    rule = RULES[name]
    wrong = [
        instance
        for instance in INSTANCES["chain"][::8]
        if output_law(rule.verify, instance.target, instance.drafter(rule), instance.prefix, instance.horizon)
        != target_law(instance.target, instance.prefix, instance.horizon)
    ]
    assert len(wrong) > 10
