"""Episodes over HTTP: written with all three names, read by the first one, two or three."""

import msgspec
from aiohttp import web
from msgspec import Struct

from engramlog.api.answers.memory_records import (
    DeltaRecord,
    EpisodeRecord,
    applied_record,
    episode_record,
)
from engramlog.api.answers.same_fields import shaped
from engramlog.api.commands.episodes import recording_of, writable
from engramlog.api.commands.garden_access import entered_garden
from engramlog.api.http.bodies import answer
from engramlog.api.http.call import Call
from engramlog.api.http.errors import coded
from engramlog.api.http.routing import Routes
from engramlog.api.schemas.memory import (
    AccessRequest,
    EpisodeRequest,
    EpisodesQuery,
    EpisodesRequest,
    RunsQuery,
)
from engramlog.eventlog.kinds import EpisodeAccessed
from engramlog.projections.authorization import CEILING
from engramlog.projections.episodes import reading, reading_deltas
from engramlog.projections.episodes.episode import Episode
from engramlog.projections.episodes.reading_deltas import DeltaFilter
from engramlog.projections.moment import Moment

routes = Routes("episodes")

_KIND = "episodes"
DELTAS_SHOWN_MAX = 100


class EpisodePage(Struct):
    """Episodes, newest first."""

    episodes: list[EpisodeRecord]
    cursor: str | None


class EpisodeDetail(EpisodeRecord):
    """With its deltas."""

    deltas: list[DeltaRecord]


class EpisodeOutcome(Struct):
    """One episode of a batch; ``created``: not recorded before."""

    id: str
    key: str
    created: bool


class EpisodesAnswer(Struct):
    """The outcome of each episode."""

    recorded: int
    known: int
    episodes: list[EpisodeOutcome]
    position: int


class AccessAnswer(Struct):
    """Keys of the noted episodes."""

    accessed: list[str]


@routes.add(
    "POST /v1/episodes",
    permission="write",
    answers={200: EpisodeRecord, 201: EpisodeRecord},
    errors=(404,),
)
async def record_episode(call: Call, request: EpisodeRequest) -> web.Response:
    """Record one episode. A repetition answers 200; another body under the same id is refused.

    Recall finds nothing of it until a consolidation rule makes facts from it."""
    where = writable(call, request.scope, request.garden_id)
    done = await call.do(recording_of(call, where, [request]))
    made = done.detail["episodes"][0]
    episode = await call.in_pool(lambda: _one(call, made["key"], own=True))
    return answer(episode_record(episode), 201 if made["created"] else 200)


@routes.add(
    "POST /v1/episodes/batch",
    permission="write",
    body=EpisodesRequest,
    answers={200: EpisodesAnswer, 201: EpisodesAnswer},
    errors=(404,),
)
async def record_episodes(call: Call) -> web.Response:
    """Record several episodes of one scope or garden in order, or none of them."""
    request = await call.large_body(EpisodesRequest)
    where = writable(call, request.scope, request.garden_id)
    call.charge(len(request.episodes))
    done = await call.do(recording_of(call, where, request.episodes))
    made = msgspec.convert(done.detail["episodes"], list[EpisodeOutcome])
    recorded = sum(each.created for each in made)
    position = done.position or call.node.reader.image.position
    body = EpisodesAnswer(recorded, len(made) - recorded, made, position)
    return answer(body, 201 if recorded else 200)


@routes.add("GET /v1/episodes", permission="read", errors=(404,))
def list_episodes(call: Call, query: EpisodesQuery) -> EpisodePage:
    """A user's episodes, newest first; optionally of one session or one agent."""
    rights = call.narrowed(query.scope)
    garden = None if query.garden_id is None else entered_garden(call, query.garden_id).id
    walk = call.walk(_KIND, query, call.moment(call.view(), query))
    moment = walk.moment()
    place = (int(walk.place[0]), int(walk.place[1])) if walk.place else None
    found = call.node.reader.ask(
        reading.recent,
        rights,
        moment.position,
        user=query.user,
        session=query.session,
        agent=query.agent,
        scope=query.scope,
        garden_id=garden,
        limit=query.limit + 1,
        before=place,
        shown=call.shown(call.view()),
    )
    shown, text = call.page(
        walk, found, query.limit, lambda episode: (episode.at_us, episode.position)
    )
    return EpisodePage([episode_record(each) for each in shown], text)


@routes.add("GET /v1/episodes/{episode_id}", permission="read")
def get_episode(call: Call, query: RunsQuery) -> EpisodeDetail:
    """One episode, by id or key, with its deltas."""
    view, moment = call.at(query)
    episode = _one(call, call.segment("episode_id"), moment)
    rights = call.authorization.narrowed(frozenset({episode.scope}))
    rows = call.node.reader.ask(
        reading_deltas.deltas_at,
        rights,
        moment.position,
        DeltaFilter(
            user=episode.user,
            agent=episode.agent,
            episode_id=episode.id,
            episode_hash=episode.hash,
        ),
        limit=DELTAS_SHOWN_MAX,
        shown=call.shown(view),
    )
    deltas = [applied_record(row) for row in rows if row["garden_id"] == episode.garden_id]
    return shaped(episode_record(episode), EpisodeDetail, deltas=deltas)


@routes.add("POST /v1/episodes/accesses", permission="read", errors=(404, 503, 507))
async def note_access(call: Call, request: AccessRequest) -> AccessAnswer:
    """Note accesses to episodes: salience counts from the last one."""
    view, rights, names = call.view(), call.authorization, request.episodes
    ask, shown = call.node.reader.ask, call.shown(view)
    found = await call.in_pool(
        lambda: ask(reading.find_episodes, rights, view.position, names, shown)
    )
    meant: set[str] = set()
    for name in request.episodes:
        named = reading.called(found, name, call.caller.principal)
        if not named:
            raise coded("episode_not_found", "episode not found")
        meant |= {episode.key for episode in named}
    keys = [episode.key for episode in found if episode.key in meant]
    await call.do(EpisodeAccessed(episodes=keys, at_us=call.node.clock.now_us()))
    return AccessAnswer(keys)


def _one(call: Call, name: str, moment: Moment | None = None, *, own: bool = False) -> Episode:
    """The readable episode of this key or id: the caller's own, else the oldest. ``own``: the
    episode that the caller has just stated, even if hidden. Raises ApiError 404."""
    view = call.view()
    position = view.position if moment is None else moment.position
    shown = None if own else call.shown(view)
    rights = call.authorization
    if own:
        rights = msgspec.structs.replace(rights, ceiling=CEILING)
    found = call.node.reader.ask(reading.find_episodes, rights, position, [name], shown)
    if not found:
        raise coded("episode_not_found", "episode not found")
    return reading.called(found, name, call.caller.principal)[0]
