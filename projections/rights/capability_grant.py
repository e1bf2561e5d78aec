"""The rights in a capability: verbs, scopes and an entity prefix, and how two grants intersect.

The words are the protocol's ``verb`` and ``object`` (wire 3.8), with two additions that an older
reader refuses instead of misreading: ``read+write``, and ``/entity:PREFIX`` after the scope.
"""

from urllib.parse import quote, unquote

from msgspec import Struct

from engramlog.projections.normalization import SCOPES, URI_LENGTH_MAX, lies_under

VERBS = ("read", "write")
EVERY_VERB = "+".join(VERBS)
OBJECT_ROOT = "stigmem://facts"
_SCOPE, _ENTITY = "/scope:", "/entity:"


class GrantError(ValueError):
    """A ``verb`` or ``object`` that this node does not understand; the message names it."""


class Grant(Struct, frozen=True):
    """Rights. ``entities`` are prefixes; an entity must lie under all of them."""

    verbs: frozenset[str]
    scopes: frozenset[str] = frozenset(SCOPES)
    entities: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The verbs as written in the token."""
        return "+".join(verb for verb in VERBS if verb in self.verbs)

    @property
    def object(self) -> str:
        """Scopes and prefix as written in the token. Raises GrantError for two prefixes."""
        text = OBJECT_ROOT
        if self.scopes != frozenset(SCOPES):
            text += _SCOPE + "+".join(scope for scope in SCOPES if scope in self.scopes)
        if len(self.entities) > 1:
            raise GrantError("a grant is written with one entity prefix at most")
        return text + (_ENTITY + quote(self.entities[0], safe="") if self.entities else "")

    @property
    def empty(self) -> bool:
        """Whether it allows nothing at all."""
        disjoint = len(self.entities) > 1  # ``meeting`` keeps two only if they exclude each other
        return not self.verbs or not self.scopes or disjoint

    def meeting(self, other: "Grant") -> "Grant":
        """The rights that both grants allow."""
        entities: tuple[str, ...] = ()
        for prefix in (*self.entities, *other.entities):
            if any(lies_under(kept, prefix) for kept in entities):
                continue
            entities = (*(kept for kept in entities if not lies_under(prefix, kept)), prefix)
        return Grant(self.verbs & other.verbs, self.scopes & other.scopes, entities)


def stored_prefix(text: str) -> str:
    """A prefix in the form in which entities are stored. Raises GrantError."""
    normal = text.strip().lower()
    if not 0 < len(normal) <= URI_LENGTH_MAX or " " in normal or not normal.isprintable():
        raise GrantError(f"entity prefix must be 1 to {URI_LENGTH_MAX} printable characters")
    return normal


def parse_grant(verb: str, object_: str) -> Grant:
    """The grant that a token's ``verb`` and ``object`` state. Raises GrantError."""
    verbs = verb.split("+")
    if not set(verbs) <= set(VERBS) or len(set(verbs)) != len(verbs):
        raise GrantError(f"verb must be 'read', 'write' or 'read+write', not {verb!r}")
    if not object_.startswith(OBJECT_ROOT):
        raise GrantError(f"object must begin with {OBJECT_ROOT!r}, not {object_!r}")
    rest = object_[len(OBJECT_ROOT) :]
    scopes, entities = frozenset(SCOPES), ()
    if rest.startswith(_SCOPE):
        named, mark, rest = rest[len(_SCOPE) :].partition("/")
        rest = mark + rest
        scopes = frozenset(named.split("+"))
        if not scopes <= set(SCOPES):
            raise GrantError(f"object names an unknown scope: {named!r}")
    if rest.startswith(_ENTITY):
        prefix = unquote(rest[len(_ENTITY) :])
        if not prefix or stored_prefix(prefix) != prefix:
            raise GrantError(f"object names no entity prefix in stored form: {prefix!r}")
        entities, rest = (prefix,), ""
    if rest:
        raise GrantError(f"object has an unknown part: {rest!r}")
    return Grant(frozenset(verbs), scopes, entities)
