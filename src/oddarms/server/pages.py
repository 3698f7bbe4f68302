"""The pages for people: studies, arms, the data that they draw, files, and forms.

Everything can be read without scripts; `static/app.js` draws plots and keeps pages up to date.
Elements with the attribute `data-part` are loaded again when the study has changed, and after a
search, a link in a list or the head of a column.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from oddarms.algorithms import Decision
from oddarms.documents import visible
from oddarms.errors import InvalidParameter, OddarmsError
from oddarms.plotting import file_content, plot_intervals
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K, BoolArray, FloatArray, IntArray
from oddarms.report import arms_csv, result_json, write_report
from oddarms.search import (
    Status,
    facts,
    guarantee,
    headline,
    number,
    status_text,
)
from oddarms.server._access import (
    Admin,
    Anybody,
    StudyToChange,
    StudyToRead,
    audit,
    check_form,
    log_in,
    log_out,
    principal_of,
)
from oddarms.server._problems import Problem, problem_of
from oddarms.server._state import State, one_at_a_time, state_of
from oddarms.server._tokens import LONGEST, Role
from oddarms.server._views import (
    FILTERS,
    KINDS,
    ORDERS,
    Choice,
    Kind,
    Page,
    View,
    forget_view,
    link,
    prefix_of,
    render,
    see,
    sentence,
    view_of,
)
from oddarms.statistics.evidence import mean_interval
from oddarms.studies import SORTS, StoredStudy

router = APIRouter(include_in_schema=False)


STUDIES, ARMS, WORKERS, CONFLICTS, REWARDS, TRACE = 50, 20, 50, 20, 50, 12
"""Rows of the tables."""
SYMBOLS = {
    Status.RUNNING: "▶",
    Status.WAITING: "…",
    Status.DECIDED: "✓",
    Status.BUDGET: "◼",
    Status.STOPPED: "❚❚",
    Status.ENDED: "◼",
}
MIN_SHARE = 4.0
"""Width of the narrowest part of a bar of 1000 that can be seen."""
STATES = {
    "": "All",
    "running": "Running",
    "waiting": "Waiting",
    "decided": "Decided",
    "budget": "Budget used up",
    "stopped": "Stopped",
}
STUDY_COLUMNS = (
    ("name", "Study"),
    ("status", "State"),
    ("-decided", "Decided"),
    ("-outliers", "Outliers"),
    ("-results", "Results"),
    ("-rate", "A minute"),
    ("-seen", "Last active"),
)
ARM_COLUMNS = (
    ("label", "Arm"),
    ("interest", "Decision"),
    ("-mean", "Mean"),
    ("", "Interval"),
    ("-samples", "Samples"),
    ("-evidence", "Odds"),
    ("-needed", "Still needed"),
    ("decided", "Decided after"),
)
"""Columns of the tables: the order that their heads lead to first, and the heads."""


# All studies


@router.get("/")
def studies(request: Request, principal: Anybody) -> Response:
    """Return a page of the list of studies; a token for one study is sent there."""
    if principal.token.study is not None:
        return see(link(request, "studies", principal.token.study_name or ""))
    choice = Choice.of(request.query_params, STATES, SORTS, "-seen")
    storage, words = state_of(request).storage, {"sort": choice.sort, "status": choice.only}
    rows = storage.list(choice.search, STUDIES, (choice.page - 1) * STUDIES, **words)
    page = Page.of(choice.page, STUDIES, rows.total)
    if page.number != choice.page:
        rows = storage.list(choice.search, STUDIES, page.first - 1, **words)
    return render(
        request,
        "studies.html",
        here="studies",
        choice=choice,
        page=page,
        rows=rows,
        symbols=SYMBOLS,
        states=STATES,
        columns=STUDY_COLUMNS,
        address=lambda **changes: link(request, **choice.query(**changes)),
    )


# A study


@router.get("/studies/{name}")
def study_page(request: Request, study: StudyToRead) -> Response:
    """Return the page of a study."""
    return whole_page(request, study)


def whole_page(
    request: Request, study: StoredStudy, status: int = 200, given: Mapping[str, str] | None = None
) -> Response:
    """Return the page of a study; `given` is a refused entry of its form, and the problem."""
    view = view_of(study)
    waits, budget = view.overview.status is Status.WAITING, view.question.budget
    return render(
        request,
        "study.html",
        status,
        here="studies",
        name=study.name,
        pulse=view.pulse,
        question=sentence(view.question.sentence()),
        picture_words=_picture_words(view),
        given=given,
        stopped=view.overview.stopped,
        budget="" if budget is None else str(budget),
        holders=study.holders() if waits else [],
        workers=sorted(study.workers(), key=lambda one: one.last_seen, reverse=True),
        shown=WORKERS,
        all_conflicts=view.overview.conflicts,
        conflicts=study.latest_conflicts(CONFLICTS) if view.overview.conflicts else [],
        trace=_trace(view),
        **_summary(view),
        **_arms(request, study, view),
    )


def _summary(view: View) -> dict[str, Any]:
    """Return the answer so far, in the words of every other report."""
    overview, result = view.overview, view.result
    first, *more = map(sentence, headline(result))
    _, _, meaning = status_text(overview.status).partition(": ")
    known = [(name, text) for name, text in facts(result) if name != "status"]  # it has a badge
    known.append(("pulls under way", f"{overview.live:,}"))
    if view.question.budget is not None:
        known.append(("budget", f"{view.question.budget:,} pulls"))
    if overview.conflicts:
        known.append(("refused results", f"{overview.conflicts:,}"))
    return {
        "state": overview.status.value,
        "symbol": SYMBOLS.get(overview.status, "!"),
        "meaning": overview.stopped if overview.status is Status.STOPPED else meaning,
        "first": first,
        "more": more,
        "facts": known,
        "shares": _shares(view),
        "counts": _counts(view),
    }


def _counts(view: View) -> list[tuple[Kind, str]]:
    """Return how many arms there are of each kind that the question asks for, in words."""
    sides = {"upper": Decision.HIGH, "lower": Decision.LOW}
    asked = {sides[side] for side in view.question.sides}
    always = {Decision.UNDECIDED, Decision.NORMAL} | asked
    found = []
    for decision, count in view.counts.items():
        title = KINDS[decision].title
        words = title if count == 1 else title.replace("outlier", "outliers")
        if count or decision in always:
            found.append((KINDS[decision], f"{count:,} {words}"))
    return found


def _shares(view: View) -> list[dict[str, str]]:
    """Return the parts of a bar of width 1000, one for each kind of arm."""
    order = (Decision.HIGH, Decision.LOW, Decision.NORMAL, Decision.UNDECIDED)
    widths = {
        decision: max(1000.0 * view.counts[decision] / view.n, MIN_SHARE)
        for decision in order
        if view.counts[decision]
    }
    scale, x, parts = 1000.0 / sum(widths.values()), 0.0, []
    for decision, width in widths.items():
        name = KINDS[decision].name
        parts.append({"kind": name, "x": f"{x:.2f}", "width": f"{width * scale:.2f}"})
        x += width * scale
    return parts


def _picture_words(view: View) -> str:
    kinds = ", ".join(words for _, words in _counts(view))
    known = "; ".join(f"{name} {text}" for name, text in _thresholds(view))
    return f"Intervals of {view.n:,} arms, sorted by mean: {kinds}; {known}."


def _thresholds(view: View) -> list[tuple[str, str]]:
    return facts(view.result)[: len(view.result.thresholds)]


def _arms(request: Request, study: StoredStudy, view: View) -> dict[str, Any]:
    choice = Choice.of(request.query_params, FILTERS, ORDERS, "interest")
    arms = view.arms(choice)
    page = Page.of(choice.page, ARMS, arms.size)
    outliers = view.counts[Decision.HIGH] + view.counts[Decision.LOW]
    return {
        "choice": choice,
        "columns": ARM_COLUMNS,
        "page": page,
        "rows": view.rows(arms[page.first - 1 : page.end]),
        "page_size": ARMS,
        "address": lambda **changes: (
            link(request, "studies", study.name, **choice.query(**changes)) + "#arms"
        ),
        "chips": (
            ("", "All", view.n),
            ("outlier", "Outliers", outliers),
            ("undecided", "Undecided", view.counts[Decision.UNDECIDED]),
            ("normal", "Normal", view.counts[Decision.NORMAL]),
        ),
    }


def _trace(view: View) -> list[list[str]]:
    trace = view.result.trace
    places = np.unique(np.linspace(0, len(trace) - 1, min(TRACE, len(trace))).astype(int))
    rows = []
    for point in (trace[place] for place in places):
        values = (point.threshold, point.threshold_lower, point.threshold_upper)
        evidence = (point.evidence_least, point.evidence_median)
        rows.append(
            [
                f"{point.pulls:,}",
                f"{point.undecided:,}",
                *(number(value, view.style) for value in values),
                *("-" if log is None else f"{log / np.log(10.0):.1f}" for log in evidence),
            ]
        )
    return rows


# An arm


@router.get("/studies/{name}/arms/{arm}")
def arm_page(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return the page of an arm, by its number."""
    view = view_of(study)
    check_arm(view, arm)
    unused = study.number_of(arm) - int(view.samples[arm])
    yet = "" if view.overview.status.final else " yet"
    row = view.rows(np.array([arm]))[0]
    return render(
        request,
        "arm.html",
        here="studies",
        name=study.name,
        pulse=view.pulse,
        row=row,
        worth=f"What is decided: {guarantee(view.question)}" if row["decided"] != "-" else "",
        thresholds=_thresholds(view),
        unused=f"{unused:,} more recorded, not used{yet}" if unused > 0 else "",
        mixed=bool(row["history"] and view.result.unused),
        latest=study.latest_of(arm, REWARDS),
        used=int(view.samples[arm]),
    )


def check_arm(view: View, arm: int) -> None:
    """Raise for a number that no arm has."""
    if not 0 <= arm < view.n:
        raise HTTPException(404)


MAX_WIDTH = 4_000
"""Pixels of the picture of intervals."""
LABELLED = 400
"""The picture labels its arms if there are at most this many."""
OVER_TIME = ("threshold", "threshold_lower", "threshold_upper")
EVIDENCE = tuple(f"evidence_{x}" for x in ("least", "lower_quartile", "median", "upper_quartile"))
"""Lines of the plots of a study."""
POINTS = 400
"""Of a line in a plot."""
DRAWN = 1_500
"""The latest rewards of an arm, which are drawn one by one."""
MEDIA = {"html": "text/html", "csv": "text/csv", "json": "application/json"}
MARKED = (Decision.UNDECIDED, Decision.LOW, Decision.HIGH)
"""Kinds whose means are marked one by one; later ones cover earlier ones."""

_drawing = threading.Lock()


# Files


@router.get("/studies/{name}/picture.png")
def picture_image(study: StudyToRead) -> Response:
    """Return the picture of the intervals as an image, for readers without scripts."""
    result = view_of(study).result
    with one_at_a_time(_drawing, "Drawing"):
        return Response(file_content(plot_intervals(result), "png"), media_type="image/png")


@router.get("/studies/{name}/download/{file}")
def download(
    study: StudyToRead, file: Literal["report.html", "arms.csv", "result.json"]
) -> Response:
    """Return a file as `find` writes it; in the table, no spreadsheet runs a label."""
    result, kind = study.result(), file.partition(".")[2]
    if kind == "json":
        content = result_json(result).encode()
    elif kind == "csv":
        content = arms_csv(result, raw=False).encode("utf-8", "backslashreplace")
    else:
        with (
            one_at_a_time(_drawing, "Drawing"),
            tempfile.TemporaryDirectory(prefix="oddarms-") as folder,
        ):
            content = write_report(result, folder, title=study.name).read_bytes()
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in study.name)
    exact = quote(f"{study.name}.{kind}", safe="")
    said = f"attachment; filename=\"{plain}.{kind}\"; filename*=UTF-8''{exact}"
    return Response(content, media_type=MEDIA[kind], headers={"Content-Disposition": said})


# The picture of all intervals


@router.get("/studies/{name}/picture.json")
def picture(
    study: StudyToRead, width: Annotated[int, Query(ge=50, le=MAX_WIDTH)] = 800
) -> dict[str, Any]:
    """Return what a canvas of some width draws: all arms, sorted by mean, in columns.

    A column stands for one arm or several that are next to each other by mean: `lower` and `upper`
    are the outermost ends of their intervals, `least` and `most` their means, `counts` how many
    there are of each kind, and `marks` the outermost means of the kinds that are marked. A
    column's first arm has the place `starts` in the order of the means.
    """
    view = view_of(study)
    result, order = view.result, view.order("mean")
    starts = np.linspace(0, view.n, min(view.n, width) + 1).astype(np.int64)[:-1]
    means, decisions = result.means[order], result.decisions[order]
    low = np.minimum.reduceat(result.intervals[order, 0], starts)
    high = np.maximum.reduceat(result.intervals[order, 1], starts)
    kinds = {decision: decisions == decision for decision in KINDS}
    labelled = order.tolist() if view.n <= LABELLED else None
    return {
        "n": view.n,
        "starts": starts.tolist(),
        "lower": _numbers(low),
        "upper": _numbers(high),
        "least": _numbers(np.fmin.reduceat(means, starts)),
        "most": _numbers(np.fmax.reduceat(means, starts)),
        "counts": {
            KINDS[decision].name: np.add.reduceat(mask, starts, dtype=np.int64).tolist()
            for decision, mask in kinds.items()
        },
        "marks": {KINDS[kind].name: _marks(means, kinds[kind], starts) for kind in MARKED},
        "thresholds": _lines(view),
        "range": _numbers(np.array(_range(view, low, high))),
        "labels": None if labelled is None else [view.label(arm) for arm in labelled],
        "arms": labelled,
    }


def _marks(means: FloatArray, mask: BoolArray, starts: IntArray) -> dict[str, Any]:
    low = np.minimum.reduceat(np.where(mask, np.nan_to_num(means, nan=np.inf), np.inf), starts)
    high = np.maximum.reduceat(np.where(mask, np.nan_to_num(means, nan=-np.inf), -np.inf), starts)
    there = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    return {"at": there.tolist(), "low": _numbers(low[there]), "high": _numbers(high[there])}


def _lines(view: View) -> dict[str, list[float | None]]:
    return {
        side: _numbers(np.clip(bound, *view.question.bounds))
        for side, bound in view.result.thresholds.items()
        if np.isfinite(bound).all()
    }


def _range(view: View, low: FloatArray, high: FloatArray) -> tuple[float, float]:
    a, b = view.question.bounds
    ends = [x for bound in view.result.thresholds.values() for x in bound if math.isfinite(x)]
    least, most = min([float(low.min()), *ends]), max([float(high.max()), *ends])
    edge = 0.02 * max(most - least, 1e-9 * (b - a))
    return max(least - edge, a), min(most + edge, b)


def _numbers(values: FloatArray) -> list[float | None]:
    """Return numbers with the digits that a plot shows; None for those that are not finite."""
    return [float(f"{x:.6g}") if math.isfinite(x) else None for x in values.tolist()]


# A study over time


@router.get("/studies/{name}/series.json")
def series(study: StudyToRead) -> dict[str, Any]:
    """Return decisions, the first threshold and the evidence as functions of the pulls.

    Evidence is a logarithm to the base 10: 3 is a bet won 1000 to 1.
    """
    view = view_of(study)
    trace, bounds = view.result.trace, view.question.bounds

    def column(name: str) -> FloatArray:
        return np.array([getattr(point, name) for point in trace], dtype=float)

    return {
        "pulls": [point.pulls for point in trace],
        **{name: _numbers(np.clip(column(name), *bounds)) for name in OVER_TIME},
        **{name: _numbers(column(name) / math.log(10.0)) for name in EVIDENCE},
        "bounds": list(bounds),
        "decided": _decided(view),
    }


def _decided(view: View) -> dict[str, list[int]]:
    result = view.result
    after = np.full(view.n, -1) if result.decided_after is None else result.decided_after
    odd, normal = (
        np.sort(after[mask & (after >= 0)])
        for mask in (result.decisions >= Decision.HIGH, result.decisions == Decision.NORMAL)
    )
    pulls = np.unique(np.concatenate([[0], odd, normal, [result.pulls]]))
    if pulls.size > POINTS:
        pulls = pulls[np.unique(np.linspace(0, pulls.size - 1, POINTS).astype(np.int64))]
    return {
        "pulls": pulls.tolist(),
        "outliers": np.searchsorted(odd, pulls, side="right").tolist(),
        "normal": np.searchsorted(normal, pulls, side="right").tolist(),
    }


# An arm over time


@router.get("/studies/{name}/arms/{arm}/series.json")
def arm_series(study: StudyToRead, arm: int) -> dict[str, Any]:
    """Return an arm's rewards in the order of their places, their mean and its interval.

    The intervals of all n arms hold together, at all times, with probability 1 - delta.
    """
    view = view_of(study)
    check_arm(view, arm)
    rewards = study.rewards_of(arm, int(view.samples[arm]))
    a, b = view.question.bounds
    places = _places(rewards.size)
    scaled, counts = (np.clip(rewards, a, b) - a) / (b - a), places.astype(np.float64)
    sums, squares = np.cumsum(scaled)[places - 1], np.cumsum(scaled**2)[places - 1]
    scatter = np.maximum(squares - sums**2 / counts, 0.0)
    low, high = mean_interval(counts, sums, scatter, view.question.delta / view.n)
    first = max(rewards.size - DRAWN, 0)
    return {
        "total": int(rewards.size),
        "places": places.tolist(),
        "mean": _numbers(a + (b - a) * sums / counts),
        "lower": _numbers(a + (b - a) * low),
        "upper": _numbers(a + (b - a) * high),
        "first": first + 1,
        "rewards": _numbers(rewards[first:]),
        "thresholds": {side: bound[0] for side, bound in _lines(view).items()},
        "bounds": [a, b],
    }


def _places(total: int) -> IntArray:
    """Return after how many rewards to look; of many, evenly on a logarithmic scale."""
    if total <= POINTS:
        return np.arange(1, total + 1)
    return np.unique(np.geomspace(1, total, POINTS).round().astype(np.int64))


MAX_ADDRESS = 1_000
DEFAULTS = {
    "name": "",
    "arms": "",
    "k": f"{DEFAULT_K:g}",
    "margin": "",
    "side": "upper",
    "low": "0",
    "high": "1",
    "delta": f"{DEFAULT_DELTA:g}",
    "budget": "",
}
"""Fields of the form for a new study."""


# Signing in and out


@router.get("/login")
def ask_for_token(request: Request) -> HTMLResponse:
    """Return the form for a token."""
    wanted = request.query_params.get("next", "")[:MAX_ADDRESS]
    return _token_form(request, wanted)


def _token_form(
    request: Request, wanted: str, status: int = 200, problem: str = ""
) -> HTMLResponse:
    principal = principal_of(request)
    has_session = principal is not None and principal.csrf is not None and not problem
    # A page of another site may have a link with a token of its own; and browsers do not send the
    # cookie along with such a link, so that the page asks again by itself.
    direct = request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return render(
        request,
        "signin.html",
        status,
        next=wanted,
        problem=problem,
        at_once=direct and not problem,
        ask_again=not direct,
        go_on=_target(request, wanted) if has_session else "",
    )


@router.post("/login")
async def sign_in(request: Request) -> Response:
    """Begin a session and go to the page that was asked for."""
    form = await request.form()
    token, wanted = _text(form, "token").strip(), _text(form, "next")
    response = see(_target(request, wanted))
    try:
        await log_in(request, response, token)
    except Problem as problem:
        return _token_form(request, wanted, problem.status, problem.detail)
    return response


@router.post("/logout")
async def sign_out(request: Request) -> Response:
    """End the session."""
    await check_form(request)
    response = see(link(request, "login"))
    await log_out(request, response)
    return response


def _target(request: Request, wanted: str) -> str:
    harmless = len(wanted) <= MAX_ADDRESS and wanted.isprintable() and "\\" not in wanted
    local = harmless and wanted.startswith("/") and not wanted.startswith("//")
    return prefix_of(request) + (wanted if local else "/")


# A new study


@router.get("/new")
def form_for_new(request: Request, _: Admin) -> Response:
    """Return the form for a new study."""
    return render(request, "new.html", here="new", given=DEFAULTS, problem="")


@router.post("/new")
async def create(request: Request, _: Admin) -> Response:
    """Create a study, or show the form again with the problem."""
    form = await check_form(request)
    given = {key: _text(form, key, usual) for key, usual in DEFAULTS.items()}
    try:
        study = await run_in_threadpool(_create, state_of(request), given)
    except OddarmsError as error:
        status, said = _said(request, error)
        return render(request, "new.html", status, here="new", given=given, problem=said)
    audit(request, "create", study.name, arms=study.n)
    return see(link(request, "studies", study.name))


def _create(state: State, given: dict[str, str]) -> StoredStudy:
    labels = [line.strip() for line in given["arms"].splitlines() if line.strip()]
    if not labels:
        raise InvalidParameter("arms are missing: type them in, one a line.")
    words: dict[str, Any] = {
        "k": _number("k", given["k"]),
        "delta": _number("delta", given["delta"]),
        "margin": _number("margin", given["margin"]) if given["margin"].strip() else None,
        "side": given["side"],
        "bounds": (_number("bounds", given["low"]), _number("bounds", given["high"])),
        "budget": _budget(given["budget"]),
    }
    return state.create(given["name"].strip(), labels, words)


def _number(name: str, text: str, kind: Callable[[str], Any] = float) -> Any:
    try:
        return kind(text)
    except ValueError:
        whole = "whole " if kind is int else ""
        raise InvalidParameter(f"{name} must be a {whole}number but got {text!r:.60}.") from None


def _budget(text: str) -> int | None:
    return _number("budget", text, int) if text.strip() else None


# Tokens


@router.get("/tokens")
def token_page(request: Request, _: Admin) -> Response:
    """Return the tokens, and the form for a new one."""
    return _token_page(request)


def _token_page(
    request: Request, status: int = 200, *, made: str = "", problem: str = ""
) -> Response:
    listed = state_of(request).tokens.list()
    return render(
        request, "tokens.html", status, here="tokens", tokens=listed, made=made, problem=problem
    )


@router.post("/tokens")
async def change_tokens(request: Request, _: Admin) -> Response:
    """Make a token and show it for the only time, or revoke one."""
    form, tokens = await check_form(request), state_of(request).tokens
    revoked = _text(form, "revoke")
    if revoked:
        if await run_in_threadpool(tokens.revoke, revoked):
            audit(request, "revoke token", id=revoked)
        return see(link(request, "tokens"))
    role, study, note = (_text(form, key) for key in ("role", "study", "note"))
    days = _text(form, "days").strip()
    try:
        if role not in list(Role):
            raise InvalidParameter("role must be worker, reader or admin.")
        most = LONGEST.days + 1  # which is refused, as is 0; a timedelta has an end, too
        lasts = timedelta(days=max(0, min(_number("days", days, int), most))) if days else None
        made = await run_in_threadpool(
            tokens.make, Role(role), study=study.strip() or None, note=note, lasts=lasts
        )
    except OddarmsError as error:
        status, said = _said(request, error)
        return await run_in_threadpool(_token_page, request, status, problem=said)
    audit(request, "make token", study, made=role, note=note)
    return await run_in_threadpool(_token_page, request, made=made)


# Changes


@router.post("/studies/{name}")
async def change(request: Request, study: StudyToChange) -> Response:
    """Change a study and show it again; or show its page with the problem."""
    form = await check_form(request)
    action = _text(form, "action")
    try:
        words = await run_in_threadpool(_change, state_of(request), study, form)
    except OddarmsError as error:
        status, said = _said(request, error)
        given = {"budget": _text(form, "budget"), "problem": said}
        return await run_in_threadpool(whole_page, request, study, status, given)
    forget_view(study)
    audit(request, action, study.name, **words)
    return see(link(request) if action == "delete" else link(request, "studies", study.name))


def _change(state: State, study: StoredStudy, form: FormData) -> dict[str, Any]:
    match _text(form, "action"):
        case "stop":
            if study.overview().stopped is None:  # else the earlier reason stays
                study.stop("stopped from the page")
        case "resume":
            study.resume()
        case "budget":
            budget = _budget(_text(form, "budget"))
            study.raise_budget(budget)
            return {"budget": budget}
        case "release" | "release all" as action:
            worker = _text(form, "worker") or None  # an empty one has asked without a name
            everybody = [one.worker for one in study.holders()]
            gone = [worker] if action == "release" else everybody
            count = sum(state.release(study, one, "released from the page") for one in gone)
            return {"worker": ", ".join(one or "" for one in gone), "tickets": count}
        case "delete":
            if _text(form, "again") not in (study.name, visible(study.name)):
                raise InvalidParameter("That is not the study's name, so nothing was deleted.")
            state.delete(study)
        case _:
            raise HTTPException(404)
    return {}


def _said(request: Request, error: OddarmsError) -> tuple[int, str]:
    problem = problem_of(error, state_of(request).storage.name)
    return problem.status, sentence(problem.detail)


def _text(form: FormData, key: str, usual: str = "") -> str:
    value = form.get(key)
    return value if isinstance(value, str) else usual
