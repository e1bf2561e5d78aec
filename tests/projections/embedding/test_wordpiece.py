"""Our tokenizer against the library it replaces: equal numbers for every text."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from engramlog.projections.embedding.providers.bundled.minilm import TEXT_TOKENS_MAX, MiniLM
from engramlog.projections.embedding.providers.bundled.weights import model_folder, verified
from engramlog.projections.embedding.providers.bundled.wordpiece import SPECIAL, WordPiece

ROOT = Path(__file__).parents[3]
FILE = bytes(verified(model_folder(), "tokenizer.json"))
SETTINGS = msgspec.json.decode(FILE)
VOCABULARY: dict[str, int] = SETTINGS["model"]["vocab"]
OURS = WordPiece(VOCABULARY)
PIECES = sorted({piece.removeprefix("##") for piece in VOCABULARY})
HOSTILE = [*SPECIAL, "[", "]", "SEP", "\0", "�", "\u0301", "\u200d", "İ", "ß", "ﬁ", "한", "\u0085",
           "\u2028", "K", ";", "≠", "豈", "🚀", "\ue000", "\U000e0041", "x" * 101]  # fmt: skip


def theirs(limit: int | None = TEXT_TOKENS_MAX) -> Tokenizer:
    tokenizer = Tokenizer.from_buffer(FILE)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if limit is not None:
        tokenizer.enable_truncation(limit)
    return tokenizer


LIBRARY = theirs()


def test_the_tokenizer_file_matches_the_built_in_settings() -> None:
    assert SETTINGS["normalizer"] == {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
        "strip_accents": None, "lowercase": True,
    }  # fmt: skip
    assert SETTINGS["pre_tokenizer"] == {"type": "BertPreTokenizer"}
    assert SETTINGS["model"]["max_input_chars_per_word"] == 100
    added = [(each["content"], each["normalized"]) for each in SETTINGS["added_tokens"]]
    assert added == [(name, False) for name in SPECIAL]


def test_every_characters_class_equals_the_librarys() -> None:
    """For the planes that hold only ideographs, a sample."""
    codes = [*range(0xD800), *range(0xE000, 0x20000), *range(0x20000, 0x110000, 89)]
    edges = [0x2A6DF, 0x2A6E0, 0x2A700, 0x2B81F, 0x2B820, 0x2B91F, 0x2B920, 0x2CEAF, 0x2CEB0]
    codes += [*edges, 0x2F800, 0x2FA1F, 0x2FA20, *range(0xE0000, 0xE0200)]
    library = theirs(None)
    texts = [
        " ".join(f"a{chr(code)}b" for code in codes[at : at + 500])
        for at in range(0, len(codes), 500)
    ]
    for text, encoding in zip(texts, library.encode_batch_fast(texts), strict=True):
        assert OURS.encode(text, len(text)) == encoding.ids


def test_real_texts_have_the_same_numbers() -> None:
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("fixtures/conversation/*.*")]
    texts = [line for page in pages for line in page.read_text("utf-8").splitlines()]
    texts += [page.read_text("utf-8") for page in pages]  # longer than the model's limit
    assert len(texts) > 1_000
    ours = [OURS.encode(text, TEXT_TOKENS_MAX) for text in texts]
    assert ours == [encoding.ids for encoding in LIBRARY.encode_batch_fast(texts)]


@given(
    st.lists(
        st.lists(
            st.sampled_from(PIECES) | st.sampled_from(HOSTILE) | st.text(max_size=5) | st.just(" "),
            max_size=60,
        ).map("".join),
        max_size=8,
    )
)
def test_any_text_has_the_same_numbers(texts: list[str]) -> None:
    ours = [OURS.encode(text, TEXT_TOKENS_MAX) for text in texts]
    assert ours == [encoding.ids for encoding in LIBRARY.encode_batch_fast(texts)]


@pytest.mark.parametrize("length", [253, 254, 255, 300])
def test_a_text_is_cut_where_the_library_cuts_it(length: int) -> None:
    text = "tok " * (length - 1) + "embeddings"  # which is several pieces
    assert OURS.encode(text, TEXT_TOKENS_MAX) == LIBRARY.encode(text).ids


def test_half_a_surrogate_pair_has_numbers() -> None:
    assert len(OURS.encode("a \ud800 b", TEXT_TOKENS_MAX)) == 5


def test_the_model_uses_it() -> None:
    assert MiniLM().tokenize(["Zürich!"]) == [LIBRARY.encode("Zürich!").ids]
