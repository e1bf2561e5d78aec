from collections.abc import Iterator

import pytest

from engramlog.projections.recall.conversation import layouts


@pytest.fixture(scope="module")
def every_text_is_told() -> Iterator[None]:
    """A single word is as good as a sentence: none is an entry of a record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "TOLD_WORDS_MIN", 1)
        yield
