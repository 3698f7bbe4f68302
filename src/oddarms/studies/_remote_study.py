"""A study behind a server: the same methods, with the same guarantees, over HTTP.

What is told twice counts once, and an `ask` whose answer is lost on the way is repeated under the
same key, so that no ticket waits for its lease to end.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.problem import Label, Question, check_whole
from oddarms.search import AHEAD, Progress, Result, Status, Ticket, Tickets
from oddarms.studies._base import LEASE, Overview, Study, check_lease, check_text, reason_of
from oddarms.studies._connection import LONG_SECONDS, Connection, segment
from oddarms.studies._documents import conflict_of, ticket_of, trial_of, worker_of
from oddarms.studies._imports import in_parts
from oddarms.studies._limits import AT_A_TIME, MOST_TICKET_ID
from oddarms.studies._log import Conflict, Revision, Told, Trial, Worker
from oddarms.studies._receipts import import_digest
from oddarms.studies._verify import Verification

TOLD = {one.value: one for one in Told}

Item = TypeVar("Item")


class RemoteStudy(Study):
    """A study of a server.

    More than 5,000 results at once are told in parts: where one breaks a rule, those of earlier
    parts are recorded.
    """

    def __init__(self, connection: Connection, name: str, seed: int, question: Question) -> None:
        super().__init__(name, seed, question)
        self._connection = connection
        self._question = question
        self._path = f"/studies/{segment(name)}"
        self._decided = 0
        self._lost: dict[tuple[Any, ...], str] = {}  # keys of calls whose answers were lost
        self._lock = threading.Lock()

    @property
    def storage(self) -> str:
        """The address of the server."""
        return self._connection.address

    @property
    def question(self) -> Question:
        """See `Study.question`."""
        return self._question

    @property
    def labels(self) -> tuple[Label, ...]:
        """See `Study.labels`."""
        return tuple(self._question.labels)

    # Work

    def ask(
        self,
        n: int = 1,
        worker: str | None = None,
        lease: timedelta = LEASE,
        *,
        ahead: float = AHEAD,
        key: str | None = None,
    ) -> Tickets:
        """See `Study.ask`."""
        n = min(check_whole("n", n, least=1), AT_A_TIME)
        body: dict[str, Any] = {
            "n": n,
            "worker": check_text("worker", worker),
            "lease": check_lease(lease),
            "ahead": ahead,
        }
        if key is None:
            answer = self._asked_under_a_new_key(body)
        else:  # the caller repeats it
            answer = self._post("ask", {**body, "key": key})
        tickets = list(map(ticket_of, answer["tickets"]))
        with self._given_back_on_error(tickets):
            if self._callbacks and answer["decided"] != self._decided:
                self.overview()
        return Tickets(tickets, Status(answer["status"]), answer["decided"])

    def _asked_under_a_new_key(self, body: dict[str, Any]) -> Any:
        """Ask under a key that nobody else has; the same call gets a lost answer's tickets."""
        call = (threading.get_ident(), *body.values())
        with self._lock:
            key = self._lost.pop(call, None) or secrets.token_urlsafe(16)
        try:
            return self._post("ask", {**body, "key": key})
        except (StoreFailed, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) or error.passing:
                with self._lock:
                    self._lost[call] = key
            raise

    def tell_many(
        self, results: Iterable[tuple[Ticket | str, float]], *, worker: str | None = None
    ) -> list[Told]:
        """See `Study.tell_many`."""
        worker = check_text("worker", worker)
        rows = [(_id(ticket), self.check_reward(reward)) for ticket, reward in results]
        told: list[Told] = []
        for part in _parts(rows):
            answer = self._post("tell", {"results": part, "worker": worker})
            told += [TOLD[one] for one in answer["told"]]
        return told

    def renew(self, tickets: Iterable[Ticket | str], lease: timedelta = LEASE) -> int:
        """See `Study.renew`."""
        seconds = check_lease(lease)
        parts = _parts([_id(ticket) for ticket in tickets])
        return sum(
            self._post("renew", {"tickets": part, "lease": seconds})["count"] for part in parts
        )

    def _import(self, rewards: Mapping[Label, list[float]], key: str | None) -> int:
        """Import in parts that a server takes, under one key: none is recorded twice."""
        used = key or secrets.token_urlsafe(16)
        parts = list(islice(in_parts(rewards), 2))
        bodies: Iterable[dict[str, Any]] = ({"rewards": part, "key": used} for part in parts)
        if len(parts) > 1:
            bodies = self._parts_of_import(rewards, used)
        return sum(self._post("import", body)["count"] for body in bodies)

    def _parts_of_import(
        self, rewards: Mapping[Label, list[float]], key: str
    ) -> Iterator[dict[str, Any]]:
        """Yield the requests of a large import, by arm, so that any part of it is always equal."""
        arms = {label: arm for arm, label in enumerate(self.labels)}
        for label in rewards:
            if label not in arms:
                raise InvalidParameter(f"arm must be one of the study's but got {label!r}.")
        ordered = {label: rewards[label] for label in sorted(rewards, key=arms.__getitem__)}
        rows = ((arms[label], reward) for label, given in ordered.items() for reward in given)
        digest, start = import_digest(rows), 0
        for part in in_parts(ordered):
            yield {"rewards": part, "key": key, "start": start, "digest": digest}
            start += sum(len(given) for _, given in part)

    def revise(self, /, **changes: Any) -> None:
        """See `Study.revise`."""
        document = self._post("revise", changes)
        self._know(document["question"])

    def what_if(self, changes: Mapping[str, Any]) -> Result:
        """See `Study.what_if`."""
        return Result.from_dict(self._post("what-if", dict(changes)))

    def revisions(self) -> list[Revision]:
        """See `Study.revisions`."""
        return [
            Revision(
                one["number"],
                one["position"],
                Question.from_dict(one["question"]).relabelled(self.labels),
                datetime.fromisoformat(one["made"]),
            )
            for one in self._get("revisions")["revisions"]
        ]

    def stop(self, reason: str = "") -> None:
        """See `Study.stop`."""
        self._post("stop", {"reason": reason_of(reason)})

    def resume(self) -> None:
        """See `Study.resume`."""
        self._connection.call("POST", f"{self._path}/resume")

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """See `Study.skip_many`."""
        said = reason_of(reason)
        for part in _parts([_id(ticket) for ticket in tickets]):
            self._post("skip", {"tickets": part, "reason": said})

    def skip_worker(self, worker: str, reason: str = "") -> int:
        """See `Study.skip_worker`."""
        body = {"worker": check_text("worker", worker), "reason": reason_of(reason)}
        count: int = self._post("skip", body)["count"]
        return count

    def _live_workers(self) -> list[str]:
        return [one.name for one in self.workers() if one.live and one.name is not None]

    def hurried(self) -> AbstractContextManager[None]:
        """See `Study.hurried`."""
        return self._connection.hurry.block()

    # What is known

    def overview(self) -> Overview:
        """See `Study.overview`."""
        document = self._connection.get(self._path, result=True)
        result = Result.from_dict(document["result"])
        self._question = result.question
        self._decided = document["outliers"] + document["normal"]
        if self._callbacks:
            self._report(result.decisions, (document["results"] + document["imported"], 0))
        return Overview(
            created=datetime.fromisoformat(document["created"]),
            status=Status(document["status"]),
            result=result,
            handed_out=document["handed_out"],
            live=document["live"],
            told=document["results"],
            beyond=document["beyond"],
            imported=document["imported"],
            conflicts=document["conflicts"],
            stopped=document["stopped"],
        )

    def progress(self) -> Progress:
        """See `Study.progress`."""
        values = self._get("progress")
        for end, none in (("threshold_lower", -math.inf), ("threshold_upper", math.inf)):
            values[end] = none if values[end] is None else values[end]
        values["worst"] = tuple((arm, mean) for arm, mean in values.get("worst", ()))
        return Progress(**values)

    def pulse(self) -> str:
        """See `Study.pulse`."""
        pulse: str = self._get("pulse")["pulse"]
        return pulse

    @property
    def status(self) -> Status:
        """See `Study.status`."""
        return Status(self._get("status")["status"])

    def trials(self, *, after: int = 0, most: int | None = None) -> Iterator[Trial]:
        """See `Study.trials`."""
        position: int | None = after
        left = math.inf if most is None else most
        while position is not None and left > 0:
            wanted = int(min(left, AT_A_TIME))
            page = self._connection.get(f"{self._path}/trials", after=position, most=wanted)
            yield from map(trial_of, page["trials"])
            position, left = page["next"], left - wanted

    def conflicts(self) -> list[Conflict]:
        """See `Study.conflicts`."""
        return list(map(conflict_of, self._get("conflicts")["conflicts"]))

    def workers(self) -> list[Worker]:
        """See `Study.workers`."""
        return list(map(worker_of, self._get("workers")["workers"]))

    def verify(self) -> Verification:
        """See `oddarms.studies.verify`."""
        found = self._connection.get(f"{self._path}/verify", seconds=LONG_SECONDS)
        return Verification(found["results"], found["chain"], found["problems"])

    def _get(self, what: str) -> Any:
        return self._connection.get(f"{self._path}/{what}")

    def _post(self, what: str, body: dict[str, Any]) -> Any:
        return self._connection.post(f"{self._path}/{what}", body)

    def _know(self, words: dict[str, Any]) -> None:
        asked = Question.from_dict({**words, "labels": None, "n": self.n})
        self._question = asked.relabelled(self._question.labels)


def _id(ticket: Ticket | str) -> str:
    text = ticket.id if isinstance(ticket, Ticket) else ticket
    if not isinstance(text, str) or len(text) > MOST_TICKET_ID:
        raise InvalidParameter(f"ticket must be an id that `ask` has given but got {text!r:.60}.")
    return text


def _parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), AT_A_TIME):
        yield items[start : start + AT_A_TIME]
