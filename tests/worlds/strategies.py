"""Hypothesis strategies in the words of the domain, for every room's tests."""

from hypothesis import strategies as st

from engramlog.eventlog.event import NODE_STREAM, Draft, scope_partition
from engramlog.eventlog.kinds import FactAsserted, FactRetracted, Payload, SourceTrustSet, Value

SCOPES = ("local", "team", "company", "public")

names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12)
sentences = st.text(max_size=60).filter(lambda text: not _has_surrogate(text))
actors = st.sampled_from(["agent:alice", "agent:bob"])
event_ids = st.binary(min_size=16, max_size=16)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def facts() -> st.SearchStrategy[FactAsserted]:
    """Assertions of short texts in any scope."""
    return st.builds(
        FactAsserted,
        entity=names.map(lambda name: f"project:{name}"),
        relation=names.map(lambda name: f"memory:{name}"),
        value=st.builds(Value, type=st.just("string"), v=sentences),
        source=actors,
        scope=st.sampled_from(SCOPES),
        confidence=st.floats(0, 1),
    )


def retractions() -> st.SearchStrategy[FactRetracted]:
    """Retractions of facts that need not exist: the log does not check."""
    return st.builds(FactRetracted, fact_ids=st.lists(names, max_size=3), reason=sentences)


def trust_settings() -> st.SearchStrategy[SourceTrustSet]:
    """Bookkeeping that stays in the node's own stream."""
    return st.builds(SourceTrustSet, source=actors, trust=st.floats(0, 1))


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """One event of a replicated or a local kind, not yet decided, in a fitting partition."""
    payload: Payload = draw(st.one_of(facts(), retractions(), trust_settings()))
    match payload:
        case FactAsserted():
            partition = scope_partition(payload.scope)
        case FactRetracted():
            partition = scope_partition(draw(st.sampled_from(SCOPES)))
        case _:
            partition = NODE_STREAM
    return Draft(payload, partition, draw(event_ids), draw(actors))
