"""One submission judged from cheap to dear: names and sizes, headers by ranged reads, then the bytes, tokenizer and template.

What must not go in: rows, epochs and deferrals (``batch.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from affine_dagster.admission.architecture import Architecture, check_tensors, check_tie, expected_tensors, parse_config, refuse_remote_code
from affine_dagster.admission.files import CONFIG, TOKENIZER_CONFIG, check_files
from affine_dagster.admission.probe import probe
from affine_dagster.checkpoint.digests import FileFacts, TensorFacts, file_blake3, folder_headers, scan_file, untied
from affine_dagster.checkpoint.headers import Header, read_header
from affine_dagster.checkpoint.json_files import MAX_JSON_BYTES, parse_object
from affine_dagster.checkpoint.layout import INDEX, Layout, check_agreement, layout_of
from affine_dagster.hub.port import Hub, HubFile
from affine_dagster.reasons import AffineError
from affine_dagster.settings import AdmissionSettings

__all__ = ["Admitted", "ManifestFile", "judge", "manifest_digest"]

_HEADER_ROOM = 2**20
_HEADER_BYTES_A_TENSOR = 1024
"""A parsed header takes up to some twenty times its bytes, so it may be no longer than its architecture's tensors explain."""


@dataclass(frozen=True)
class ManifestFile:
    """A file that is loaded: size in bytes and BLAKE3 of its content, 64 hex digits."""

    name: str
    bytes: int
    blake3: str


@dataclass(frozen=True)
class Admitted:
    """What is known of a model that may enter. ``weights_bytes``: sum of the weights files; ``parameters`` without a tied head."""

    manifest_digest: str
    weights_bytes: int
    files: tuple[ManifestFile, ...]
    architecture: str
    parameters: int
    template_hash: str
    tokenizer_signature: str


def manifest_digest(files: Sequence[ManifestFile]) -> str:
    """BLAKE3 over the sorted lines (name, bytes, blake3), 64 hex digits."""
    lines = sorted(f"{file.name}|{file.bytes}|{file.blake3}" for file in files)
    return str(blake3("\n".join(lines).encode()).hexdigest())


def judge(hub: Hub, settings: AdmissionSettings, repo: str, revision: str, genesis_texts: AbstractSet[str]) -> Admitted:
    """Judge a revision.

    ``genesis_texts``: hashes of the genesis models' templates and of what their tokenizers rewrite, used when
    ``settings.templates`` or ``settings.tokenizers`` is "genesis". Raises AffineError with the reason why it may not enter or
    could not be judged.
    """
    files = hub.files(repo, revision)
    names = check_files(files, settings)
    remote = _Remote(hub, repo, revision, {file.name: file for file in files})
    architecture = parse_config(remote.object(CONFIG, "missing_config"), settings.architectures)
    refuse_remote_code(remote.object(TOKENIZER_CONFIG, "tokenizer_unreadable"), TOKENIZER_CONFIG)
    layout = layout_of(remote.files, remote.whole(INDEX) if INDEX in names else None)
    limit = min(settings.max_header_bytes, _HEADER_ROOM + _HEADER_BYTES_A_TENSOR * len(expected_tensors(architecture)))
    headers = {name: remote.header(name, limit) for name in layout.files}
    check_agreement(layout, headers)
    check_tensors(architecture, [tensor for name in layout.files for tensor in headers[name].tensors])
    folder = hub.folder(repo, revision, names)
    weights = _read_weights(folder, layout, headers, limit)
    tensors = [tensor for file in weights for tensor in file.tensors]
    _check_values(architecture, tensors)
    found = probe(folder, seconds=settings.probe_seconds, memory_bytes=settings.probe_memory_bytes)
    if found.max_token_id >= architecture.vocabulary:
        raise AffineError("token_beyond_embedding", f"largest id {found.max_token_id}, the embedding has {architecture.vocabulary} rows")
    if settings.templates == "genesis" and found.template_hash not in genesis_texts:
        raise AffineError("template_not_allowed", f"template {found.template_hash[:16]}")
    if settings.tokenizers == "genesis" and found.tokenizer_rewriting not in genesis_texts:
        raise AffineError("tokenizer_not_allowed", f"normalizer, pre_tokenizer and decoder {found.tokenizer_rewriting[:16]}")
    manifest = _manifest(folder, names, weights)
    return Admitted(
        manifest_digest=manifest_digest(manifest),
        weights_bytes=sum(file.size for file in weights),
        files=manifest,
        architecture=architecture.name,
        parameters=sum(tensor.elements for tensor in untied(tensors)),
        template_hash=found.template_hash,
        tokenizer_signature=found.tokenizer_signature,
    )


@dataclass(frozen=True)
class _Remote:
    """A revision read by ranges."""

    hub: Hub
    repo: str
    revision: str
    files: dict[str, HubFile]

    def whole(self, name: str) -> bytes:
        return self.hub.read(self.repo, self.revision, name)

    def object(self, name: str, code: str) -> dict[str, object]:
        if self.files[name].size > MAX_JSON_BYTES:
            raise AffineError(code, f"{name} has more than {MAX_JSON_BYTES} bytes")
        return dict(parse_object(self.whole(name), code, name))

    def header(self, name: str, max_header_bytes: int) -> Header:
        """The header; a miner is only blamed when two reads on different paths agree that it is bad (case H7)."""
        size = self.files[name].size

        def in_pieces(start: int, length: int) -> bytes:
            return self.hub.read(self.repo, self.revision, name, start=start, length=length)

        try:
            return read_header(in_pieces, size, name, max_header_bytes=max_header_bytes)
        except AffineError as error:
            if error.code not in {"bad_header", "duplicate_tensor"}:
                raise
            length = int.from_bytes(in_pieces(0, 8), "little")
            head = self.hub.read(self.repo, self.revision, name, start=0, length=8 + min(length, max_header_bytes))
            if len(head) < min(size, 64):
                raise AffineError("hub_unavailable", f"{name}: two reads of its header differ") from error
            return read_header(lambda start, length: head[start : start + length], size, name, max_header_bytes=max_header_bytes)


def _read_weights(folder: Path, layout: Layout, headers: dict[str, Header], limit: int) -> list[FileFacts]:
    local = folder_headers(folder, layout, max_header_bytes=limit)
    if local != headers:
        raise AffineError("hub_unavailable", "the downloaded weights have other headers than the ranged reads showed")
    return [scan_file(folder / name, local[name]) for name in layout.files]


def _check_values(architecture: Architecture, tensors: Sequence[TensorFacts]) -> None:
    bad = [tensor.name for tensor in tensors if not tensor.finite]
    if bad:
        raise AffineError("non_finite", f"{len(bad)} tensors: {', '.join(bad[:5])}")
    check_tie(architecture, tensors)


def _manifest(folder: Path, names: Sequence[str], weights: Sequence[FileFacts]) -> tuple[ManifestFile, ...]:
    known = {file.name: ManifestFile(file.name, file.size, file.blake3) for file in weights}
    rest = (name for name in names if name not in known)
    known.update({name: ManifestFile(name, (folder / name).stat().st_size, file_blake3(folder / name)) for name in rest})
    return tuple(known[name] for name in sorted(known))
