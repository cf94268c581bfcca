"""The laws of the hub in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.hub.local import Access, LocalHub
from affine_dagster.hub.names import check_file_name
from affine_dagster.reasons import AffineError

REPO = "owner/model"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "weights.bin").write_bytes(bytes(range(100)))
    return folder


@pytest.fixture
def hub(tmp_path: Path) -> LocalHub:
    return LocalHub(tmp_path / "hub")


def code(error: pytest.ExceptionInfo[AffineError]) -> str:
    return error.value.code


def test_a_revision_has_forty_hex_digits_and_names_its_files_with_sizes(hub: LocalHub, source: Path) -> None:
    revision = hub.publish(REPO, source)
    assert len(bytes.fromhex(revision)) == 20
    assert [(file.name, file.size) for file in hub.files(REPO, revision)] == [("config.json", 2), ("sub/weights.bin", 100)]


def test_publishing_the_same_folder_again_gives_the_same_revision(hub: LocalHub, source: Path) -> None:
    assert hub.publish(REPO, source) == hub.publish(REPO, source)


def test_another_content_name_or_parent_gives_another_revision(hub: LocalHub, source: Path) -> None:
    first = hub.publish(REPO, source)
    child = hub.publish(REPO, source, parent=first)
    (source / "config.json").rename(source / "other.json")
    renamed = hub.publish(REPO, source)
    (source / "other.json").write_text("[]")
    assert len({first, child, renamed, hub.publish(REPO, source)}) == 4


def test_a_revision_does_not_change_when_its_source_does(hub: LocalHub, source: Path) -> None:
    revision = hub.publish(REPO, source)
    (source / "config.json").write_text("changed")
    assert hub.read(REPO, revision, "config.json") == b"{}"


def test_published_files_are_read_only(hub: LocalHub, source: Path) -> None:
    revision = hub.publish(REPO, source)
    assert (hub.root / REPO / revision / "config.json").stat().st_mode & 0o222 == 0


def test_a_range_is_read_without_the_rest(hub: LocalHub, source: Path) -> None:
    revision = hub.publish(REPO, source)
    assert hub.read(REPO, revision, "sub/weights.bin", start=10, length=5) == bytes(range(10, 15))
    assert hub.read(REPO, revision, "sub/weights.bin", start=95) == bytes(range(95, 100))


def test_a_folder_holds_exactly_the_named_files(hub: LocalHub, source: Path) -> None:
    revision = hub.publish(REPO, source)
    folder = hub.folder(REPO, revision, ["sub/weights.bin"])
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()] == ["sub/weights.bin"]
    assert hub.folder(REPO, revision, ["sub/weights.bin"]) == folder
    assert hub.folder(REPO, revision, ["config.json"]) != folder


def test_an_unknown_revision_repository_or_file_is_not_found(hub: LocalHub, source: Path) -> None:
    revision = hub.publish(REPO, source)
    for repo, known, name in ((REPO, "0" * 40, "config.json"), ("owner/none", revision, "config.json"), (REPO, revision, "none")):
        with pytest.raises(AffineError) as error:
            hub.read(repo, known, name)
        assert code(error) == "not_found"


def test_a_gated_revision_is_known_but_closed(hub: LocalHub, source: Path) -> None:
    revision = hub.publish_at(REPO, source, Access(gated=True))
    with pytest.raises(AffineError) as error:
        hub.files(REPO, revision)
    assert code(error) == "gated"


@pytest.mark.parametrize("how", ["gated", "removed"])
def test_what_was_fetched_stays_when_its_owner_withdraws_it(hub: LocalHub, source: Path, how: str) -> None:
    """An incumbent's owner must not stop every contest against it by closing the repository."""
    revision = hub.publish(REPO, source)
    fetched = hub.folder(REPO, revision, ["config.json"])
    if how == "gated":
        hub.publish_at(REPO, source, Access(gated=True))
    else:
        (hub.root / REPO / revision).rename(hub.root.parent / "gone")
    assert hub.folder(REPO, revision, ["config.json"]) == fetched
    assert (fetched / "config.json").read_text() == "{}"
    with pytest.raises(AffineError):
        hub.folder(REPO, revision, ["sub/weights.bin"])


@pytest.mark.parametrize("how", ["gated", "removed", "unreadable"])
def test_what_was_fetched_is_still_listed_when_the_repository_is_out_of_reach(hub: LocalHub, source: Path, how: str) -> None:
    """Who asks for the list first and for the folder then, as for a genesis model, is served from what is here."""
    revision = hub.publish(REPO, source)
    hub.folder(REPO, revision, ["config.json"])
    if how == "gated":
        hub.publish_at(REPO, source, Access(gated=True))
    elif how == "removed":
        (hub.root / REPO / revision).rename(hub.root.parent / "gone")
    else:
        (hub.root / REPO / f"{revision}.access.json").write_text("")
    assert [(file.name, file.size) for file in hub.files(REPO, revision)] == [("config.json", 2)]
    with pytest.raises(AffineError):
        hub.read(REPO, revision, "config.json")
    with pytest.raises(AffineError):
        hub.files(REPO, "0" * 40)


def test_a_hidden_revision_is_found_from_its_tick_on(tmp_path: Path, source: Path) -> None:
    """H22: 404, then 200 some time later."""
    tick = 4
    hub = LocalHub(tmp_path / "hub", clock=lambda: tick)
    revision = hub.publish_at(REPO, source, Access(hidden_until=5))
    with pytest.raises(AffineError) as error:
        hub.folder(REPO, revision, ["config.json"])
    assert code(error) == "not_found"
    tick = 5
    assert hub.files(REPO, revision)


@pytest.mark.parametrize("repo", ["../x", "a/../b", "a", "a/b/c", "/a/b", "a/.", "a/.hidden", "a b/c", "a/b\n", "", "ä/b", "a/b..c"])
def test_a_repository_name_cannot_leave_the_hub(hub: LocalHub, source: Path, repo: str) -> None:
    with pytest.raises(AffineError) as error:
        hub.publish(repo, source)
    assert code(error) == "invalid_repo"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../b", "a//b", "./a", "a\\b", "a\x00b", "", "a/", "x" * 256])
def test_a_file_name_cannot_leave_its_revision(hub: LocalHub, source: Path, name: str) -> None:
    revision = hub.publish(REPO, source)
    for call in (lambda: hub.read(REPO, revision, name), lambda: hub.folder(REPO, revision, [name])):
        with pytest.raises(AffineError) as error:
            call()
        assert code(error) == "file_not_allowed"


@given(st.text(max_size=40))
def test_a_name_that_passes_stays_below_any_folder(name: str) -> None:
    try:
        check_file_name(name)
    except AffineError:
        return
    joined = os.path.normpath(Path("/root/folder") / name)
    assert joined.startswith("/root/folder/") and joined == f"/root/folder/{name}"


@pytest.mark.parametrize("target", ["/etc/passwd", "config.json", "nowhere"])
def test_a_link_is_not_published(hub: LocalHub, source: Path, target: str) -> None:
    (source / "link").symlink_to(target)
    with pytest.raises(AffineError) as error:
        hub.publish(REPO, source)
    assert code(error) == "file_not_allowed"


def test_a_linked_folder_in_a_revision_is_not_followed(hub: LocalHub, source: Path, tmp_path: Path) -> None:
    revision = hub.publish(REPO, source)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    (hub.root / REPO / revision / "door").symlink_to(tmp_path / "secret")
    with pytest.raises(AffineError) as error:
        hub.read(REPO, revision, "door/key")
    assert code(error) == "file_not_allowed"


PUBLISHER = """
    import sys
    from pathlib import Path
    from affine_dagster.hub.local import LocalHub
    hub = LocalHub(Path(sys.argv[1]))
    print("ready", flush=True)
    while True:
        revision = hub.publish("owner/model", Path(sys.argv[2]))
        hub.folder("owner/model", revision, [file.name for file in hub.files("owner/model", revision)])
        print(revision, flush=True)
"""


def test_processes_that_publish_one_folder_at_once_and_are_killed_leave_whole_revisions(tmp_path: Path, source: Path) -> None:
    """H25: a killed fetcher holds up nobody, and nothing half-made is ever seen."""
    (source / "large").write_bytes(os.urandom(2_000_000))
    command = [sys.executable, "-c", textwrap.dedent(PUBLISHER), str(tmp_path / "hub"), str(source)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = []
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        said.append(child.stdout.readline().strip())
    for child in children:
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    hub = LocalHub(tmp_path / "hub")
    revision = hub.publish(REPO, source)
    assert said == [revision, revision]
    names = [file.name for file in hub.files(REPO, revision)]
    folder = hub.folder(REPO, revision, names)
    assert all((folder / name).read_bytes() == (source / name).read_bytes() for name in names)
