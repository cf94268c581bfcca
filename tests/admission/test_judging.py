"""Each thing that can be wrong with a repository has its reason, whose fault it is, and costs nobody else anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from affine_dagster.admission import judging
from affine_dagster.admission.judging import Admitted, judge
from affine_dagster.admission.probe import Probe
from affine_dagster.checkpoint.identity import identity
from affine_dagster.checkpoint.template import template_hash
from affine_dagster.checkpoint.tokenizer import rewriting_hash
from affine_dagster.hub.local import Access, LocalHub
from affine_dagster.hub.port import HubFile
from affine_dagster.reasons import AffineError, Fault
from affine_dagster.settings import AdmissionSettings

SETTINGS = AdmissionSettings(probe_seconds=20)
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
Change = Callable[[ModuleType, Path], object]


def enter(make: ModuleType, folder: Path, settings: AdmissionSettings = SETTINGS) -> Admitted:
    hub = LocalHub(folder.parent / "hub")
    return judge(hub, settings, "owner/model", hub.publish("owner/model", folder), texts(make))


def found(make: ModuleType, max_token_id: int = 3) -> Probe:
    return Probe(template_hash(make.TEMPLATE), "0" * 64, rewriting_hash(json.loads(make.tokenizer_json())), max_token_id)


def texts(make: ModuleType) -> set[str]:
    """What a genesis model of the maker allows."""
    return {template_hash(make.TEMPLATE), rewriting_hash(json.loads(make.tokenizer_json()))}


def config(**fields: object) -> Change:
    def change(make: ModuleType, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({**make.CONFIG, **fields}))

    return change


def without(field: str) -> Change:
    def change(make: ModuleType, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({name: value for name, value in make.CONFIG.items() if name != field}))

    return change


def tensors(**fields: Callable[[np.ndarray], np.ndarray | None]) -> Change:
    """Change tensors by the last words of their name, with '_' for '.'; None takes one away."""

    def change(make: ModuleType, folder: Path) -> None:
        made = {}
        for name, array in make.llama_tensors().items():
            edit = next((edit for end, edit in fields.items() if name.replace(".", "_").endswith(end)), None)
            array = array if edit is None else edit(array)  # noqa: PLW2901
            if array is not None:
                made[name] = array
        make.write_weights(folder, made)

    return change


def file(name: str, content: bytes) -> Change:
    def change(make: ModuleType, folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    return change


def no_file(name: str) -> Change:
    return lambda make, folder: (folder / name).unlink()


def with_nan(array: np.ndarray) -> np.ndarray:
    array.flat[3] = np.nan
    return array


def cut(make: ModuleType, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def more_tensors(names: Mapping[str, Sequence[int]]) -> Change:
    def change(make: ModuleType, folder: Path) -> None:
        make.write_weights(folder, {**make.llama_tensors(), **{name: np.ones(shape, np.float32) for name, shape in names.items()}})

    return change


def untied(head: Sequence[int] | None) -> Change:
    def change(make: ModuleType, folder: Path) -> None:
        config(tie_word_embeddings=False)(make, folder)
        if head is not None:
            more_tensors({HEAD: head})(make, folder)

    return change


REFUSED: Mapping[str, tuple[str, Change]] = {
    "H1 pointer": ("lfs_pointer", file("model.safetensors", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")),
    "H1 empty": ("empty_file", file("model.safetensors", b"")),
    "H1 page": ("not_a_weights_file", file("model.safetensors", b"<html>" * 100)),
    "H2 short": ("size_mismatch", cut),
    "H5 both layouts": ("ambiguous_weights", file("model.safetensors.index.json", b"{}")),
    "H8 header of 101 MiB": ("header_too_large", file("model.safetensors", (101 * 2**20).to_bytes(8, "little") + b"{" + bytes(100))),
    "header longer than its tensors explain": (
        "header_too_large", file("model.safetensors", (2 * 2**20).to_bytes(8, "little") + b"{" + b"[]," * 2**20)
    ),
    "H10 no head, not tied": ("missing_tensor", untied(None)),
    "H10 no head, tie not said": ("missing_tensor", without("tie_word_embeddings")),
    "H10 another head, tied": ("unexpected_tensor", more_tensors({HEAD: (32, 8)})),
    "H17 auto_map": ("remote_code", config(auto_map={"AutoModel": "x.Y"})),
    "H17 auto_map within": ("remote_code", config(extra=[{"auto_map": {"AutoModel": "x.Y"}}])),
    "H17 auto_map of the tokenizer": ("remote_code", file("tokenizer_config.json", b'{"auto_map": {"AutoTokenizer": ["x.T", null]}}')),
    "H17 code": ("remote_code", file("modeling.py", b"import os")),
    "H17 code in a folder": ("remote_code", file("sub/modeling.py", b"import os")),
    "H19 quantised": ("quantized", config(quantization_config={"bits": 4})),
    "H20 adapter": ("adapter_only", file("adapter_config.json", b"{}")),
    "pickle": ("not_safetensors", file("pytorch_model.bin", b"\x80\x04")),
    "no config": ("missing_config", no_file("config.json")),
    "config is a list": ("missing_config", file("config.json", b"[]")),
    "config nests": ("missing_config", file("config.json", b"[" * 100_000)),
    "config of 5 MB": ("missing_config", file("config.json", b" " * 5_000_000)),
    "no weights": ("no_weights", no_file("model.safetensors")),
    "no tokenizer": ("tokenizer_unreadable", no_file("tokenizer.json")),
    "another architecture": ("architecture_not_allowed", config(architectures=["GPT2LMHeadModel"])),
    "two architectures": ("architecture_not_allowed", config(architectures=["LlamaForCausalLM", "Qwen2ForCausalLM"])),
    "unhashable architecture": ("architecture_not_allowed", config(architectures=[["LlamaForCausalLM"]])),
    "model_type of another": ("architecture_not_allowed", config(model_type="mamba")),
    "size missing": ("missing_config", without("hidden_size")),
    "size is text": ("missing_config", config(hidden_size="8")),
    "size is true": ("missing_config", config(num_hidden_layers=True)),
    "a billion layers": ("too_large", config(num_hidden_layers=10**9)),
    "heads do not divide": ("shape_mismatch", config(num_attention_heads=3)),
    "more layers than stored": ("missing_tensor", config(num_hidden_layers=3)),
    "fewer layers than stored": ("unexpected_tensor", config(num_hidden_layers=1)),
    "tensor missing": ("missing_tensor", tensors(**{"0_mlp_up_proj_weight": lambda array: None})),
    "tensor unexpected": ("unexpected_tensor", more_tensors({"model.layers.0.self_attn.rotary_emb.inv_freq": (2,)})),
    "tensor of another shape": ("shape_mismatch", tensors(model_norm_weight=lambda array: array[:4].copy())),
    "tensor transposed": ("shape_mismatch", tensors(**{"0_mlp_up_proj_weight": lambda array: array.T.copy()})),
    "integers": ("quantized", tensors(model_norm_weight=lambda array: array.astype(np.int8))),
    "doubles": ("dtype_not_allowed", tensors(model_norm_weight=lambda array: array.astype(np.float64))),
    "not a number": ("non_finite", tensors(model_norm_weight=with_nan)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_may_not_enter_is_refused_before_any_loader_sees_it(
    make: ModuleType, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1, H2, H5, H8, H10, H17, H19, H20 by their names."""

    def never(folder: Path, **_: object) -> Probe:
        raise AssertionError("the probe was started")

    monkeypatch.setattr(judging, "probe", never)
    code, change = REFUSED[case]
    folder = make.write_checkpoint(tmp_path / "model")
    change(make, folder)
    with pytest.raises(AffineError) as error:
        enter(make, folder)
    assert (error.value.code, error.value.reason.fault) == (code, Fault.MODEL)


class CountingHub:
    """A hub that remembers what was asked of it, and can cut what it reads."""

    def __init__(self, hub: LocalHub, cut: int | None = None) -> None:
        self.hub, self.cut, self.downloads, self.read_bytes = hub, cut, 0, 0

    def files(self, repo: str, revision: str) -> Sequence[HubFile]:
        return self.hub.files(repo, revision)

    def read(self, repo: str, revision: str, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        content = self.hub.read(repo, revision, name, start=start, length=length)
        if self.cut is not None and name.endswith(".safetensors"):
            content = content[: self.cut]
        self.read_bytes += len(content)
        return content

    def folder(self, repo: str, revision: str, names: Sequence[str]) -> Path:
        self.downloads += 1
        return self.hub.folder(repo, revision, names)


def test_what_headers_tell_is_refused_before_a_download(make: ModuleType, tmp_path: Path) -> None:
    """H2: short by its size alone."""
    folder = make.write_checkpoint(tmp_path / "model", shards=2)
    shard = folder / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4])
    local = LocalHub(tmp_path / "hub")
    hub = CountingHub(local)
    with pytest.raises(AffineError) as error:
        judge(hub, SETTINGS, "owner/model", local.publish("owner/model", folder), set())
    assert error.value.code == "size_mismatch"
    assert hub.downloads == 0


def test_a_hub_that_cuts_a_header_is_at_fault_itself(make: ModuleType, tmp_path: Path) -> None:
    """H7."""
    local = LocalHub(tmp_path / "hub")
    revision = local.publish("owner/model", make.write_checkpoint(tmp_path / "model"))
    with pytest.raises(AffineError) as error:
        judge(CountingHub(local, cut=1000), SETTINGS, "owner/model", revision, set())
    assert (error.value.code, error.value.reason.fault) == ("hub_unavailable", Fault.HUB)


def test_a_repository_that_was_closed_after_a_fetch_is_closed_for_admission(make: ModuleType, tmp_path: Path) -> None:
    """What the hub keeps serves those who load it again; who commits a closed repository is still told that it is closed."""
    hub, folder = LocalHub(tmp_path / "hub"), make.write_checkpoint(tmp_path / "model")
    revision = hub.publish("owner/model", folder)
    hub.folder("owner/model", revision, [file.name for file in hub.files("owner/model", revision)])
    hub.publish_at("owner/model", folder, Access(gated=True))
    with pytest.raises(AffineError) as error:
        judge(hub, SETTINGS, "owner/model", revision, texts(make))
    assert error.value.code == "gated"


def test_too_many_bytes_are_refused_by_the_list_of_files_alone(make: ModuleType, tmp_path: Path) -> None:
    local = LocalHub(tmp_path / "hub")
    hub = CountingHub(local)
    revision = local.publish("owner/model", make.write_checkpoint(tmp_path / "model"))
    with pytest.raises(AffineError) as error:
        judge(hub, AdmissionSettings(max_model_bytes=1000), "owner/model", revision, set())
    assert (error.value.code, hub.read_bytes) == ("too_large", 0)


def test_a_sound_model_is_admitted_with_what_identity_says(make: ModuleType, tmp_path: Path) -> None:
    folder = make.write_checkpoint(tmp_path / "model")
    (folder / "README.md").write_text("not loaded")
    found, known = enter(make, folder), identity(folder)
    assert (found.template_hash, found.tokenizer_signature, found.parameters, found.architecture) == (
        known.template_hash, known.tokenizer_signature, known.parameters, known.architecture,
    )
    assert [entry.name for entry in found.files] == [
        "chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]
    assert found.weights_bytes == (folder / "model.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("architecture", "fields", "more"),
    [
        ("MistralForCausalLM", {"model_type": "mistral"}, {}),
        ("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True}, {"q": 8, "k": 4, "v": 4, "o": 8, "gate": 12, "up": 12, "down": 8}),
        ("Qwen2ForCausalLM", {"model_type": "qwen2"}, {"q": 8, "k": 4, "v": 4}),
        ("Qwen3ForCausalLM", {"model_type": "qwen3", "head_dim": 4}, {"q_norm": 4, "k_norm": 4}),
    ],
)
def test_each_allowed_architecture_needs_exactly_its_tensors(
    make: ModuleType, tmp_path: Path, architecture: str, fields: dict[str, object], more: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "probe", lambda folder, **_: found(make))
    names = {}
    for layer in range(2):
        for name, size in more.items():
            block = "mlp" if name in {"gate", "up", "down"} else "self_attn"
            tail = f"{name}.weight" if name.endswith("norm") else f"{name}_proj.bias"
            names[f"model.layers.{layer}.{block}.{tail}"] = (size,)
    folder = make.write_checkpoint(tmp_path / "model", config={**make.CONFIG, "architectures": [architecture], **fields})
    more_tensors(names)(make, folder)
    assert enter(make, folder).architecture == architecture


def test_tied_models_with_and_without_a_stored_head_are_the_same_size(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10."""
    monkeypatch.setattr(judging, "probe", lambda folder, **_: found(make))
    folder = make.write_checkpoint(tmp_path / "model")
    bare = enter(make, folder)
    made = make.llama_tensors()
    make.write_weights(folder, {**made, HEAD: made[EMBEDDING]})
    assert enter(make, folder).parameters == bare.parameters


def test_ids_beyond_the_embedding_are_refused(make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H26: the largest id equals the number of rows."""
    monkeypatch.setattr(judging, "probe", lambda folder, **_: found(make, make.VOCABULARY))
    with pytest.raises(AffineError) as error:
        enter(make, make.write_checkpoint(tmp_path / "model"))
    assert error.value.code == "token_beyond_embedding"


def test_a_template_that_knows_the_answers_is_refused(make: ModuleType, tmp_path: Path) -> None:
    """H16: it renders like any other, but is no base model's."""
    solver = make.TEMPLATE + "{% if '24' in messages[-1].content %}4 * 6{% endif %}"
    folder = make.write_checkpoint(tmp_path / "model", template=solver)
    with pytest.raises(AffineError) as error:
        enter(make, folder)
    assert error.value.code == "template_not_allowed"
    assert enter(make, folder, AdmissionSettings(templates="any")).template_hash == template_hash(solver)


@pytest.mark.parametrize("part", ["normalizer", "decoder"])
def test_a_tokenizer_that_knows_the_answers_is_refused(make: ModuleType, tmp_path: Path, part: str) -> None:
    """H16 by another door: rules that replace a question by its answer before the model sees it, or a word by another after."""
    folder = make.write_checkpoint(tmp_path / "model")
    plain = json.loads(make.tokenizer_json())
    rules = [{"type": "Replace", "pattern": {"String": f"{a} + {b}"}, "content": str(a + b)} for a in range(10) for b in range(10)]
    (folder / "tokenizer.json").write_text(json.dumps(plain | {part: {"type": "Sequence", f"{part}s": rules}}))
    with pytest.raises(AffineError) as error:
        enter(make, folder)
    assert (error.value.code, error.value.reason.fault) == ("tokenizer_not_allowed", Fault.MODEL)
    assert enter(make, folder, AdmissionSettings(tokenizers="any")).architecture == "LlamaForCausalLM"


def test_a_tokenizer_may_have_more_tokens_than_a_base_models(make: ModuleType, tmp_path: Path) -> None:
    """Tokens only cut text into pieces; what a piece means is in the weights."""
    config = {**make.CONFIG, "vocab_size": make.VOCABULARY + 4}
    assert enter(make, make.write_checkpoint(tmp_path / "model", config=config, words=make.VOCABULARY + 4)).parameters > 0
