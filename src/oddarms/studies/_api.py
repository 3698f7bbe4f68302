"""Create, load, list, verify and delete studies, wherever they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.problem import Label, Question, check_whole
from oddarms.randomness import Rng, seed_of
from oddarms.studies._base import Study
from oddarms.studies._database_storage import DatabaseStorage, tried_question
from oddarms.studies._storage import NoStorage, Storage, StudyList, check_name, server_address
from oddarms.studies._verify import Verification


def create_study(
    name: str,
    question: Question | Iterable[Label],
    *,
    rng: Rng = None,
    storage: str | Path | None = None,
    **words: Any,
) -> Study:
    """Create a study in a storage.

    Parameters
    ----------
    name
        A name that the storage does not have yet.
    question
        What is asked; or the arms' labels, texts or whole numbers, with the question's other words
        as keywords.
    rng
        Decides the algorithm's random choices, and is stored as a seed.
    storage
        A path or ``sqlite:///FILE``, ``postgresql://USER@HOST/NAME``, "memory", or a server,
        ``http://HOST:8321``, with the token in ODDARMS_TOKEN or in the file that
        ODDARMS_TOKEN_FILE names. By default the environment variable ODDARMS_STORAGE, else the
        file oddarms.db in the working directory.
    **words
        Of a `Question`, and options of the algorithm, which must be plain values. The budget is
        that of all workers together. It counts results, and tickets that are out; one that was
        given back or whose lease ran out counts no more, and its late result again, as long as
        there is room: beyond the budget results are kept in the log and not used.

    Examples
    --------
    >>> study = create_study("crowd", ["ann", "bob", "cy"], k=1, delta=0.1, storage="memory")
    >>> [ticket.arm for ticket in study.ask(4)]
    ['ann', 'ann', 'bob', 'bob']
    >>> delete_study("crowd", storage="memory")
    """
    check_name(name)
    seed = seed_of(rng)
    asked = tried_question(Question.of(question, words), seed)
    return open_storage(storage, create=True).create(name, asked, seed)


def load_study(name: str, *, storage: str | Path | None = None) -> Study:
    """Return a study of a storage, as it stands; where there is none, nothing is made."""
    check_name(name)
    try:
        return open_storage(storage).load(name)
    except NoStorage as error:
        raise UnknownStudy(f"name must be a study but got {name!r}: {error}") from None


def list_studies(
    *,
    storage: str | Path | None = None,
    search: str = "",
    most: int | None = None,
    skip: int = 0,
    newest: bool = False,
) -> StudyList:
    """Return the studies of a storage, by name; `total` of the list is how many there are.

    Parameters
    ----------
    storage
        As for `create_study`.
    search
        Only those with this text in their names, in capitals or not.
    most, skip
        At most so many, behind the first so many: a page of a long list.
    newest
        Whether those made last come first.
    """
    if most is not None:
        check_whole("most", most, least=1)
    check_whole("skip", skip, least=0)
    return open_storage(storage).list(search, most, skip, newest=newest)


def delete_study(name: str, *, storage: str | Path | None = None) -> None:
    """Delete a study with all its results, for good."""
    check_name(name)
    try:
        open_storage(storage).delete(name)
    except NoStorage as error:
        raise UnknownStudy(f"name must be a study but got {name!r}: {error}") from None


def verify(study: Study) -> Verification:
    """Replay the log from its first result and hold everything stored against it.

    Every result against the receipt at its ticket, every import against its digest, the log's
    chain against those of all revisions and of the saved state, the replay against the saved
    state, and the rules of the tables. States are compared up to rounding, as another machine may
    have saved them.

    Takes time in proportion to the results; others may go on working. Of results recorded at this
    moment some may be seen and others with lower numbers not, but none that a saved state has.
    """
    return study.verify()


def upgrade_storage(*, storage: str | Path | None = None) -> None:
    """Bring a storage that an older oddarms wrote to the present version."""
    if server_address(storage) is not None:
        raise InvalidParameter(
            "storage must be a file or database where it is upgraded but got a server: upgrade the"
            " storage that the server has."
        )
    DatabaseStorage.opened(storage, upgrade=True)


def open_storage(storage: str | Path | None, *, create: bool = False) -> Storage:
    """Return a database or a server by its address; a file may be made."""
    address = server_address(storage)
    if address is None:
        return DatabaseStorage.opened(storage, create=create)
    from oddarms.studies._remote_storage import ServerStorage

    return ServerStorage(address)
