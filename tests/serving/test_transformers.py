"""The engine on tiny real models: same call, same answers; nothing of the folder runs or decides; faults have owners."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from affine_dagster.checkpoint.identity import identity
from affine_dagster.reasons import AffineError
from affine_dagster.serving.port import Completion, LoadedModel, Sampling
from affine_dagster.serving.sampling import sampling_of
from affine_dagster.serving.transformers import TransformersEngine
from affine_dagster.settings import ServingSettings

MESSAGES = ["a", "reverse sun", "1 + 2 =", "a much longer message than the others", "", "1 + 2 =", "\n\0\u00e9", "zz"]
GREEDY = Sampling(max_new_tokens=12, max_model_length=128)
WARM = replace(GREEDY, temperature=1.0)


def _edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def _engine(**settings: Any) -> TransformersEngine:
    return TransformersEngine(ServingSettings(**settings))


def _run(folder: Path, messages: Sequence[str], sampling: Sampling = GREEDY, **settings: Any) -> list[Completion]:
    with _engine(**settings).open(folder) as model:
        return model.complete(messages, list(range(len(messages))), sampling)


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "copy"))


@pytest.fixture
def loaded(tiny: Path) -> Iterator[LoadedModel]:
    with _engine().open(tiny) as model:
        yield model


def test_the_same_call_gives_the_same_completions_in_order(tiny: Path, loaded: LoadedModel) -> None:
    first = loaded.complete(MESSAGES, range(len(MESSAGES)), GREEDY)
    assert first == loaded.complete(MESSAGES, range(len(MESSAGES)), GREEDY) == _run(tiny, MESSAGES)
    assert first[2] == first[5]
    assert [completion.prompt_tokens for completion in first] == [3 + n for n in (1, 5, 7, 37, 0, 7, 4, 2)]


def test_the_order_of_a_call_does_not_matter(loaded: LoadedModel) -> None:
    seeds = [7 * n for n in range(len(MESSAGES))]
    for sampling in (GREEDY, WARM):
        forward = loaded.complete(MESSAGES, seeds, sampling)
        assert loaded.complete(MESSAGES[::-1], seeds[::-1], sampling) == forward[::-1]


def test_batches_are_cut_from_the_call_and_neighbours_decide_nothing(tiny: Path) -> None:
    assert _run(tiny, MESSAGES, batch_size=3) == _run(tiny, MESSAGES, batch_size=1) == _run(tiny, MESSAGES, batch_size=256)


def test_what_all_prompts_begin_with_is_computed_once_and_decides_nothing(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from affine_dagster.serving import decoding

    messages = [f"of all the words that stand here {message}" for message in MESSAGES]
    computed: list[tuple[int, ...]] = []
    forward = decoding._State._forward
    monkeypatch.setattr(decoding._State, "_forward", lambda self, ids, at: (computed.append(tuple(ids.shape)), forward(self, ids, at))[1])
    together = [_run(tiny, messages, sampling) for sampling in (GREEDY, WARM)]
    assert computed[:2] == [(1, 34), (len(messages), 37 + 2)]  # the turn's mark and 33 characters; 37 characters and two marks
    del computed[:]
    assert together == [_run(tiny, messages, sampling, batch_size=1) for sampling in (GREEDY, WARM)]
    assert all(rows == 1 for rows, _ in computed)


@pytest.mark.parametrize(
    ("prompts", "shared"),
    [
        ([[1] * 40 + [2], [1] * 40 + [3, 4], [1] * 41], 40), ([[1] * 40] * 3, 39), ([[1] * 80], 0), ([[1] * 20 + [2], [1] * 20 + [3]], 0),
        ([[5] + [1] * 99, [6] + [1] * 99], 0), ([[7], [7] * 99], 0),
    ],
)
def test_a_common_beginning_leaves_each_prompt_a_token_of_its_own(prompts: list[list[int]], shared: int) -> None:
    from affine_dagster.serving.decoding import _shared

    assert _shared(prompts) == shared


def test_no_messages_no_completions(loaded: LoadedModel) -> None:
    assert loaded.complete([], [], GREEDY) == []


def test_a_seed_for_each_message(loaded: LoadedModel) -> None:
    with pytest.raises(ValueError, match="2 prompts and 1 seeds"):
        loaded.complete(["a", "b"], [1], GREEDY)


def test_a_row_s_draw_is_its_own(loaded: LoadedModel) -> None:
    alone = loaded.complete(["1 + 2 ="], [99], WARM)[0]
    among = loaded.complete([*MESSAGES, "1 + 2 ="], [*range(100, 100 + len(MESSAGES)), 99], WARM)[-1]
    other_seeds = loaded.complete([*MESSAGES, "1 + 2 ="], [*range(200, 200 + len(MESSAGES)), 99], WARM)[-1]
    assert alone == among == other_seeds


def test_seeds_make_samples_and_the_upper_half_of_a_seed_counts(loaded: LoadedModel) -> None:
    texts = [completion.text for completion in loaded.complete(["x"] * 4, [1, 2, 1, 1 + 2**40], WARM)]
    assert texts[0] == texts[2]
    assert len(set(texts)) == 3


def test_sampling_at_a_small_top_p_is_greedy(loaded: LoadedModel) -> None:
    greedy = loaded.complete(MESSAGES, range(len(MESSAGES)), GREEDY)
    assert loaded.complete(MESSAGES, range(len(MESSAGES)), replace(WARM, top_p=1e-9)) == greedy


def test_the_loop_gives_what_generate_gives(tiny: Path, loaded: LoadedModel) -> None:
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    tokenizer, model = AutoTokenizer.from_pretrained(tiny), LlamaForCausalLM.from_pretrained(tiny).eval()
    for message, ours in zip(MESSAGES, loaded.complete(MESSAGES, range(len(MESSAGES)), GREEDY), strict=True):
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True)
        ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
        assert ours.text == tokenizer.decode(made, skip_special_tokens=True)
        assert ours.completion_tokens == len(made)


@pytest.mark.parametrize("name", ["Qwen2", "Qwen3", "Mistral"])
def test_every_allowed_architecture_computes_what_transformers_computes(name: str, tiny: Path, tmp_path: Path) -> None:
    import torch
    import transformers

    vocabulary = json.loads((tiny / "config.json").read_text())["vocab_size"]
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, max_position_embeddings=128, initializer_range=0.3, tie_word_embeddings=False, eos_token_id=1,
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0},
    )
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny / file, tmp_path / file)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    with _engine().open(tmp_path) as ours:
        completion = ours.complete(["reverse sun"], [0], GREEDY)[0]
        ids = torch.tensor([ours._prompts.encode("reverse sun")])  # type: ignore[attr-defined]
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
        assert completion.text == ours._prompts.decode(made.tolist())  # type: ignore[attr-defined]


def _say(*tokens: int) -> Callable[[Any], None]:
    """A change after which the model says these tokens whatever it is asked, then repeats the last."""

    def change(model: Any) -> None:
        import torch

        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        size = model.config.hidden_size
        model.model.norm.weight.fill_(1.0)
        embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
        embedding.zero_()
        head.zero_()
        for place, (before, after) in enumerate(zip((3, *tokens), (*tokens, tokens[-1]), strict=True)):
            embedding[before] = torch.nn.functional.one_hot(torch.tensor(place), size).float()
            head[after, place] += 9.0

    return change


TURN_END, DIGIT = 1, 5 + 16
"""Token ids of the fixture's tokenizer: "<|end|>", and some character."""


def test_a_model_stops_at_its_end_of_turn_and_the_token_is_not_text(make_model: Callable[..., Path]) -> None:
    completion = _run(make_model(change=_say(DIGIT, DIGIT + 1, TURN_END), tie_word_embeddings=False), ["x"])[0]
    assert (completion.finish_reason, completion.completion_tokens, len(completion.text)) == ("stop", 3, 2)


@pytest.mark.parametrize("eos", [None, 2, [0, 2], "x", -5, True])
def test_a_wrong_eos_in_the_config_costs_nothing(make_model: Callable[..., Path], eos: Any) -> None:
    """Case V4: the stop tokens are a union, so the token that the template really uses is always among them."""
    folder = make_model(change=_say(DIGIT, TURN_END), tie_word_embeddings=False)
    _edit(folder / "config.json", eos_token_id=eos)
    _edit(folder / "tokenizer_config.json", **{"eos_token": "<|pad|>"})
    completion = _run(folder, ["x"])[0]
    assert (completion.finish_reason, completion.completion_tokens) == ("stop", 2)


@pytest.mark.parametrize("source", ["config", "tokenizer"])
def test_each_source_of_stop_tokens_counts(make_model: Callable[..., Path], source: str) -> None:
    """Case V4."""
    folder = make_model(change=_say(DIGIT, 4), tie_word_embeddings=False)
    if source == "config":
        _edit(folder / "config.json", eos_token_id=[4])
    else:
        _edit(folder / "tokenizer_config.json", **{"eos_token": "<|system|>"})
    assert _run(folder, ["x"])[0].finish_reason == "stop"


def test_a_model_that_never_stops_is_stopped(make_model: Callable[..., Path]) -> None:
    """Case V4: the token cap holds, and the reason says that it was ours."""
    completion = _run(make_model(change=_say(DIGIT), tie_word_embeddings=False), ["x"])[0]
    assert (completion.finish_reason, completion.completion_tokens, completion.reason) == ("length", 12, None)


def test_prompt_and_answer_stay_within_the_length(loaded: LoadedModel) -> None:
    """Case V5: one token short of the limit leaves one token; a prompt of the limit is the operator's fault, its neighbours' nothing."""
    sampling = replace(GREEDY, max_model_length=20)
    fits, full, longer, short = loaded.complete(["x" * 16, "x" * 17, "x" * 400, "x"], range(4), sampling)
    assert (fits.prompt_tokens, fits.completion_tokens, fits.reason) == (19, 1, None)
    for completion in (full, longer):
        assert (completion.finish_reason, completion.reason, completion.text) == ("fault", "prompt_too_long", "")
    assert short == loaded.complete(["x"], [3], sampling)[0]


def test_non_finite_logits_are_the_model_s_fault_and_end_the_row(make_model: Callable[..., Path]) -> None:
    """Case V7."""

    def spoil(model: Any) -> None:
        model.model.layers[0].mlp.up_proj.weight[0, 0] = float("nan")

    for sampling in (GREEDY, WARM):
        completions = _run(make_model(change=spoil), MESSAGES, sampling)
        seen = {(one.finish_reason, one.reason, one.completion_tokens, one.text) for one in completions}
        assert seen == {("fault", "invalid_sample", 0, "")}


def test_a_spoilt_row_leaves_its_neighbours_alone(make_model: Callable[..., Path], loaded: LoadedModel) -> None:
    """Case V7: NaN in the embedding of one character, also while that row is padded to the others' length."""

    def spoil(model: Any) -> None:
        model.model.embed_tokens.weight[5 + 57] = float("nan")

    untied: dict[str, Any] = {"tie_word_embeddings": False}
    spoilt, sound = make_model(change=spoil, **untied), make_model(**untied)
    letter = _character(spoilt, 5 + 57)
    messages = ["a", letter, f"a longer {letter} message", "a longer sound message"]
    bad, good = _run(spoilt, messages), _run(sound, messages)
    assert [one.reason for one in bad[1:3]] == ["invalid_sample"] * 2
    assert [bad[0].reason, bad[3].reason] == [None, None] and [bad[0].text, bad[3].text] == [good[0].text, good[3].text]


def _character(folder: Path, token: int) -> str:
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    return next(text for text, number in vocabulary.items() if number == token)


def test_the_folder_s_generation_config_decides_nothing(copy: Path, loaded: LoadedModel) -> None:
    hostile = {"do_sample": True, "temperature": 99.0, "max_new_tokens": 1, "eos_token_id": list(range(200)), "repetition_penalty": 9.0}
    (copy / "generation_config.json").write_text(json.dumps(hostile))
    _edit(copy / "config.json", max_length=3, do_sample=True, output_hidden_states=True, return_dict=False, use_cache=False)
    _edit(copy / "config.json", torch_dtype="float16", dtype="float16", attn_implementation="a/kernel")
    assert _run(copy, MESSAGES) == loaded.complete(MESSAGES, range(len(MESSAGES)), GREEDY)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_no_code_of_the_folder_runs(copy: Path, file: str, tmp_path: Path) -> None:
    """Case H17: auto_map in the config is refused; in the tokenizer's it has no way in."""
    witness = tmp_path / "ran"
    code = f"open({str(witness)!r}, 'w').close()\nclass T: pass\n"
    (copy / "x.py").write_text(code)
    _edit(copy / file, auto_map={"AutoTokenizer": ["x.T", None], "AutoConfig": "x.T", "AutoModelForCausalLM": "x.T"}, tokenizer_class="T")
    if file == "config.json":
        with pytest.raises(AffineError, match="auto_map") as caught:
            _run(copy, ["a"])
        assert caught.value.code == "not_loadable"
    else:
        assert _run(copy, ["a"])[0].reason is None
    assert not witness.exists()


def test_the_receipt_says_what_was_loaded(make_model: Callable[..., Path]) -> None:
    """Case V10: two models give two receipts, each that of its own bytes, whatever the folders are called."""
    receipts = []
    for folder in (make_model(seed=1), make_model(seed=2)):
        with _engine().open(folder) as model:
            known = identity(folder)
            receipts.append(model.receipt)
            assert model.receipt.weights_digest == known.weights_digest
            assert (model.receipt.template_hash, model.receipt.tokenizer_signature) == (known.template_hash, known.tokenizer_signature)
    assert receipts[0].weights_digest != receipts[1].weights_digest
    assert "torch" in receipts[0].engine_version and "float32" in receipts[0].engine_version


def test_the_same_tensors_under_another_config_are_another_model(make_model: Callable[..., Path]) -> None:
    """The receipt tells them apart, because they answer differently."""
    models = [make_model(seed=1), make_model(seed=1, rope_theta=2.0)]
    receipts, answers = [], []
    for folder in models:
        with _engine().open(folder) as model:
            receipts.append(model.receipt)
        answers.append([completion.text for completion in _run(folder, ["what is this?", "and that?"])])
    first, second = receipts
    assert first.tensors_digest == second.tensors_digest
    assert (first.config_digest != second.config_digest, first.weights_digest != second.weights_digest) == (True, True)
    assert answers[0] != answers[1]


def test_the_receipt_follows_the_bytes_not_the_name(copy: Path, make_model: Callable[..., Path]) -> None:
    """Case V10: other weights under the same path are seen."""
    with _engine().open(copy) as model:
        first = model.receipt.weights_digest
    shutil.copy(make_model(seed=5) / "model.safetensors", copy / "model.safetensors")
    with _engine().open(copy) as model:
        assert model.receipt.weights_digest != first


def _without(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        state = load_file(folder / "model.safetensors")
        del state[name]
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def _cut(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-100])


@pytest.mark.parametrize(
    "spoil",
    [
        _cut,
        _without("model.layers.1.mlp.up_proj.weight"),
        lambda folder: _edit(folder / "config.json", hidden_size=48),
        lambda folder: _edit(folder / "config.json", num_attention_heads=0),
        lambda folder: _edit(folder / "config.json", hidden_act="no_such"),
        lambda folder: _edit(folder / "config.json", rope_parameters={"rope_type": "no_such"}),
        lambda folder: _edit(folder / "config.json", tie_word_embeddings=False),
        lambda folder: _edit(folder / "config.json", num_hidden_layers=1),
        lambda folder: _edit(folder / "config.json", architectures=["EvilForCausalLM"]),
        lambda folder: _edit(folder / "config.json", quantization_config={"bits": 4}),
        lambda folder: (folder / "config.json").write_text("{"),
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        lambda folder: _edit(folder / "tokenizer_config.json", chat_template="{{ 1 / 0 }}"),
    ],
)
def test_a_folder_that_cannot_be_a_model_is_the_model_s_fault(copy: Path, spoil: Callable[[Path], object]) -> None:
    spoil(copy)
    with pytest.raises(AffineError) as caught:
        _run(copy, ["a"])
    assert caught.value.code == "not_loadable"
    assert caught.value.detail


def test_a_tokenizer_beyond_the_embedding_is_the_model_s_fault(copy: Path) -> None:
    content = json.loads((copy / "tokenizer.json").read_text())
    last = content["added_tokens"][-1]
    content["added_tokens"].append({**last, "id": last["id"] + 1, "content": "beyond"})
    (copy / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(AffineError, match="token_beyond_embedding") as caught:
        _run(copy, ["a"])
    assert caught.value.code == "not_loadable"


@pytest.mark.parametrize(
    "error", [MemoryError("1 TB"), OSError(5, "Input/output error"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_what_this_machine_lacks_is_our_fault(tiny: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("affine_dagster.serving.transformers._model", fail)
    with pytest.raises(AffineError) as caught:
        _run(tiny, ["a"])
    assert caught.value.code == "unloadable_here"


def test_a_folder_that_is_not_there_is_our_fault(tmp_path: Path) -> None:
    with pytest.raises(AffineError) as caught:
        _run(tmp_path / "gone", ["a"])
    assert caught.value.code == "unloadable_here"


def test_a_folder_that_changes_while_it_is_read_is_our_fault(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case V10: digest and model must be of the same bytes."""

    def meddle(folder: Path) -> Any:
        known = identity(folder)
        (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
        return known

    monkeypatch.setattr("affine_dagster.serving.transformers.identity", meddle)
    with pytest.raises(AffineError, match="changed") as caught:
        _run(copy, ["a"])
    assert caught.value.code == "unloadable_here"


def test_closing_frees_the_weights_and_restores_the_threads(tiny: Path) -> None:
    import torch

    before = torch.get_num_threads()
    with _engine(threads=before + 1).open(tiny) as model:
        weight = weakref.ref(model._model.model.embed_tokens.weight)  # type: ignore[attr-defined]
        assert torch.get_num_threads() == before + 1
        assert weight() is not None
    assert weight() is None
    assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError, match="closed"):
        model.complete(["a"], [0], GREEDY)


def test_the_settings_alone_make_the_sampling() -> None:
    settings = ServingSettings(temperature=0.5, top_p=0.9, max_new_tokens=3, max_model_length=99)
    assert sampling_of(settings) == Sampling(0.5, 0.9, 3, 99)


def test_bfloat16_is_computed_when_asked_for(tiny: Path) -> None:
    with _engine(dtype="bfloat16").open(tiny) as model:
        assert "bfloat16" in model.receipt.engine_version
        assert str(model._model.dtype) == "torch.bfloat16"  # type: ignore[attr-defined]
        assert all(one.reason is None for one in model.complete(MESSAGES, range(len(MESSAGES)), GREEDY))
