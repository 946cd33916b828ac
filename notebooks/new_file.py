"""A file that is written beside its place and then takes it at once, whole, as the program's are
(formats/io/new_file.hpp): in a folder that nobody else enters, and that is removed when its process
was killed."""

import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".tessera-new-"
DRAWN = 6  # letters behind the prefix
SETTLED = 60  # seconds from making a folder to surely locking it


def lock(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None where another process holds it."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def remove_stale(parent: Path) -> None:
    """Removes what killed processes of this user left."""
    for folder in parent.glob(PREFIX + "?" * DRAWN):
        about = folder.lstat()
        if (about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) != 0o700
                or not stat.S_ISDIR(about.st_mode) or time.time() - about.st_mtime < SETTLED):
            continue
        held = lock(folder)
        if held is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """The name under which to write the new content of a file, which takes its place at the end of
    the block; nothing is left of it when the block raises."""
    remove_stale(path.parent)
    folder = path.with_name(PREFIX + secrets.token_hex(DRAWN // 2))
    folder.mkdir(mode=0o700)
    held = lock(folder)
    try:
        yield folder / path.name
        os.replace(folder / path.name, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)
