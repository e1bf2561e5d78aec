"""The base of all payloads."""

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

Scope: TypeAlias = Literal["local", "team", "company", "public"]

FactId: TypeAlias = Annotated[str, Meta(extra={"names": "fact"})]
EpisodeKey: TypeAlias = Annotated[str, Meta(extra={"names": "episode"})]
GardenId: TypeAlias = Annotated[str, Meta(extra={"names": "garden"})]
EntityUri: TypeAlias = Annotated[str, Meta(extra={"names": "entity"})]
InstantUs: TypeAlias = Annotated[int, Meta(extra={"names": "instant"})]
AnyName: TypeAlias = Annotated[str, Meta(extra={"names": "any"})]
Prose: TypeAlias = Annotated[str, Meta(extra={"names": "text"})]
"""The kind of thing that a field of a payload names: ``any`` is a fact or an episode by whatever
name, ``text`` contains ids. Code that carries payloads from log to log, such as an export, reads
from the types which values to translate."""


class Payload(
    Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """Base of all payloads; ``kind`` is the tag in the bytes.

    Attributes:
        version: the schema version in which the kind is written.
        replicated: whether it is in scope and garden streams, which travel to peers.
        line: the ``op`` of the import line that carries it; empty if it stays in its log.
    """

    version: ClassVar[int] = 1
    replicated: ClassVar[bool] = False
    line: ClassVar[str] = ""


_TAGS: dict[type, str] = {}


def kind_of(payload: Payload) -> str:
    """The payload's tag, as written in headers."""
    shape = type(payload)
    tag = _TAGS.get(shape)
    if tag is None:
        tag = _TAGS[shape] = str(payload.__struct_config__.tag)
    return tag
