"""From a user's message to token ids and back: our sandboxed template, the tokenizer alone, and no turn that text can fake.

A *control token* is an added token that is special, or that the template itself prints. Text of a prompt that spells one is
encoded as plain text, in pieces; so no message can end its own turn or open another. In a completion special tokens are left
out of the text, and a control token spelled letter by letter is text like any other. What must not go in: running a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from affine_dagster.checkpoint.template import effective_template, render, special_tokens
from affine_dagster.checkpoint.tokenizer import load_tokenizer, max_token_id
from affine_dagster.reasons import AffineError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Prompts"]

_MARK = "\ue000\ue001\ue002"
"""Stands for the message when the frame around it is looked for: private-use characters, in no template."""


class Prompts:
    """The text side of one model folder."""

    def __init__(self, folder: Path) -> None:
        self._template = effective_template(folder)
        self._tokens: Mapping[str, str] = special_tokens(folder)
        self._tokenizer: Tokenizer = load_tokenizer(folder)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.max_token_id = max_token_id(self._tokenizer)
        self._added = self._tokenizer.get_added_tokens_decoder()
        marked = self._render(("user", _MARK))
        before, *after = marked.split(_MARK)
        self._frame = (before, after[0]) if len(after) == 1 else None
        printed = self._plain(marked)
        self._control = frozenset(token for token, added in self._added.items() if added.special or token in printed)
        self._framed_controls = sum(token in self._control for token in printed)

    def _render(self, *turns: tuple[str, str], prompted: bool = True) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        return render(self._template, messages, tokens=self._tokens, add_generation_prompt=prompted)

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode(self, message: str) -> list[int]:
        """The prompt of one user message. Raises AffineError ``template_unrenderable``."""
        tokens = self._plain(self._render(("user", message)))
        if not tokens:
            raise AffineError("template_unrenderable", "the prompt is empty")
        if sum(token in self._control for token in tokens) == self._framed_controls:
            return tokens
        if self._frame is None:
            raise AffineError("template_unrenderable", "the template does not print the message once, as it is")
        return self._plain(self._frame[0]) + self._harmless(message) + self._plain(self._frame[1])

    def _harmless(self, text: str) -> list[int]:
        """The ids of a text, with what spells a control token broken in two, and none left."""
        spelled = [added.content for token, added in self._added.items() if token in self._control and len(added.content) > 1]
        place = min((text.find(content) for content in spelled if content in text), default=None)
        if place is None:
            return [token for token in self._plain(text) if token not in self._control]
        return self._harmless(text[: place + 1]) + self._harmless(text[place + 1 :])

    def decode(self, tokens: list[int]) -> str:
        """The text of a completion, special tokens left out."""
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def stop_ids(self, config: Mapping[str, object]) -> frozenset[int]:
        """The union of the tokenizer's end of sequence, those of ``config.json`` and the token that ends the template's turn (case V4)."""
        named = config.get("eos_token_id")
        listed = named if isinstance(named, list) else [named]
        found = {token for token in listed if isinstance(token, int) and not isinstance(token, bool)}
        own = self._tokenizer.token_to_id(self._tokens.get("eos_token", ""))
        return frozenset(token for token in (*found, own, self._end_of_turn()) if token is not None and token >= 0)

    def _end_of_turn(self) -> int | None:
        """The first control token that the template prints behind an assistant's message; None if it prints no such turn."""
        try:
            rendered = self._render(("user", "1"), ("assistant", _MARK), prompted=False)
        except AffineError:
            return None  # a template for single questions: the other stop tokens remain
        _, mark, after = rendered.rpartition(_MARK)
        return next((token for token in self._plain(after) if token in self._control), None) if mark else None
