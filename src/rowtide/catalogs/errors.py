"""The errors of catalogues in which tables are registered."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, RowtideError


class NothingForCatalogue(Invalid, number=8161):
    """An Iceberg catalogue has no table of the database: its change and base tables are Delta tables."""

    fact = "namespace {namespace} of the Iceberg catalogue {place} has no table of this database's targets"
    hint = """Change and base tables are Delta tables, which no Iceberg catalogue can have. Add a target with `--format
        iceberg --catalog NAME.NAMESPACE`, and apply it: its tables are in the catalogue from the beginning
        (docs/how-to/register-in-a-catalogue.md)."""
    place: str
    namespace: str


class CatalogueUnreachable(RowtideError, number=8178):
    """A catalogue does not answer, or is of another kind."""

    fact = "the catalogue {place} cannot be reached: {reason}"
    hint = "Check its address and kind, and that it runs. Run the command again: it resumes where it stopped."
    place: str
    reason: str


class CatalogueRefused(Denied, number=8179):
    """A catalogue refused a request."""

    fact = "the catalogue {place} refused to {action}: {reason}"
    hint = """If a right is missing, grant it there to the user of the command; to a catalogue that is reached by HTTP
        the token in ROWTIDE_CATALOG_TOKEN is sent. What was registered before stays; run again, the command resumes."""
    place: str
    action: str
    reason: str


class CatalogueNameTaken(AlreadyExists, number=22867):
    """A catalogue has a table of this name that was not registered from this database."""

    fact = "{namespace} has a table {name} that rowtide did not register from this database"
    hint = "Nothing was changed. Name another namespace, or rename or drop that table if it is not needed."
    namespace: str
    name: str


class CatalogueNamespaceUnknown(NotFound, number=22868):
    """A catalogue has no such namespace, in which tables could be registered."""

    fact = "the catalogue {place} has no namespace {namespace}"
    hint = "Create it there first, with `create schema` or what the catalogue has for it."
    place: str
    namespace: str
