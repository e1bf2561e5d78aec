"""Regular expressions that may take forever are refused, and others are not."""

import re

import pytest

from engramlog.projections.episodes.pattern_cost import ManyWays, check_cost

CATASTROPHIC = [
    "(a+)+b",
    "(a*)*",
    "(?:a|a)+b",
    r"(?:\w|\d)*$",
    "(?P<x>(a+)b?)+c",
    "(a?a){40}b",
    "(?i)(?:Foo|foo)+!",
    r"(?:(?:\s+\w+)*,)*",
    "(?x) ( a + # one )\n ) +",
    "(?=(a+)+b)a",
    "(?>(a+)+b)a",
    "[)]([(]+)*[)]",
    r"\((\(+)*\)",
    "(a{1,}){2,}",
    "(|a)+b",
    "(a{,9})*b",
    r"(?#\))(a+)*b",
    "(?x)(?#one)(a+)*b",
]
QUICK = [
    r"I live in (?P<town>\w+)",
    r"(?P<a>\w+)\s+(?P<b>\w+)\s+(?P<c>\w+).*\d+",
    r"(?:\d{1,3}\.){3}\d{1,3}",
    "(?:foo|bar)+",
    r"(?:\s++\w++)*\.",
    "(?>a+)+b",
    r"(?:ab)*(?:c{3})+[+*]+\+*",
    "(a+)?b",
    "(?P<q>['\"]).*?(?P=q)",
    "a{}b{,}c{x}{",
    "(?#(a+)a*",
    "(?:likes|loves|hates) (?:tea|coffee)",
    "(a)(?(1)b|c)*",
    "",
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_a_repeated_part_with_many_ways_is_refused(pattern: str) -> None:
    re.compile(pattern)
    with pytest.raises(ManyWays, match="many ways"):
        check_cost(pattern)


@pytest.mark.parametrize("pattern", QUICK)
def test_other_patterns_pass(pattern: str) -> None:
    check_cost(pattern)
