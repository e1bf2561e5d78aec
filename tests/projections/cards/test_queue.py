"""The queue of cards: limited, closable, and safe from faulty work."""

import threading

import pytest

from engramlog.projections.cards.queue import CardQueue


def test_a_full_queue_turns_wishes_away_and_repeats_are_one() -> None:
    queue = CardQueue(limit=2)
    assert queue.wish("a", int)
    assert queue.wish("a", int)
    assert queue.wish("b", int)
    assert not queue.wish("c", int)
    assert (queue.waiting, queue.refused) == (2, 1)


def test_closing_forgets_the_backlog_and_fails_no_later_caller() -> None:
    queue = CardQueue()
    queue.start()
    queue.close()
    queue.close()
    assert not queue.wish("a", int)
    with pytest.raises(TimeoutError):
        queue.run(int, 1)


def test_work_that_fails_does_not_stop_the_queue() -> None:
    queue = CardQueue()
    queue.start()
    queue.wish("a", lambda: 1 / 0)
    assert queue.settle(5)
    with pytest.raises(ZeroDivisionError):
        queue.run(lambda: 1 / 0, 5)
    assert queue.run(lambda: 7, 5) == 7
    queue.close()


def test_a_queue_that_got_no_thread_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    queue = CardQueue()
    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            queue.start()
    queue.close()
