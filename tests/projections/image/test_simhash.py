"""abmind's signature, bit for bit (the vectors agree with its own JavaScript)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramlog.projections.columns import simhash as signatures
from engramlog.projections.columns.simhash import (
    BYTES,
    StillSigning,
    TextSignatures,
    bucket,
    mulberry32,
    planes,
    sign_v1,
    sign_v2,
    similarities,
    tokens,
)

CLERK = "We decided to use Clerk for authentication"
AUTH = "We chose Clerk for our auth system"
WEATHER = "The weather in Budapest is sunny today"
GOLDEN = {
    "hello world": "008a2a82a2c2a08c1607114080a104c18355634200800441a049001880900003",
    "We use Clerk for auth": "3c0b8a2167f3e075b4f71ab6ac164c10d12558b590b09aefc6da92c337f3683f",
    CLERK: "3eab8a410ad7c497ad6371372e520cd0d7e54de512b49aebf4f393401bf9587f",
    AUTH: "3d4d4a6153f1f262bcd638373c525490e104ddb5b1ce822fc5daf0d703717027",
    WEATHER: "3bc214b82e858c37cf113c16882de959d46652ce3af2123a355219d78a58e768",
    "": "00" * BYTES,
}


def hamming(one: str, other: str) -> int:
    rows = sign_v1([one])
    return round((1.0 - similarities(rows, sign_v1([other])[0].tobytes())[0]) * 256)


def test_the_generator_equals_the_javascript_one() -> None:
    draw = mulberry32(42)
    expected = [0.6011037519, 0.4482905590, 0.8524657935, 0.6697340414, 0.1748138987]
    assert [draw() for _ in range(5)] == pytest.approx(expected, abs=1e-10)


def test_the_first_plane_is_that_of_the_seed() -> None:
    assert planes()[0, :16].tolist() == [1, -1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1]


@pytest.mark.parametrize(
    ("token", "expected"),
    [("hello", 210), ("world", 146), ("clerk", 85), ("database", 123), ("hungarian", 191)],
)
def test_a_token_falls_into_the_seeds_bucket(token: str, expected: int) -> None:
    assert bucket(token) == expected


@pytest.mark.parametrize("text", GOLDEN)
def test_a_signature_is_that_of_the_seed(text: str) -> None:
    assert sign_v1([text])[0].tobytes().hex() == GOLDEN[text]


def test_signatures_do_not_depend_on_other_texts() -> None:
    together = sign_v1(list(GOLDEN))
    assert [row.tobytes().hex() for row in together] == list(GOLDEN.values())


def test_distances_of_the_seeds_three_texts() -> None:
    assert (hamming(CLERK, AUTH), hamming(CLERK, WEATHER), hamming(AUTH, WEATHER)) == (93, 114, 129)
    assert hamming(CLERK, CLERK) == 0


def test_the_tokenizer_sees_ascii_alone() -> None:
    # The accented letters split the word, and a single letter is no token.
    assert tokens("váltókezelő a B-2 x_y") == ["lt", "kezel", "b-2", "x_y"]


def test_version_two_sees_every_script_and_leaves_no_gaps() -> None:
    one, other = sign_v2(["valtokezelo"]), sign_v2(["budapest"])
    assert one != bytes(BYTES) != other
    # One plane of random bits per term: about half of the bits agree.
    rows = np.frombuffer(one, dtype=np.uint8).reshape(1, BYTES)
    assert 0.3 < similarities(rows, other)[0] < 0.7
    assert sign_v2([]) == bytes(BYTES)


def test_version_two_weighs_words() -> None:
    heavy = sign_v2(["clerk", "the"], {"clerk": 5.0, "the": 0.1})
    rows = np.frombuffer(heavy, dtype=np.uint8).reshape(1, BYTES)
    assert similarities(rows, sign_v2(["clerk"]))[0] == 1.0


@given(st.lists(st.text(max_size=20), max_size=30), st.data())
def test_kept_signatures_are_those_of_the_texts(texts: list[str], data: st.DataObject) -> None:
    kept = TextSignatures(sign_v1)
    known: list[str] = []
    for text in texts:
        known.append(text)
        some = data.draw(st.lists(st.integers(0, len(known) - 1), max_size=5))
        numbers = np.array(some, dtype=np.int32)
        expected = sign_v1([known[n] for n in some]).reshape(-1, BYTES)
        assert kept.rows(known, numbers).tolist() == expected.tolist()


def test_no_question_signs_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "AT_ONCE", 3)
    monkeypatch.setattr(signatures, "BLOCK", 2)
    texts = [f"word{n} other" for n in range(7)]
    kept, numbers = TextSignatures(sign_v1), np.arange(7, dtype=np.int32)
    for signed in (3, 6):
        with pytest.raises(StillSigning):
            kept.rows(texts, numbers)
        done = np.arange(signed, dtype=np.int32)
        assert kept.rows(texts, done).tolist() == sign_v1(texts[:signed]).tolist()
    assert kept.rows(texts, numbers).tolist() == sign_v1(texts).tolist()
