"""Files that are there as a whole or not at all."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oddarms.errors import InvalidParameter
from oddarms.files import digest_of_package, writable_folder, write_whole


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask_of(umask: int) -> Iterator[None]:
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


class TestWriteWhole:
    @pytest.mark.parametrize(
        ("content", "data"), [("ä\n", b"\xc3\xa4\n"), (b"\x00\xff", b"\x00\xff")]
    )
    def test_text_and_bytes(self, tmp_path: Path, content: str | bytes, data: bytes) -> None:
        path = write_whole(tmp_path / "file", content)
        assert path == tmp_path / "file"
        assert path.read_bytes() == data
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("umask", [0o002, 0o077])
    def test_a_new_file_may_be_read_by_whom_the_umask_allows(
        self, tmp_path: Path, umask: int
    ) -> None:
        with umask_of(umask):
            path = write_whole(str(tmp_path / "file"), "text")
        assert mode_of(path) == 0o666 & ~umask

    @pytest.mark.parametrize(("mode", "umask"), [(0o600, 0o002), (0o664, 0o077), (0o444, 0o022)])
    def test_a_file_that_is_replaced_keeps_its_mode(
        self, tmp_path: Path, umask: int, mode: int
    ) -> None:
        path = tmp_path / "file"
        path.write_text("old")
        path.chmod(mode)
        with umask_of(umask):
            write_whole(path, "new")
        assert (path.read_text(), mode_of(path)) == ("new", mode)

    def test_a_file_that_was_a_private_one_is_never_open_to_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file"
        path.write_text("old")
        path.chmod(0o600)
        seen: list[int] = []
        fsync = os.fsync

        def looked_at(number: int) -> None:
            seen.append(stat.S_IMODE(os.fstat(number).st_mode))
            fsync(number)

        monkeypatch.setattr(os, "fsync", looked_at)
        write_whole(path, "new")
        assert seen == [0o600]

    def test_a_pipe_a_device_and_a_socket_stay_what_they_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)  # as the name of a socket is short
        os.mkfifo("pipe")
        reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            write_whole("pipe", "text")
            assert os.read(reader, 100) == b"text"
        finally:
            os.close(reader)
        Path("link").symlink_to(os.devnull)
        write_whole("link", "text")
        assert Path("link").is_symlink()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
            with pytest.raises(OSError, match="No such device"):
                write_whole("socket", "text")
        assert Path("pipe").is_fifo()
        assert Path("link").is_char_device()
        assert Path("socket").is_socket()

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidParameter, match=r"is a folder: name a file to write to\.$"):
            write_whole(tmp_path, "text")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_link_stays_and_what_it_leads_to_is_replaced(
        self, tmp_path: Path, exists: bool
    ) -> None:
        (tmp_path / "folder").mkdir()
        file, link = tmp_path / "folder" / "file", tmp_path / "link"
        if exists:
            file.write_text("old")
            file.chmod(0o640)
        link.symlink_to(file)
        with umask_of(0o022):
            assert write_whole(link, "new") == link
        assert link.is_symlink()
        assert (file.read_text(), mode_of(file)) == ("new", 0o640 if exists else 0o644)
        assert list(file.parent.iterdir()) == [file]

    def test_or_kept_if_writing_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_whole(tmp_path / "file", "old")

        def fail(number: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), number)

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            write_whole(tmp_path / "file", "new")
        assert (tmp_path / "file").read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 1

    def test_ctrl_c_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_whole(tmp_path / "file", "new")
        assert list(tmp_path.iterdir()) == []


class TestDigestOfPackage:
    def test_content_names_and_versions_count(self, tmp_path: Path) -> None:
        def digest(*versions: str) -> str:
            return digest_of_package(["*.py"], *versions, package=tmp_path)

        (tmp_path / "a.py").write_text("1")
        (tmp_path / "b.py").write_text("2")
        digests = [digest(), digest("1"), digest("2")]
        (tmp_path / "b.py").write_text("3")
        digests.append(digest())
        (tmp_path / "b.py").rename(tmp_path / "c.py")
        digests.append(digest())
        (tmp_path / "note.txt").write_text("4")
        assert digest() == digests[-1]
        assert len(set(digests)) == 5

    def test_a_file_that_was_moved_is_missed(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"has no file gone/\*\.py"):
            digest_of_package(["gone/*.py"], package=tmp_path)


class TestWritableFolder:
    def test_it_is_made(self, tmp_path: Path) -> None:
        with umask_of(0o077):
            folder = writable_folder("out", tmp_path / "new" / "newer")
        assert {mode_of(folder), mode_of(folder.parent)} == {0o700}
        assert list(folder.iterdir()) == []
        assert writable_folder("out", str(folder)) == folder

    @pytest.mark.parametrize("place", ["file", "file/folder", "/proc/folder"])
    def test_a_place_where_there_can_be_none(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(
            InvalidParameter, match=r"^out must be a writable folder; .* is not: "
        ) as caught:
            writable_folder("out", tmp_path / place)
        assert place in str(caught.value)

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("oddarms.files.tempfile.TemporaryFile", fail)
        with pytest.raises(InvalidParameter, match="No space left on device"):
            writable_folder("out", tmp_path)
