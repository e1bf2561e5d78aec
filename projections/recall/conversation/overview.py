"""Questions about a whole conversation: in what order things came up, or a summary.

"Can you list the order in which I brought up different aspects of my budget, in our conversations?"
resembles facts about lists and conversations. So recall searches for its topic alone, "my budget",
and spreads the answer over conversations. English only; other questions stay as they are.
"""

import re
from typing import Annotated

from msgspec import Meta, Struct

_TALKS = r"(?:conversations?|chats?|sessions?|discussions?|requests)"
_ONE = r"(?:first|second|third|\w+th|\d+(?:st|nd|rd)|last|latest|next|previous) \w+(?<!s)\b"
"""One of several conversations."""
_IN_TALKS = (
    r"\b(?:throughout|across|during|in|over|from|based on) (?:all )?(?:of )?"
    rf"(?:our|my|the|these|those) (?!{_ONE})(?:\w+ )?{_TALKS}\b"
)
# Compiled by the first question and then kept by ``re``: a start would wait for them.
_WHOLE = (
    r"\border in which\b|\b(?:what|which) order\b|\bin order\b(?! to\b)|\bchronological"
    r"|\bsummar(?:y|ies|ise|ize)|\boverview\b|\brecap\b|\bover time\b"
    rf"|{_IN_TALKS}"
)
_SIZE = r"(?:(?:brief|short|simple|clear|complete|comprehensive|detailed|full|and) )*"
_FRAME = (
    r"\b(?:can|could|would) you (?:please )?(?:also )?"
    r"(?:list|walk me through|give me|provide(?: me)?(?: with)?|tell me|show me|summari[sz]e"
    r"|describe|outline|recap)\b"
    rf"|\b(?:an?|the) {_SIZE}(?:summary|overview|recap)\b"
    r"(?: (?:of|that captures)\b(?: how\b| everything\b| what\b)?)?"
    r"|\bthe order in which (?:I|we) (?:first )?"
    r"(?:brought up|mentioned|talked about|discussed|raised|asked about)\b"
    r"|\b(?:in )?(?:what|which) order (?:did|do|have) (?:I|we)\b"
    r"|\b(?:the )?(?:different|various|several)\b"
    r"(?: (?:aspects|topics|concepts|ways|parts) (?:of|related to|I['\u2019]ve been))?"
    rf"|{_IN_TALKS}"
    r"|\bin order\b(?! to\b)|\bmention only(?: and only)? \w+ items?\b\.?|\(mention \d+ items\)"
    r"|\bover time\b|\bso far\b"
    r"|\b(?:has|have) (?:developed|progressed|evolved|changed)(?: and changed)?\b"
)
TOPIC_WORDS_MIN = 2
"""A topic with fewer words is not trusted: the question stays as it is."""


class Overview(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``spread``: how much each chosen fact lowers the others of its conversation, as a share of
    the best score, in the answer to a question about a whole conversation."""

    spread: Annotated[float, Meta(ge=0, le=1)] = 0.0


def topic_of(query: str) -> str | None:
    """What a question about a whole conversation is about; None for other questions."""
    if not re.search(_WHOLE, query, re.IGNORECASE):
        return None
    left = " ".join(re.sub(_FRAME, " ", query, flags=re.IGNORECASE).split())
    left = re.sub(r"\s+([,.?!])", r"\1", left)
    # A possessive run: else a long one is read again from each of its marks.
    left = re.sub(r"([,.!][,.!\s]*+)(\?|$)?", _without_marks, left).strip(" ,.").lstrip("?! ")
    return left if len(left.split()) >= TOPIC_WORDS_MIN else query


def _without_marks(run: re.Match[str]) -> str:
    """What follows a run of marks, if it ends the question; else the run."""
    return run[0] if run[2] is None else run[2]
