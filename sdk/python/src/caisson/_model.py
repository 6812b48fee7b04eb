"""Values of the API as typed objects, to and from JSON.

A model is declared like a dataclass, and type checkers read it as one: keyword arguments only, frozen. It is not made
by `dataclasses`, which would compile code for every class while the package is imported; here a class is looked at when
it is first used. What a newer server sends beside the declared fields is kept in `extra`, and what stands in `extra` of
a request is sent: a client is never in the way of a field that it does not know.
"""

from __future__ import annotations

import datetime
import types
import typing
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Type, TypeVar

from .errors import BadAnswerError

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:
    def dataclass_transform(**_):
        return lambda cls: cls

Self = TypeVar("Self", bound="Model")
Convert = Callable[[Any], Any]


class Named:
    """A field whose name in JSON is a word of Python."""

    def __init__(self, name: str) -> None:
        self.name = name


def field(*, name: str) -> Any:
    return Named(name)


class Plan(NamedTuple):
    """What a class declares."""

    by_json: dict[str, tuple[str, Convert | None]]  # name in JSON → attribute, and how its value is read
    required: frozenset[str]
    hints: dict[str, Any]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Model:
    """One JSON object."""

    extra: Mapping[str, Any] = types.MappingProxyType({})

    def __init__(self, **values: Any) -> None:
        plan = plan_of(type(self))
        for name in values:
            if name not in plan.hints:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
        missing = plan.required - values.keys()
        if missing:
            raise TypeError(f"{type(self).__name__} needs {', '.join(sorted(missing))}")
        self.__dict__.update(values)

    @classmethod
    def from_json(cls: Type[Self], data: Any) -> Self:
        plan = plan_of(cls)
        if not isinstance(data, dict):
            raise BadAnswerError(f"{cls.__name__}: want a JSON object, got {type(data).__name__}")
        self = cls.__new__(cls)
        values = self.__dict__
        extra: dict[str, Any] = {}
        for name, value in data.items():
            known = plan.by_json.get(name)
            if known is None:
                extra[name] = value
            else:
                attribute, convert = known
                values[attribute] = value if convert is None or value is None else convert(value)
        if not plan.required <= values.keys():
            raise BadAnswerError(f"{cls.__name__}: the answer lacks {', '.join(sorted(plan.required - values.keys()))}")
        if extra:
            values["extra"] = extra
        return self

    def to_json(self) -> dict[str, Any]:
        """What is None is left out."""
        out: dict[str, Any] = {}
        for name, (attribute, _) in plan_of(type(self)).by_json.items():
            value = self.__dict__.get(attribute)
            if value is not None:
                out[name] = _plain(value)
        out.update(self.extra)
        return out

    def replaced(self: Self, **values: Any) -> Self:
        """The same with other values of some fields."""
        return type(self)(**{**self.__dict__, **values})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is a value: use replaced({name}=…)")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name) for name in plan_of(type(self)).hints if name != "extra")

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items() if name != "extra")
        return f"{type(self).__name__}({shown})"


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


_PLANS: dict[type, Plan] = {}


def plan_of(cls: type) -> Plan:
    plan = _PLANS.get(cls)
    if plan is None:
        hints = typing.get_type_hints(cls)
        by_json, required = {}, set()
        for name, hint in hints.items():
            default = getattr(cls, name, _NOTHING)
            if name != "extra":
                by_json[default.name if isinstance(default, Named) else name] = (name, _converter(hint))
            if default is _NOTHING or isinstance(default, Named):
                required.add(name)
        plan = _PLANS[cls] = Plan(by_json, frozenset(required), hints)
    return plan


_NOTHING = object()


def without_none(hint: Any) -> tuple[Any, bool]:
    """(the hint without None, whether None was in it)"""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(kinds) == 1:
            return kinds[0], True
    return hint, False


def _converter(hint: Any) -> Convert | None:
    """None: the value is taken as it is."""
    hint, _ = without_none(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Model):
        return hint.from_json
    if hint is datetime.datetime:
        return _time
    if origin is list:
        return _each(_converter(args[0]))
    if origin is dict:
        return _each_value(_converter(args[1]))
    return None


def _each(item: Convert | None) -> Convert | None:
    return None if item is None else lambda value: [item(one) for one in value]


def _each_value(item: Convert | None) -> Convert | None:
    return None if item is None else lambda value: {key: item(one) for key, one in value.items()}


def _time(text: str) -> datetime.datetime:
    try:
        # Python 3.10 does not read a Z.
        return datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise BadAnswerError(f"{text!r} is no time") from None
