"""Words that the glossary replaced are found; ``make lint`` looks for them in every file."""

from tests.docs.plain_words import WORDS, found_in, prose_of, replaced_words


def test_a_replaced_word_is_found_in_prose_and_not_in_code() -> None:
    words = {"nobody": "no one", "is told": "sees"}
    page = "`nobody` may.\n\n```sh\nnobody\n```\n\nThe caller is\ntold; Nobody else.\n"
    assert sorted(found_in(page, words)) == [(7, "is told"), (8, "nobody")]
    assert list(found_in("Anybody can.", words)) == []


def test_only_comments_and_docstrings_of_code_count() -> None:
    code = '"""Module."""\nX = "text"  # comment\ndef f():\n    """One\n    two."""\n    return 1\n'
    assert prose_of(code).split("\n")[:5] == [
        ' """Module."""', " # comment", "", ' """One', ' two."""',
    ]  # fmt: skip


def test_the_list_says_what_to_write_instead() -> None:
    assert all(replaced_words(WORDS.read_text()).values())
