"""The adapter for FlashInfer, driven by a sampler of its signature in plain torch; FlashInfer itself needs a GPU."""

import pytest
import torch

from specdec_labs.audit import flashinfer_audit
from specdec_labs.audit.flashinfer_audit import DRAFTED, HORIZON, ChainSampler
from specdec_labs.audit.subject import Subject, audit
from specdec_labs.audit.tables import memory_example


def chain(draft_probs, draft_token_ids, target_probs, *, generator, residual=True):
    """What chain_speculative_sampling documents; without `residual` a refusal draws from p."""
    batch, drafted, _ = draft_probs.shape
    ids = draft_token_ids.long()[..., None]
    q = draft_probs.gather(2, ids)[..., 0]
    p = target_probs[:, :drafted].gather(2, ids)[..., 0]
    kept = (torch.rand(batch, drafted, generator=generator) * q < p).cumprod(1).sum(1)
    rows = torch.arange(batch)
    rest = target_probs[rows, kept]
    if residual:
        refused = (rest - draft_probs[rows, kept.clamp(max=drafted - 1)]).clamp(min=0)
        rest = torch.where((kept < drafted)[:, None], refused, rest)
    last = torch.multinomial(rest, 1, generator=generator)
    places = torch.arange(drafted + 1)
    padded = torch.cat([ids[..., 0], last], dim=1)
    emitted = torch.where(places < kept[:, None], padded, torch.where(places == kept[:, None], last, -1))
    return emitted, kept, kept


def subject(judge):
    pair = memory_example()
    return Subject("chain", "", ChainSampler(judge, pair, torch.device("cpu")), pair.target_after, HORIZON)


def test_a_right_sampler_passes():
    certificate = audit(subject(chain), n=6000, batch=500).certificate
    assert certificate.passed, certificate.sentence
    assert certificate.power > 0.9


def test_a_single_tensor_is_read_too():
    def judge(*args, **kwargs):
        return chain(*args, **kwargs)[0]

    assert ChainSampler(judge, memory_example(), torch.device("cpu"))(3, 5) == subject(chain).sample(3, 5)


def test_a_redraw_from_p_is_caught():
    def judge(*args, **kwargs):
        return chain(*args, **kwargs, residual=False)

    assert audit(subject(judge), n=2000, batch=500).certificate.p_value < 1e-6


def test_the_shapes_are_those_of_the_documentation():
    seen = []

    def judge(draft_probs, draft_token_ids, target_probs, **kwargs):
        seen.append((draft_probs.shape[1:], draft_token_ids.dtype, draft_token_ids.shape[1:], target_probs.shape[1:]))
        return chain(draft_probs, draft_token_ids, target_probs, **kwargs)

    subject(judge).sample(0, 4)
    vocab = memory_example().vocab
    assert seen[0] == ((DRAFTED, vocab), torch.int32, (DRAFTED,), (DRAFTED + 1, vocab))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_a_gpu_it_says_so():
    with pytest.raises(ValueError, match="needs a CUDA device"):
        flashinfer_audit.subjects()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_installed_flashinfer_passes():
    pytest.importorskip("flashinfer")
    certificate = audit(flashinfer_audit.subjects()[0], n=20_000, batch=1000).certificate
    assert certificate.passed, certificate.sentence
