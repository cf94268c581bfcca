"""A hub in one folder: ``<root>/<owner>/<name>/<revision>/…``, immutable once published.

Safe under several processes and ``kill -9`` without a lock: whatever is made is made in ``.staging`` under a name of its own
and renamed into place whole; who comes second finds the same content there and drops its own. (A lock file held by a dead
process is how two fetchers came to wait for ever, case H25.) What a killed process leaves in ``.staging`` is never read.

What must not go in: judgement of what is in a repository (``admission/``).
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from affine_dagster.hub.names import check_file_name, check_repo, check_revision
from affine_dagster.hub.port import HubFile
from affine_dagster.reasons import AffineError

__all__ = ["Access", "LocalHub"]

_CHUNK = 8 * 2**20
_READ_ONLY = 0o444
_OUT_OF_REACH = frozenset({"not_found", "gated", "hub_unavailable"})


@dataclass(frozen=True)
class Access:
    """Who sees a revision. ``hidden_until``: tick of the hub's clock before which it is not found (None: never hidden)."""

    gated: bool = False
    hidden_until: int | None = None


def _never() -> int:
    return 0


class LocalHub:
    """The port ``Hub`` over a folder, and the miner's side of it: publishing.

    ``cache`` is where :meth:`folder` puts what it gives out (None: ``<root>/.cache``); ``clock`` gives the tick that
    ``hidden_until`` is compared with.
    """

    def __init__(self, root: Path, cache: Path | None = None, clock: Callable[[], int] = _never) -> None:
        self.root = root
        self.cache = root / ".cache" if cache is None else cache
        self.clock = clock

    # the miner's side

    def publish(self, repo: str, folder: Path, parent: str | None = None) -> str:
        """Publish a folder as a revision and return its 40 hex digits: a digest of all names, contents and the parent.

        The same folder with the same parent gives the same revision, however often and by whomever it is published.
        Raises ``invalid_repo``, and ``file_not_allowed`` for a link or another thing that is not a file.
        """
        return self.publish_at(repo, folder, Access(), parent)

    def publish_at(self, repo: str, folder: Path, access: Access, parent: str | None = None) -> str:
        """As :meth:`publish`, seen as ``access`` says from the first moment on. Publishing again changes only the access."""
        home = self._home(repo)
        with _Staging(self.root / ".staging") as staged:
            content = staged / "content"
            revision = _revision(_copy_tree(folder, content), parent)
            home.mkdir(parents=True, exist_ok=True)
            note = staged / "access.json"
            note.write_text(json.dumps({"gated": access.gated, "hidden_until": access.hidden_until}), encoding="utf-8")
            note.replace(home / f"{revision}.access.json")
            _place(content, home / revision)
        return revision

    # the port

    def files(self, repo: str, revision: str) -> Sequence[HubFile]:
        """See ``Hub.files``. Raises ``not_found``, ``gated``, ``invalid_repo``, ``file_not_allowed``, ``hub_unavailable``."""
        try:
            return _listing(self._open(repo, revision))
        except AffineError as error:
            fetched = self._fetched(repo, revision) if error.code in _OUT_OF_REACH else []
            if not fetched:
                raise
            return fetched

    def read(self, repo: str, revision: str, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See ``Hub.read``. Raises ``not_found``, ``gated``, ``invalid_repo``, ``file_not_allowed``, ``hub_unavailable``."""
        path = _member(self._open(repo, revision), name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                file.seek(start)
                return file.read() if length is None else file.read(length)
        except OSError as error:
            raise AffineError("hub_unavailable", f"{repo}@{revision} {name}: {error.strerror}") from error

    def folder(self, repo: str, revision: str, names: Sequence[str]) -> Path:
        """See ``Hub.folder``: hard links where the file system has them, else copies. Raises as :meth:`read`.

        What was fetched once stays, even where the repository was closed or removed since: who withdraws a model that others are
        compared with could else stop every contest and every assay against it.
        """
        check_repo(repo)
        wanted = sorted({check_file_name(name) for name in names})
        target = self.cache / repo / f"{check_revision(revision)}-{blake3(chr(0).join(wanted).encode()).hexdigest()[:16]}"
        if target.is_dir():
            return target
        source = self._open(repo, revision)
        paths = {name: _member(source, name) for name in wanted}
        try:
            with _Staging(self.cache / ".staging") as staged:
                content = staged / "content"
                content.mkdir()
                for name, path in paths.items():
                    (content / name).parent.mkdir(parents=True, exist_ok=True)
                    _link(path, content / name)
                target.parent.mkdir(parents=True, exist_ok=True)
                _place(content, target)
        except OSError as error:
            raise AffineError("hub_unavailable", f"{repo}@{revision}: {error.strerror}") from error
        return target

    def _fetched(self, repo: str, revision: str) -> list[HubFile]:
        """The files of all folders that were given out of a revision, sorted by name."""
        folders = sorted((self.cache / repo).glob(f"{check_revision(revision)}-*"))
        files = {file.name: file for folder in folders for file in _listing(folder)}
        return [files[name] for name in sorted(files)]

    def _home(self, repo: str) -> Path:
        owner, name = check_repo(repo)
        return self.root / owner / name

    def _open(self, repo: str, revision: str) -> Path:
        home = self._home(repo)
        folder = home / check_revision(revision)
        if not folder.is_dir():
            raise AffineError("not_found", f"{repo}@{revision}")
        try:
            access = Access(**json.loads((home / f"{revision}.access.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise AffineError("hub_unavailable", f"{repo}@{revision}: its access note cannot be read: {error}") from error
        if access.hidden_until is not None and self.clock() < access.hidden_until:
            raise AffineError("not_found", f"{repo}@{revision}")
        if access.gated:
            raise AffineError("gated", f"{repo}@{revision}")
        return folder


class _Staging:
    """A folder of one's own beside the place where its content will be renamed to; removed at the end."""

    def __init__(self, root: Path) -> None:
        self._path = root / f"{os.getpid()}-{secrets.token_hex(8)}"

    def __enter__(self) -> Path:
        self._path.mkdir(parents=True)
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path)


def _place(content: Path, target: Path) -> None:
    """Rename a folder into place; if the place is taken, by the same content of another process, leave that there."""
    try:
        content.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def _listing(folder: Path) -> list[HubFile]:
    found: list[HubFile] = []
    for parent, folders, names in os.walk(folder):
        for entry in (*folders, *names):
            path = Path(parent) / entry
            name = check_file_name(path.relative_to(folder).as_posix())
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise AffineError("file_not_allowed", f"{name} is a link or no plain file")
            if path.is_file():
                found.append(HubFile(name, path.stat().st_size))
    return sorted(found, key=lambda file: file.name)


def _member(folder: Path, name: str) -> Path:
    path = folder / check_file_name(name)
    if path.resolve() != folder.resolve() / name:
        raise AffineError("file_not_allowed", f"{name} goes through a link")
    if not path.is_file():
        raise AffineError("not_found", f"no file {name}")
    return path


def _copy_tree(source: Path, target: Path) -> list[tuple[str, str]]:
    """Copy all files, read-only, and return (name, BLAKE3 of the bytes that were written), sorted by name."""
    target.mkdir()
    digests: list[tuple[str, str]] = []
    for file in _listing(source):
        copied = target / file.name
        copied.parent.mkdir(parents=True, exist_ok=True)
        hasher = blake3()
        with (source / file.name).open("rb") as reader, copied.open("xb") as writer:
            while chunk := reader.read(_CHUNK):
                hasher.update(chunk)
                writer.write(chunk)
        copied.chmod(_READ_ONLY)
        digests.append((file.name, hasher.hexdigest()))
    return digests


def _revision(digests: Sequence[tuple[str, str]], parent: str | None) -> str:
    text = json.dumps([parent and check_revision(parent), digests])
    return blake3(text.encode()).hexdigest()[:40]


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP}:
            raise
        shutil.copyfile(source, target)
