"""``engramlog recall --translated``: abmind's output from a real process."""

import json
import re
from pathlib import Path

import pytest

from tests.worlds.processes import engramlog, fact


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    items = [
        fact(1, entity="user:ann", value={"type": "text", "v": "Ann set the project deadline"}),
        fact(
            2,
            entity="user:bo",
            value={"type": "text", "v": "Bo planned the project deployment " * 40},
        ),
        fact(3, entity="user:cy", value={"type": "text", "v": "Cy keeps bees"}),
    ]
    items[0]["attributes"] = {"topic": "work", "emotion_score": 3, "original": "határidő"}
    stdin = b"\n".join(json.dumps(item).encode() for item in items)
    done = engramlog("import", "-", "--data", folder, "--quiet", stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_hits_are_a_json_array_and_the_summary_one_line(data: Path) -> None:
    done = engramlog("recall", "--translated", "deadline, deploy", "--stages", "Sf", "--data", data)
    assert done.returncode == 0
    hits = json.loads(done.stdout)
    assert sorted(hit["source"] for hit in hits) == ["Sf:porter", "Sf:trigram_en"]
    first = next(hit for hit in hits if hit["source"] == "Sf:porter")
    assert first["content"] == "Ann set the project deadline"
    assert (first["topic"], first["emotionScore"]) == ("work", 3)
    assert first["contentOriginal"] == "határidő"
    assert {"id", "date", "score", "createdAt", "trust", "credibility"} <= first.keys()
    summary = done.stderr.splitlines()[-1]
    expected = '[recall] query="deadline deploy" Sf=2 S8=0 short_circuit=none total=2'
    assert summary == expected


def test_long_texts_are_cut_by_default(data: Path) -> None:
    asked = ("recall", "--translated", "deploy", "--stages", "Sf", "--data", data)
    cut = json.loads(engramlog(*asked).stdout)[0]["content"]
    whole = json.loads(engramlog(*asked, "--full").stdout)[0]["content"]
    assert (len(cut), cut[-1]) == (500, "…")
    assert whole == "Bo planned the project deployment " * 40


def test_a_keyword_recall_takes_filters_and_a_limit(data: Path) -> None:
    asked = ("recall", "--translated", "project", "--data", data)
    work = json.loads(engramlog(*asked, "--topic", "work").stdout)
    assert [hit["content"] for hit in work] == ["Ann set the project deadline"]
    # 0 becomes 1, and one hit fills the limit.
    done = engramlog(*asked, "--limit", "0")
    assert len(json.loads(done.stdout)) == 1
    assert "short_circuit=Sf" in done.stderr
    past = engramlog(*asked, "--time-end", "1000")
    assert json.loads(past.stdout) == []
    every = engramlog(*asked, "--topic", "work", "--include-expired")
    assert json.loads(every.stdout)[0]["content"] == "Ann set the project deadline"


def test_an_ambient_question_names_its_dropped_words(tmp_path: Path) -> None:
    texts = [f"thanks for note {n}" for n in range(11)] + ["the migration runs every night"]
    lines = [fact(n, value={"type": "text", "v": text}) for n, text in enumerate(texts)]
    stdin = b"\n".join(json.dumps(line).encode() for line in lines)
    assert engramlog("import", "-", "--data", tmp_path, "--quiet", stdin=stdin).returncode == 0
    asked = ("recall", "--data", tmp_path, "--stages", "Sf", "--translated")

    skipped = engramlog(*asked, "thanks", "--intent", "ambient")
    assert (skipped.returncode, json.loads(skipped.stdout)) == (0, [])
    assert skipped.stderr.splitlines()[-1] == (
        '[recall] query="thanks" short_circuit=none total=0'
        ' search_skipped=no-informative-terms dropped=["thanks"]'
    )
    left = engramlog(*asked, "thanks,migration", "--intent", "ambient")
    assert [hit["content"] for hit in json.loads(left.stdout)] == [texts[-1]]
    assert left.stderr.splitlines()[-1].endswith('total=1 dropped=["thanks"]')
    explicit = engramlog(*asked, "thanks", "--intent", "explicit", "--limit", "50")
    assert len(json.loads(explicit.stdout)) == 11
    question = engramlog("recall", "thanks", "--intent", "ambient", "--data", tmp_path)
    assert "not searched: too many facts contain every word of it" in question.stdout
    question = engramlog("recall", "thanks migration", "--intent", "ambient", "--data", tmp_path)
    assert texts[-1] in question.stdout
    refused = engramlog(*asked, "thanks", "--intent", "ambient", "--profile", "abmind")
    assert refused.returncode == 1
    assert "intent" in refused.stderr


def test_explain_tells_the_stages_as_abminds_page_does(data: Path) -> None:
    done = engramlog(
        "recall", "project", "--profile", "abmind", "--limit", "1", "--explain", "--data", data
    )
    lines = done.stdout.splitlines()
    assert 'Query: "project"' in lines
    assert any(line.startswith("Stage Sf: 2 hits (") and "by porter" in line for line in lines)
    assert "Stage Ss: skipped (Sf filled the limit)" in lines
    assert "→ 2 candidates → top 1 returned" in lines


def test_explain_tells_every_number_behind_a_score(data: Path) -> None:
    done = engramlog("recall", "project", "--limit", "1", "--explain", "--data", data)
    numbers = next(line for line in done.stdout.splitlines() if line.startswith("1: "))
    assert re.match(r"1: lexical \d\.\d{3} x \d\.\d{3}, ", numbers)
    assert re.search(r"; recency \d\.\d{3}, .*statement \d.*substance \d.*speaker \d", numbers)


def test_no_keyword_is_an_error_that_says_what_to_give(data: Path) -> None:
    done = engramlog("recall", "--translated", " , ", "--data", data)
    assert done.returncode == 1
    assert "--translated" in done.stderr
    both = engramlog("recall", "question", "--translated", "keyword", "--data", data)
    assert both.returncode == 2
