"""The schema of the tables of articles that name none, since their hub has no schemas, at a PostgreSQL node.

Sessions of rowtide have a search_path of their own. A table is looked for in all schemas of the role's path, and
created in the first. A node adds the schema to each article that it is given (`here`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.merge.articles import Article
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.nodes.table_definitions import TableChange
from rowtide.merge.partitions.filters import ArticleGroup, BoundJoin, FilterLevel, RowFilter
from rowtide.merge.partitions.logical_records import Link

Given = TypeVar("Given")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

_NO_PATH = "public"
"""The schema in which a table is created by a role whose path has no existing schema."""


class TableSchemas:
    """The schemas of tables without one; `schemas` are those of the role's own path, as a text of an array."""

    def __init__(self, session: BatchingConnection, schemas: str | None) -> None:
        self._session = session
        self._schemas = schemas or "{}"
        self._found: dict[str, str] = {}

    def fill(self, given: Given) -> Given:
        """Return an argument of a node's method with the schemas of all articles in it."""
        if not any(map(_lacks_schema, _articles_of(given))):
            return given
        self._find({article.table for article in _articles_of(given) if _lacks_schema(article)})
        return cast("Given", self._filled(given))

    def forget(self) -> None:
        """Look tables up again."""
        self._found.clear()

    def _find(self, tables: set[str]) -> None:
        unknown = tables.difference(self._found)
        if unknown:
            rows = self._session.read((_PLACES, [self._schemas, self._schemas, list(unknown)]))[0]
            self._found.update(rows)

    def _filled(self, given: Any) -> Any:
        match given:
            case Article():
                return replace(given, place=self._found[given.table]) if _lacks_schema(given) else given
            case ChangesRequest():
                articles, filters = self._filled(given.articles), self._filled(given.filters)
                return replace(given, articles=articles, filters=filters)
            case RowFilter():
                return replace(given, article=self._filled(given.article), groups=self._filled(given.groups))
            case ArticleGroup():
                return replace(given, levels=self._filled(given.levels))
            case FilterLevel():
                return replace(given, article=self._filled(given.article), joins=self._filled(given.joins))
            case BoundJoin():
                return replace(given, parent=self._filled(given.parent))
            case Link():
                return replace(given, child=self._filled(given.child), parent=self._filled(given.parent))
            case TableChange():
                return replace(given, before=self._filled(given.before), after=self._filled(given.after))
            case Mapping() if given and isinstance(next(iter(given.values())), (Article, RowFilter)):
                return {key: self._filled(value) for key, value in given.items()}
            case tuple() | list() if given and isinstance(given[0], _OF_ARTICLES):
                return type(given)(map(self._filled, given))
            case tuple() | list() if _is_of_pairs(given):
                return [(self._filled(article), *others) for article, *others in given]
            case _:
                return given


class _Placed(Protocol):
    @property
    def places(self) -> TableSchemas: ...


Node = TypeVar("Node", bound=_Placed)


def here(
    method: Callable[Concatenate[Node, Arguments], Returned],
) -> Callable[Concatenate[Node, Arguments], Returned]:
    """Give a node's method the schemas of the articles in its arguments."""

    @wraps(method)
    def placed(self: Node, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Returned:
        fill = self.places.fill
        # The types stay.
        return method(self, *map(fill, arguments), **{name: fill(value) for name, value in options.items()})  # type: ignore[arg-type]

    return placed


def _lacks_schema(article: Article) -> bool:
    return not article.schema and not article.place


_OF_ARTICLES = (Article, ArticleGroup, FilterLevel, BoundJoin)


def _is_of_pairs(given: tuple[Any, ...] | list[Any]) -> bool:
    """Whether a sequence has pairs of an article and a value, by its first element: others are as long as tables."""
    return bool(given) and isinstance(given[0], tuple) and bool(given[0]) and isinstance(given[0][0], Article)


def _articles_of(given: Any) -> Iterator[Article]:
    match given:
        case Article():
            yield given
        case ChangesRequest():
            yield from _articles_of(given.articles)
            yield from _articles_of(given.filters)
        case RowFilter():
            yield given.article
            for group in given.groups:
                for level in group.levels:
                    yield level.article
                    yield from (join.parent for join in level.joins)
        case Link():
            yield from (given.child, given.parent)
        case TableChange():
            yield from (given.before, given.after)
        case Mapping():
            if given and isinstance(next(iter(given.values())), (Article, RowFilter)):
                for each in given.values():
                    yield from _articles_of(each)
        case tuple() | list() if given and isinstance(given[0], Article):
            yield from given
        case tuple() | list() if _is_of_pairs(given):
            yield from (each[0] for each in given)
        case _:
            pass


_PLACES = f"""
select given.name, coalesce(
    (select n.nspname::text from unnest(%s::name[]) with ordinality path (schema, place)
     join pg_namespace n on n.nspname = path.schema join pg_class c on c.relnamespace = n.oid
     where c.relname = given.name and c.relkind in ('r', 'p') order by path.place limit 1),
    (%s::text[])[1], '{_NO_PATH}')
from unnest(%s::text[]) given (name)
"""
