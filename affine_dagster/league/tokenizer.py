"""The league's tokenizer: single bytes, and the phrases that the environments' texts repeat.

Bytes alone would make a task of 40 words cost 200 tokens; a phrase that stands in nearly every text of a family is one token,
so that small models spend their steps on what varies. What must not go in: anything that knows a family by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

__all__ = ["CHAT_TEMPLATE", "END", "MARKERS", "build_tokenizer", "core_tokenizer", "phrases", "prompt_text"]

PAD, END, USER, ASSISTANT, SYSTEM = MARKERS = "<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Shared by all members."""

FIXED_SHARE = 0.97
"""A word in this share of a family's texts is boilerplate; neighbouring ones make one phrase."""

WORD_SHARE = 0.02
"""A word of two letters or more in this share of texts varies with the level ("ascending", "descending"): a token of its own."""

PUNCTUATION = (" + ", " - ", " * ", " =", ".0, ", '.0"', ".0", "['", "', '", "']", ", ", " and ")
"""What separates digits in arithmetic and in lists; digits themselves stay single bytes."""

_WORD = re.compile(r"\s*[^\W\d]+|\s*\d|\s*[^\w\s]")


def phrases(families: Iterable[Sequence[str]]) -> list[str]:
    """The phrases of some families of texts, sorted. One item of ``families`` holds the texts of one kind, prompts apart from answers."""
    found = {phrase for texts in families for phrase in _family_phrases(texts)}
    return [*PUNCTUATION, *sorted(found.difference(PUNCTUATION))]


def _family_phrases(texts: Sequence[str]) -> set[str]:
    split = [_WORD.findall(text) for text in texts]
    share = Counter(word for words in split for word in set(words))
    fixed = {word for word, count in share.items() if count >= FIXED_SHARE * len(texts)}
    varying = {word for word, count in share.items() if count >= WORD_SHARE * len(texts) and len(re.sub(r"[^a-z]", "", word)) >= 2}
    runs: Counter[str] = Counter()
    for words in split:
        runs.update(_runs(words, fixed, varying))
    return {run for run, count in runs.items() if count >= 0.01 * len(texts) and len(run) >= 3}


def _runs(words: Sequence[str], fixed: set[str], varying: set[str]) -> list[str]:
    found: list[str] = []
    run = ""
    for word in (*words, ""):
        if word in fixed:
            run += word
            continue
        found.append(run)
        run = ""
        if word in varying:
            found.append(word)
    return found


def core_tokenizer(extra: Sequence[str]) -> Tokenizer:
    """256 bytes, five markers and the phrases; what it encodes it decodes to the same text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={text: index for index, text in enumerate([*MARKERS, *alphabet])}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(MARKERS))
    core.add_tokens([AddedToken(phrase, normalized=False) for phrase in extra])
    return core


def build_tokenizer(extra: Sequence[str]) -> Any:
    """The same as a ``PreTrainedTokenizerFast`` with the chat template set."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core_tokenizer(extra), pad_token=PAD, eos_token=END, padding_side="left", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def prompt_text(prompt: str) -> str:
    """What the chat template renders for one user message with a generation prompt."""
    return f"{USER}{prompt}{END}{ASSISTANT}"
