"""The audit of transformers passes what is right and catches bugs that are planted into the installed package."""

import pytest
import torch

from specdec_labs.audit import transformers_audit
from specdec_labs.audit.subject import audit

transformers = pytest.importorskip("transformers")


def one(name, **options):
    return transformers_audit.subjects([name], **options)[0]


def unscaled(judge):
    """Judges with the draft's law at temperature 1, although the drafts were drawn at 0.5."""

    def with_raw_q(ids, candidate_logits, candidate_length, new_logits, **kwargs):
        raw = candidate_logits * transformers_audit.PARAMS.temperature
        return judge(ids, raw, candidate_length, new_logits, **kwargs)

    return with_raw_q


def test_the_table_model_reads_its_memory_from_the_cache():
    from transformers.cache_utils import DynamicCache

    pair = transformers_audit.tables()
    target, _ = transformers_audit._models(pair)
    text = [*pair.start, 3, 1, 4, 1, 5]
    cache, read = DynamicCache(config=target.config), pair.order + 1
    target(torch.tensor([text[:read]]), cache=cache)
    for length in range(read, len(text)):
        logits = target(torch.tensor([[text[length]]]), cache=cache).logits[0, -1]
        law = pair.target_after(text[pair.order : length + 1])
        assert torch.allclose(logits.softmax(-1), torch.tensor([float(p) for p in law]), atol=1e-6)
    cache.crop(-2)
    stale = target(torch.tensor([[5]]), cache=cache).logits[0, -1]
    law = pair.target_after([*text[pair.order : -2], 5])
    assert torch.allclose(stale.softmax(-1), torch.tensor([float(p) for p in law]), atol=1e-6)


def test_the_tables_have_no_ties_for_top_k():
    pair = transformers_audit.tables()
    assert all(len(set(row)) == pair.vocab for row in (*pair.target, *pair.draft))
    assert all((row > 0).sum() == transformers_audit.PARAMS.top_k for row in transformers_audit.warped(pair.target))


@pytest.mark.parametrize("name", ["rule", "assistant", "prompt-lookup"])
def test_the_installed_samplers_pass_a_small_audit(name):
    finding = audit(one(name), n=80)
    assert not finding.certificate.rejected, finding.certificate.sentence
    assert finding.certificate.n == sum(finding.texts.values()) == 80
    assert finding.to_dict()["certificate"]["settings"]["transformers"] == transformers.__version__


def test_a_rule_that_reads_the_raw_q_is_caught():
    judge = transformers.generation.utils._speculative_sampling
    finding = audit(one("rule", rule=unscaled(judge)), n=1_200)
    assert finding.certificate.rejected


def test_a_package_that_accepts_every_draft_is_caught(monkeypatch):
    def accept_all(ids, candidate_logits, candidate_length, new_logits, **_):
        last = torch.multinomial(new_logits[:, -1].softmax(-1), 1)
        return torch.cat([ids[:, -candidate_length:], last], dim=1), candidate_length

    monkeypatch.setattr(transformers.generation.utils, "_speculative_sampling", accept_all)
    assert audit(one("assistant"), n=120).certificate.p_value < 1e-6


def test_a_package_that_keeps_refused_rows_in_the_cache_is_caught(monkeypatch):
    monkeypatch.setattr(transformers.cache_utils.DynamicCache, "crop", lambda self, count: None)
    assert audit(one("prompt-lookup"), n=120).certificate.p_value < 1e-6


def test_requests_are_repeatable_and_leave_the_global_noise_alone():
    sample = one("assistant").sample
    before = torch.random.get_rng_state()
    assert sample(7, 2)[1] == sample(8, 1)[0]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_unknown_audit_is_refused():
    with pytest.raises(ValueError, match=r"\['gibbs'\] is no audit of transformers; expected some of rule, assistant"):
        transformers_audit.subjects(["gibbs"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rule", "assistant", "prompt-lookup"])
def test_the_installed_samplers_pass_an_audit_that_sees_a_tenth(name):
    certificate = audit(one(name), n=None, bias=0.1, seed=1).certificate
    assert certificate.passed and certificate.power > 0.95, certificate.sentence


@pytest.mark.slow
def test_generate_with_the_raw_q_is_caught(monkeypatch):
    judge = transformers.generation.utils._speculative_sampling
    monkeypatch.setattr(transformers.generation.utils, "_speculative_sampling", unscaled(judge))
    assert audit(one("assistant"), n=1500).certificate.p_value < 1e-6
