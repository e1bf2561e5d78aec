"""The last few answers to repeated questions."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any


class Remembered:
    """A cache of answers that drops the least recently used first. Safe from any thread. A key must
    name everything that its answer depends on, above all the position: then no cached answer is
    stale."""

    def __init__(self, kept_max: int) -> None:
        self._kept_max = kept_max
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """The answer, or None."""
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer

    def clear(self) -> None:
        """Forget all answers."""
        with self._lock:
            self._answers.clear()

    def put(self, key: Hashable, answer: Any) -> None:
        """Remember an answer."""
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            if len(self._answers) > self._kept_max:
                self._answers.popitem(last=False)
