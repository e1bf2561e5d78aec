"""A profile's parameters for conversations: their length, and how their facts share scores."""

from typing import Annotated

from msgspec import Meta, Struct

Share = Annotated[float, Meta(ge=0, le=1)]


class ConversationContext(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What makes a conversation, and what its facts share.

    Attributes:
        before: shares of the words and meaning that a fact gets from the fact just before it,
            the one before that, and so on.
        after: the same for the facts after it.
        session: share of its conversation's best fused score that each fact gets; the sum is
            divided by 1 + share, so that 1 stays the highest score.
        gap_hours: a conversation ends before a fact that is this much later (or earlier).
            A fact's time is its ``valid_from``, else when it was recorded.
        facts_max: a source with more facts is a feed, without context, unless it is in sentences
            of few entities at a time.
        pool: how many of a stage's best facts get context.
        terms: a longer fact gets less from its neighbours, and gives them less, in proportion:
            it is clear by itself and covers many things. None sets no bound.
        calls: this many facts that call a speaker by a name ("Hi Kate") make a question read
            the name as the speaker's (see ``called_names``); 0 turns this off.
    """

    before: Annotated[tuple[Share, ...], Meta(max_length=5)] = ()
    after: Annotated[tuple[Share, ...], Meta(max_length=5)] = ()
    session: Share = 0.0
    gap_hours: Annotated[float, Meta(gt=0, le=100_000)] = 12.0
    facts_max: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    pool: Annotated[int, Meta(ge=1, le=5000)] = 300
    terms: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    calls: Annotated[int, Meta(ge=0, le=100)] = 0


def shares_of(context: ConversationContext) -> dict[int, float]:
    """The share that a fact gets from one at each distance (below 0: before it), without zeros."""
    shares = {-n: share for n, share in enumerate(context.before, 1)}
    shares |= dict(enumerate(context.after, 1))
    return {step: share for step, share in shares.items() if share > 0}
