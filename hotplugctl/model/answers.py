"""Three kinds of answer: a value; None = looked, and it is not there; Unknown = could not look."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

T = TypeVar("T")


class Kind(str, enum.Enum):
    """Why a fact could not be looked at."""

    DENIED = "denied"
    IO = "io"
    NOT_CAPTURED = "not_captured"
    ASLEEP = "asleep"
    NOT_ASKED = "not_asked"


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """Could not look. Never true, never false, never a value; two are equal when their kind is."""

    why: str
    kind: Kind

    def __bool__(self) -> bool:
        raise TypeError(f"could not look ({self.why}): neither true nor false; test with isinstance(..., Unknown)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and other.kind is self.kind

    def __hash__(self) -> int:
        return hash(self.kind)


NOT_ASKED = Unknown("not looked at", Kind.NOT_ASKED)

Maybe: TypeAlias = T | Unknown | None


class Trit(enum.Enum):
    """Kleene's three truth values; combined by `all_of`, `any_of` and `negate`."""

    NO = 0
    UNKNOWN = 1
    YES = 2

    @classmethod
    def of(cls, answer: bool | Unknown | None) -> Trit:
        """NO for None and False, UNKNOWN for Unknown."""
        if isinstance(answer, Unknown):
            return cls.UNKNOWN
        return cls.YES if answer else cls.NO


def negate(value: Trit) -> Trit:
    """not, after Kleene: the unknown stays unknown."""
    return Trit(2 - value.value)


def all_of(values: list[Trit]) -> Trit:
    """and, after Kleene: one NO decides, else one UNKNOWN does."""
    return min(values, key=lambda v: v.value, default=Trit.YES)


def any_of(values: list[Trit]) -> Trit:
    """or, after Kleene: one YES decides, else one UNKNOWN does."""
    return max(values, key=lambda v: v.value, default=Trit.NO)
