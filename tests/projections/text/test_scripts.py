"""Terms and names in other scripts than the Latin one."""

import unicodedata
from itertools import product
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engramlog.projections.columns.names.entity_names import (
    EntityNames,
    NameWords,
    name_of,
    words_of,
)
from engramlog.projections.interner import Interner
from engramlog.projections.text.scripts import in_letters, in_pairs
from engramlog.projections.text.terms import Tokenizer

terms = Tokenizer()

TEXTS = st.text(
    st.sampled_from(
        "ab Z9.-'\u0301\u200d"
        "銀行が、々カガﾊ゛ﾞ한국ㄱกำแม่ກຂမြန်កម្ពុ"
        "المكتبةأإآىي\u064eـ٣הספרים\u05b8־कीज़याँ।Ёйлюбовьσςάώßı½２①\u3000\U00020bb7"
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("銀行の会議", ["銀行", "行の", "の会", "会議"]),
        ("我用iPhone拍3张照片", ["我用", "iphon", "拍", "3", "张照", "照片"]),
        ("猫", ["猫"]),
        ("ｶﾞﾗｽ ＡＢＣ１２", ["ガラ", "ラス", "abc12"]),
        ("사무실은 집", ["사무", "무실", "실은", "집"]),
        ("แม่แพ้", ["แม่", "ม่แ", "แพ้"]),
        ("ปี๒๕๖๗", ["ปี", "2567"]),
        ("والمكتبة المكتب مكتبنا", ["مكتب", "مكتب", "مكتب"]),
        ("الآن والان", ["ان", "ان"]),
        ("בבתים", ["תים"]),
        ("مُحَمَّد محمـد ٤٢", ["محمد", "محمد", "42"]),
        ("הַסֵּפֶר ספרים בית־ספר", ["ספר", "ספר", "בית", "ספר"]),
        ("मंज़िल मंजिल चाबी चाबियाँ", ["मंजिल", "मंजिल", "चाब", "चाब"]),
        ("Ёлка ёлки ЕЛКУ", ["елк", "елк", "елк"]),
        ("ΣΚΎΛΟΣ σκύλος σκύλοι", ["σκυλ", "σκυλ", "σκυλ"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("ISPARTA ısparta İzmir izmir", ["isparta", "isparta", "izmir", "izmir"]),
        ("می\u200cروم میروم", ["ميروم", "ميروم"]),
    ],
)
def test_words_that_readers_take_as_one_have_one_term(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    "text", ["Größe", "crème brûlée", "naïve 1️⃣2️⃣ ❤️ok", "½ m² ① ™ “it’s” — 5 °C", "x\ufe0fy"]
)
def test_latin_texts_have_the_terms_of_before(text: str) -> None:
    before = {
        "Größe": ["gross"],
        "crème brûlée": ["creme", "brule"],
        "naïve 1️⃣2️⃣ ❤️ok": ["naiv", "1", "2", "ok"],
        "½ m² ① ™ “it’s” — 5 °C": ["½", "m²", "①", "it", "s", "5", "c"],
        "x\ufe0fy": ["x", "y"],
    }
    assert terms(text) == before[text]


@given(TEXTS, TEXTS)
def test_the_terms_of_two_texts_are_those_of_each(one: str, other: str) -> None:
    assert terms(f"{one}\n{other}") == terms(one) + terms(other)
    assert words_of(f"{one}\n{other}") == words_of(one) + words_of(other)


@given(TEXTS)
@example("Zu\u0308rich")
@example("a\u0301\u200d\u0663")
def test_compatibility_forms_change_no_term(text: str) -> None:
    text = text.replace("½", "").replace("①", "")  # these are Latin script's, and stay
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        other = unicodedata.normalize(form, text)
        assert terms(other) == terms(text)
        assert words_of(other) == words_of(text)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_does_not_become_a_stop_word(form: Literal["NFC", "NFD"]) -> None:
    written = unicodedata.normalize(form, "What is Mỹ's to Thế, and where is Bảo?")
    assert words_of(written) == [
        "what", "is", "mỹ", "s", "to", "thế", "and", "where", "is", "bao",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Where is José?", ["user:josé"]),
        ("Where is Jose\u0301?", ["user:josé"]),
        ("Where is Jose?", ["user:jose"]),
        ("Where are Jose and José?", ["user:jose", "user:josé"]),
        ("Where is Josè?", ["user:jose", "user:josé"]),
        ("Where is Rene?", ["user:rené"]),
        ("Where is San José?", ["user:josé", "place:san-jose"]),
    ],
)
def test_of_names_that_differ_in_accents_the_written_one_is_meant(
    question: str, named: list[str]
) -> None:
    entities = Interner()
    for name in ("user:jose", "user:josé", "user:rené", "place:san-jose"):
        entities.add(name)
    found = EntityNames(entities).spelled_out(question, range(len(entities)))
    assert [entities.text(number) for number in sorted(found)] == named


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("user:mỹ-linh", "My Linh"),
        ("user:my-linh", "Mỹ Linh"),
        ("user:nguyễn-văn-ân", "Nguyen Van An"),
        ("place:pont-à-mousson", "Pont a Mousson"),
    ],
)
def test_a_word_like_a_stop_word_needs_no_accents_beside_others(name: str, written: str) -> None:
    entities = Interner()
    entities.add(name)
    names, words = EntityNames(entities), words_of(written)
    assert names.spelled_out(f"Where is {written}?", [0]) == [0]
    assert names.numbers(" ".join(name_of(words))) == [0]
    assert NameWords(entities).numbers(words).tolist() == [0]


def test_a_name_like_a_stop_word_is_found_in_a_longer_one() -> None:
    sources = Interner()
    sources.add("agent:mỹ-linh")
    assert NameWords(sources).numbers(words_of("Mỹ")).tolist() == [0]


def test_names_have_no_accents_as_terms_have_none() -> None:
    assert words_of("José Núñez, Łódź, Straße, İstanbul, Đặng") == [
        "jose", "nunez", "łodz", "strasse", "istanbul", "đang",
    ]  # fmt: skip


@given(TEXTS)
def test_a_text_with_letters_has_terms(text: str) -> None:
    tatweel = "\u0640"  # a letter to Unicode, which only stretches others
    assert terms(text) or not any(map(str.isalpha, text.replace(tatweel, "")))


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_no_term_is_empty(text: str) -> None:
    assert all(terms(text))


@given(st.text(st.characters(max_codepoint=0x24F, exclude_characters="ßı"), max_size=40))
def test_latin_script_stays(text: str) -> None:
    assert in_pairs(text) == in_letters(text) == text


@pytest.mark.parametrize(
    "pieces", ["و ال لل ب ان ات ون يه ه ها نا", "ה ו ב מ ים ות", "а е и ами ого ов"]
)
def test_a_word_of_affixes_alone_keeps_a_stem(pieces: str) -> None:
    for word in map("".join, product(pieces.split(), repeat=3)):
        (stem,) = terms(word)
        assert len(stem) >= 2
