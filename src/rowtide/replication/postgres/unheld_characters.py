"""Which copied value has a character that the subscriber's encoding lacks: the server names the table alone."""

from __future__ import annotations

from rowtide.replication.articles import Article


class CharacterWatch:
    """Looks at blocks of whole rows, as COPY writes them, for the first character that an encoding lacks.

    `codec` is Python's name of the encoding, None where it holds every character: then nothing is looked at.
    """

    def __init__(self, article: Article, codec: str | None) -> None:
        self._article = article
        self._codec = codec
        self._found: str | None = None

    def look(self, block: bytes) -> None:
        """Look at one more block."""
        if self._codec is None or self._found is not None:
            return
        text = block.decode()
        try:
            text.encode(self._codec)
        except UnicodeEncodeError as error:
            self._found = self._describe(text, error.start)

    def describe(self) -> str:
        """Return in which column of which row it is, nothing where none was found."""
        return f", in {self._found}" if self._found is not None else ""

    def _describe(self, text: str, at: int) -> str:
        begin = text.rfind("\n", 0, at) + 1
        names = [column.name for column in self._article.columns]
        values = dict(zip(names, text[begin:].partition("\n")[0].split("\t"), strict=False))
        key = ", ".join(f"{column.name} = {values.get(column.name)}" for column in self._article.key_columns)
        of_row = f" of the row with key {key}" if key else ""
        return f"column {names[text.count(chr(9), begin, at)]}{of_row} (U+{ord(text[at]):04X})"
