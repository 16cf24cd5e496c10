"""Field cases P51 and P52: which token a head learns to say, and which state goes with which token."""

import pytest
import torch

from specdec_core.models.eagle import eagle_pairs
from specdec_core.models.medusa import IGNORED, MedusaHeads, medusa_labels


def test_p51_heads_learn_the_right_tokens_and_only_the_answer() -> None:
    """FasterDecoding/Medusa #101, #109: prompt masking had no effect."""
    labels = medusa_labels(torch.arange(10, 16), prompt_length=3, heads=3)
    pairs = [[(row, int(label)) for row, label in enumerate(head) if label != IGNORED] for head in labels]
    assert pairs == [[(1, 13), (2, 14), (3, 15)], [(0, 13), (1, 14), (2, 15)], [(0, 14), (1, 15)]]


def test_p51_a_text_too_short_for_a_head_gives_it_nothing() -> None:
    labels = medusa_labels(torch.arange(4), prompt_length=4, heads=4)
    assert labels.shape == (4, 4) and bool((labels == IGNORED).all())
    assert medusa_labels(torch.arange(4), prompt_length=0, heads=1).tolist() == [[2, 3, IGNORED, IGNORED]]


def test_fresh_medusa_heads_say_what_the_target_says() -> None:
    states = torch.randn(2, 5, 8)
    guessed = MedusaHeads(3, 8)(states)
    assert guessed.shape == (3, 2, 5, 8) and all(torch.equal(head, states) for head in guessed)
    with pytest.raises(ValueError, match="heads is 0"):
        MedusaHeads(0, 8)


def test_p52_each_state_goes_with_the_token_after_its_own() -> None:
    """vllm-project/vllm #14649: prompt x0..x4, sampled x5: five pairs (f0, x1) .. (f4, x5), x0 dropped."""
    states = torch.arange(5.0)[:, None]
    fed, tokens = eagle_pairs(states, torch.arange(100, 106))
    assert list(zip(fed[:, 0].tolist(), tokens.tolist())) == [(0, 101), (1, 102), (2, 103), (3, 104), (4, 105)]
    for count in (5, 7):
        with pytest.raises(ValueError, match=f"5 states and {count} tokens"):
            eagle_pairs(states, torch.arange(count))
