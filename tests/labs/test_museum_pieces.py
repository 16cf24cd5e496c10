"""Every piece is caught by its exact test and its property, the right code passes them, and the figures are right."""

from fractions import Fraction

import pytest

from specdec_core.coins import PhiloxCoins
from specdec_core.drafters import ModelDrafter
from specdec_core.exact_drafts import sampled_draft
from specdec_core.laws import output_law, target_law
from specdec_core.metrics import summarize
from specdec_core.recording import cut_at_stop
from specdec_core.rules import verify_block, verify_chain
from specdec_labs.museum import MUSEUM
from specdec_labs.museum.batch import PROMPTS, decode_batch, own_count
from specdec_labs.museum.bulk_noise import BulkCoins
from specdec_labs.museum.decoding import Method, decode, distance, law_of, memory_laws
from specdec_labs.museum.keys import (
    BY_POSITION,
    OF_THE_DRAFT,
    POSITION_CASE,
    REUSE_CASE,
    RIGHT,
    NoiseCase,
    by_position,
)
from specdec_labs.museum.length import DSPARK, retrospective
from specdec_labs.museum.piece import Instance, Piece

TITLES = (
    "softmax q with argmax draft · q in another dtype than drawn · random numbers reused between draft and recovery · "
    "draft temperature ignored · argmax verify at T>0 · token-wise rule inside block verify · "
    '"contiguous prefix" fix of block verify · residual not scaled by the prefix ratio · '
    "choosing length after seeing the draft · with/without-replacement mix-up · duplicate siblings judged twice · "
    "padded (-1) slots · `<=` at u=0 · noise keyed by position with block verify · "
    "draft-KV hole after full acceptance · batch positions tied together · "
    "recurrent/window state not rolled back · EOS inside the accepted prefix · "
    "pruned vocabulary with unnormalised q · lossy threshold called lossless · bonus counted twice"
)


def test_the_21_pieces_in_their_order():
    assert [piece.title for piece in MUSEUM.values()] == TITLES.split(" · ")
    assert len(MUSEUM) == 21
    assert all(piece.name == name for name, piece in MUSEUM.items())


@pytest.mark.parametrize("name", MUSEUM)
def test_the_exact_test_tells_wrong_from_right(name):
    piece = MUSEUM[name]
    assert not piece.exact_check(piece.wrong).passes, piece.exact_check(piece.wrong).says
    assert piece.exact_check(piece.right).passes, piece.exact_check(piece.right).says


@pytest.mark.parametrize("name", MUSEUM)
def test_the_property_tells_wrong_from_right(name):
    piece = MUSEUM[name]
    assert not piece.property_check(piece.wrong).passes, piece.property_check(piece.wrong).says
    assert piece.property_check(piece.right).passes, piece.property_check(piece.right).says


@pytest.mark.parametrize("name", MUSEUM)
def test_every_piece_has_its_story(name):
    piece = MUSEUM[name]
    for text in (piece.title, piece.symptom, piece.cause, piece.met_in, piece.fix):
        assert text and "|" not in text and "\n" not in text
    assert piece.visible_to_sampling != bool(piece.instead)


def test_a_piece_without_certificate_says_what_catches_it():
    piece = MUSEUM["bonus_counted_twice"]
    fields = {name: getattr(piece, name) for name in Piece.__slots__}
    with pytest.raises(ValueError, match="instead"):
        Piece(**{**fields, "instead": ""})


def test_right_is_the_real_code():
    laws = memory_laws(0, 3)
    assert MUSEUM["token_rule_in_block"].right(laws).rule is verify_block
    assert MUSEUM["softmax_q"].right(laws).rule is verify_chain
    assert MUSEUM["eos_inside_the_prefix"].right is cut_at_stop
    assert MUSEUM["draft_cache_hole"].right is ModelDrafter
    assert MUSEUM["bonus_counted_twice"].right is summarize


@pytest.mark.parametrize("rule", [verify_chain, verify_block])
def test_the_museums_loop_has_the_law_that_core_enumerates(rule):
    laws = memory_laws(3, 2)
    method = Method(sampled_draft(laws.draft, 2), rule)
    law = law_of(lambda coins: decode(method, laws.target, (0,), 4, coins))
    assert law == output_law(rule, laws.target, method.draft, (0,), 4) == target_law(laws.target, (0,), 4)


def test_noise_in_bulk_is_the_production_noise():
    laws = memory_laws(3, 6).as_floats()
    method = Method(sampled_draft(laws.draft, 2), verify_block)
    bulk, single = BulkCoins(7, 100, 40), PhiloxCoins(7)
    for request in range(100, 140):
        texts = [decode(method, laws.target, (0,), 6, source, request=request) for source in (bulk, single)]
        assert texts[0] == texts[1]


def test_060_becomes_063():
    law = REUSE_CASE.law(OF_THE_DRAFT)
    assert law == {(0,): Fraction(10, 100), (1,): Fraction(63, 100), (2,): Fraction(27, 100)}
    assert REUSE_CASE.law(RIGHT) == {(0,): Fraction(10, 100), (1,): Fraction(60, 100), (2,): Fraction(30, 100)}


def test_reused_noise_bends_the_joint_law_over_several_rounds():
    laws = memory_laws(1, 3)
    case = NoiseCase(laws, verify_chain, gamma=2, horizon=4, wanted=4)
    assert distance(case.law(OF_THE_DRAFT), target_law(laws.target, (), 4)) > Fraction(1, 1000)
    assert case.law(RIGHT) == target_law(laws.target, (), 4)


def test_noise_by_position_costs_one_twelfth():
    target = target_law(POSITION_CASE.laws.target, (), POSITION_CASE.horizon)
    law = POSITION_CASE.law(BY_POSITION)
    assert distance(law, target) == Fraction(1, 12)
    assert sum(weight for tokens, weight in law.items() if tokens[1] == 0) == Fraction(7, 18)


def test_chain_verification_does_not_mind_noise_by_position():
    case = NoiseCase(POSITION_CASE.laws, verify_chain, gamma=2, horizon=4, wanted=6)
    assert case.law(BY_POSITION) == target_law(case.laws.target, (), 4)
    assert not case.no_key_is_read_twice(BY_POSITION).passes


def test_dsparks_counterexample():
    law = DSPARK.output_law(retrospective)
    first = [sum(weight for tokens, weight in law.items() if tokens[0] == token) for token in (0, 1)]
    assert first == [Fraction(85, 100), Fraction(15, 100)]


@pytest.mark.parametrize("noise, case", [(OF_THE_DRAFT, REUSE_CASE), (BY_POSITION, POSITION_CASE)])
def test_samples_of_a_wrong_key_have_the_enumerated_law(noise, case):
    # the enumeration conditions on what earlier questions said of the noise; this checks it on real noise
    from scipy import stats

    n, law = 3000, case.law(noise)
    texts = [tokens[: case.horizon] for tokens in case.certificate(noise, n).sampler(noise)(0, n)]
    seen, expected = [texts.count(tokens) for tokens in law], [n * float(mass) for mass in law.values()]
    assert set(texts) <= set(law)
    assert stats.chisquare(seen, expected).pvalue > 1e-3


def test_position_keys_forget_the_round():
    from specdec_core.coins import NoiseKey

    assert by_position(NoiseKey(1, 2, 10, 3, "draft")) == by_position(NoiseKey(1, 2, 12, 1, "draft"))
    assert by_position(NoiseKey(1, 2, 10, 3, "draft")) != by_position(NoiseKey(1, 2, 10, 3, "accept"))


def test_position_keys_are_enumerated_on_laws_without_context_only():
    case = NoiseCase(memory_laws(0, 2), verify_block, gamma=2, horizon=4, wanted=6)
    with pytest.raises(ValueError, match="without context"):
        case.law(BY_POSITION)


def test_a_batch_row_has_as_many_tokens_as_asked_for():
    laws = memory_laws(6, 2)
    rows = decode_batch(laws.as_floats(), PROMPTS, 5, PhiloxCoins(3), own_count)
    assert [len(row) for row in rows] == [5, 5]


def test_an_instance_is_longer_than_a_round():
    for piece in MUSEUM.values():
        owner = getattr(piece.exact_check, "__self__", None)
        if isinstance(owner, Instance):
            # at most two drafts a round, so four tokens need at least two rounds
            assert owner.horizon >= 4
