"""A transaction's events as rows, the same for every engine."""

from collections.abc import Mapping, Sequence

from engramlog.eventlog.chain import Link


def new_streams(links: Sequence[Link], numbers: Mapping[str, int]) -> dict[str, int]:
    """Numbers of the streams among ``links`` that have none yet."""
    names = dict.fromkeys(recorded.header.stream for recorded, _ in links)
    fresh = (stream for stream in names if stream not in numbers)
    return {stream: number for number, stream in enumerate(fresh, len(numbers) + 1)}


def event_rows(
    links: Sequence[Link], numbers: Mapping[str, int]
) -> list[tuple[int, int, int, bytes, str, int, int, str | None, bytes, bytes]]:
    """The rows of ``events``; ``numbers`` has every stream's."""
    return [
        (
            stored.position,
            numbers[recorded.header.stream],
            recorded.header.stream_seq,
            recorded.header.event_id,
            recorded.header.kind,
            stored.received_at,
            stored.received_hlc,
            stored.peer,
            stored.header,
            stored.hash,
        )
        for recorded, stored in links
    ]


def payload_rows(links: Sequence[Link]) -> list[tuple[int, bytes | None, bytes]]:
    return [
        (stored.position, stored.salt, stored.payload)
        for _, stored in links
        if stored.payload is not None
    ]
