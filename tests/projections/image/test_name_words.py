"""The words of names, while the writer adds names."""

from engramlog.projections.columns.names.entity_names import NameWords
from engramlog.projections.interner import Interner


class Growing(Interner):
    """The writer adds a name while a question reads the first."""

    def text(self, number: int) -> str:
        if len(self) == 1:
            self.add("user:emi")
        return super().text(number)


def test_a_name_that_comes_while_others_are_read_is_found() -> None:
    sources = Growing()
    sources.add("user:elise")
    words = NameWords(sources)
    assert words.numbers(["elise"]).tolist() == [0]
    assert words.numbers(["emi"]).tolist() == [1]
