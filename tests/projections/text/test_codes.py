import pytest

from engramlog.projections.text.codes import CODES_MAX, codes_in


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        ("Why was INV-20931 refused?", ["INV-20931"]),
        ("what is in src/main.rs, and what is getUserById", ["src/main.rs", "getUserById"]),
        ("E_SCHEMA on 10.0.4.11 since v2.4.0", ["E_SCHEMA", "10.0.4.11", "v2.4.0"]),
        ("who is bo@x.example, port 8443", ["bo@x.example", "8443"]),
        ("PR 871, then PR 871 again", ["871"]),
        ("in 2023, on 2023-05-03 at 10:30, 24/7", []),
        ("in the 1990s, on 3.5.2023 at 10:30am or 2.45PM", []),
        ("$10,000 of 1,500,000, not INV-1500,", ["INV-1500"]),
        ("Python 3.11.10 at 192.168.100.200", ["3.11.10", "192.168.100.200"]),
        ("SpaceX and he/she of self-care, e.g. in the U.S.", []),
        ("ticket 42 of Apollo 11", []),
    ],
)
def test_codes_are_what_people_copy(query: str, codes: list[str]) -> None:
    assert codes_in(query) == codes


def test_a_question_has_a_bounded_number_of_codes() -> None:
    assert len(codes_in(" ".join(f"A-{n}" for n in range(1000, 2000)))) == CODES_MAX
