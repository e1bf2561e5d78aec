"""Searches texts for the regular expressions of rules, in bounded time.

A pattern with several repeats (``.*a.*b``, ``(a+)+``) can take forever on a text that almost
matches, and ``re`` lets nothing else run meanwhile. A search of many steps therefore runs in a
process of its own, which the system ends after ``SEARCH_SECONDS`` of processor time. The others run
here.
"""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

SEARCH_SECONDS = 1.0
"""Of processor time; an ordinary search takes less than a thousandth."""
STEPS_HERE_MAX = 10.0**8
"""Such a search takes less than a tenth of a second."""

_REPEAT = re.compile(r"[*+{]|\\[1-9]|\(\?P=")
"""A reference to a group is compared to its end, at most the text's."""
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")
"""In its reach, space may stand between a group and its repeat."""
_CHOICE = re.compile(r"(?<!\()[?|]")

Search: TypeAlias = Callable[[str, str], dict[str, str] | None]
"""The named groups of a pattern's first match in a text; None without a match."""

_PROCESS = f"""
import json, re, signal, sys
for line in sys.stdin:
    pattern, text = json.loads(line)
    signal.setitimer(signal.ITIMER_PROF, {SEARCH_SECONDS})
    found = re.compile(pattern).search(text)
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(json.dumps(found and found.groupdict("")), flush=True)
"""


class Unsearchable(ValueError):
    """A search did not end in time; the message names the pattern."""


class SearchesStopped(Exception):
    """The searches were closed meanwhile."""


def found_groups(pattern: str, text: str) -> dict[str, str] | None:
    """A ``Search`` without a bound."""
    found = _compile_pattern(pattern).search(text)
    return None if found is None else found.groupdict("")


class BoundedSearch:
    """A ``Search`` for one thread at a time; close it when done, from any thread. Raises
    Unsearchable, SearchesStopped."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, pattern: str, text: str) -> dict[str, str] | None:
        if self._closed:
            raise SearchesStopped
        if steps(pattern, len(text)) <= STEPS_HERE_MAX:
            return found_groups(pattern, text)
        return self._in_process(pattern, text)

    def close(self) -> None:
        """End a running search. Idempotent."""
        with self._changing:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        self._leave()

    def _in_process(self, pattern: str, text: str) -> dict[str, str] | None:
        """The groups of a match, found by another process, which a costly pattern cannot block;
        None without a match. Raises Unsearchable, SearchesStopped."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        try:
            process.stdin.write(json.dumps([pattern, text]).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except (OSError, ValueError):  # it has ended, or its pipes are closed
            pass
        if line:
            answer: dict[str, str] | None = json.loads(line)
            return answer
        code = process.wait()
        self._leave()
        if self._closed:
            raise SearchesStopped
        late = code == -signal.SIGPROF
        why = f"took over {SEARCH_SECONDS:g} s of processor time" if late else "could not be read"
        raise Unsearchable(f"the regular expression {pattern!r} {why}")

    def _start(self) -> subprocess.Popen[bytes]:
        with self._changing:
            if self._closed:
                raise SearchesStopped
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROCESS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            return self._process

    def _leave(self) -> None:
        """Release a process that has ended or was killed."""
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def steps(pattern: str, length: int) -> float:
    """At most how many steps a search in a text of ``length`` characters takes, by the pattern's
    signs: it begins at each character, each repeat may end at each, each choice has two ways."""
    repeats, choices = _signs(pattern)
    if repeats + choices > 100:
        return float("inf")
    return max(length, 100.0) ** (1 + repeats) * 2.0**choices


@lru_cache(maxsize=1_024)
def _signs(pattern: str) -> tuple[float, int]:
    """A pattern's repeats, infinitely many if a group repeats, and its choices."""
    if _REPEATED_GROUP.search(pattern) or _VERBOSE.search(pattern):
        return float("inf"), 0
    return len(_REPEAT.findall(pattern)), len(_CHOICE.findall(pattern))


@lru_cache(maxsize=1_024)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
