"""Values that a person wrote, checked by a pydantic model, and every fault in them in words."""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from rl_datasets.errors import HindcastError

Model = TypeVar("Model", bound=BaseModel)
_ABSENT = object()
_NAME = re.compile(r"[a-z_]+(?:\.[a-z_]+)*")  # of a key, or a path of keys


def validated(model: type[Model], values: Mapping[str, Any], path: str, source: str = "params.yaml") -> Model:
    """Returns the model of some values. Raises HindcastError that names every fault: its path from `path` on, the value, what is allowed.

    `source` is where a person finds the values.
    """
    return _validated(model, values, lambda parts: _dotted(path, *parts), source)


def validated_over(
    model: type[Model], values: Mapping[str, Any], own: Mapping[str, Any], path: str, common: str, source: str = "params.yaml"
) -> Model:
    """Does what `validated` does for values of which those in `own` stand under `path`, and the rest under `common`."""

    def at(parts: Sequence[Any]) -> str:
        return _dotted(path if not parts or _value(own, parts) is not _ABSENT else common, *parts)

    return _validated(model, values, at, source)


def _validated(model: type[Model], values: Mapping[str, Any], at: Callable[[Sequence[Any]], str], source: str) -> Model:
    """at: the path of a key in the file, given the parts of its path in `values`."""
    try:
        # Strict, so that "2" is no number and true no integer; through JSON, where a list may still stand for a tuple.
        return model.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        lines = _joined([_describe(fault, at, model, values) for fault in error.errors()])
        raise HindcastError(f"{source}:\n" + "\n".join(f"  {line}" for line in lines)) from error


def _dotted(*parts: Any) -> str:
    return ".".join(str(part) for part in parts if part not in ("", "[key]"))


def _joined(faults: list[tuple[str, str]]) -> list[str]:
    """One line for each (place with what was found, what is allowed); a value that may be one of several kinds has several faults."""
    lines: dict[str, list[str]] = {}
    for found, allowed in faults:
        lines.setdefault(found, []).append(allowed)
    return [f"{found}; {', or '.join(allowed)}" for found, allowed in lines.items()]


def _describe(fault: Any, at: Callable[[Sequence[Any]], str], model: type[BaseModel], values: Any) -> tuple[str, str]:
    """One fault of pydantic's as 'key.path: found <value>' and what is allowed."""
    parts = _without_tags(fault["loc"], values)
    location = at(parts)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        known = _fields_at(model, fault["loc"][:-1])
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"allowed here: {', '.join(known)}" if known else "it is not allowed here"
        return f"{location}: unknown key (value {fault['input']!r})", hint
    if fault["type"] == "missing":
        return f"{_dotted(at(parts[:-1]), *parts[-1:])}: missing", message.lower()
    found = [f"{at([*parts, *keys])}: found {value!r}" for keys, value in _named(message, fault["input"])]
    return " and ".join(found) or f"{location}: found {fault['input']!r}", f"{message[0].lower()}{message[1:]}"


def _named(message: str, values: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields (path, value) of each key that a message about several of them names, as in "order.test_from needs ..."."""
    if isinstance(values, Mapping):
        paths = dict.fromkeys(tuple(name.split(".")) for name in _NAME.findall(message))
        yield from ((path, value) for path in paths if (value := _value(values, path)) is not _ABSENT)


def _value(values: Any, path: Sequence[Any]) -> Any:
    """Returns the value at a path in nested mappings; _ABSENT where there is none."""
    for part in path:
        values = values.get(part, _ABSENT) if isinstance(values, Mapping) else _ABSENT
    return values


def _without_tags(location: tuple[Any, ...], values: Any) -> list[Any]:
    """The parts of a location that are keys in the file; pydantic adds the `kind` of an entry that has several, or the type of a value."""
    parts, tagged = [], False
    for part in location:
        tagged = not tagged and isinstance(values, Mapping) and values.get("kind") == part
        if tagged or isinstance(values, str | int | float | bool):
            continue
        parts.append(part)
        if isinstance(values, Mapping):
            values = values.get(part)
        elif isinstance(values, list) and isinstance(part, int):
            values = values[part]
    return parts


def _fields_at(model: Any, location: tuple[Any, ...]) -> list[str]:
    """The field names of the model that a location inside `model` leads to; none where it leads elsewhere."""
    for part in location:
        if isinstance(model, type) and issubclass(model, BaseModel):
            field = model.model_fields.get(str(part))
            model = _given(field.annotation) if field else None
        else:  # one of several kinds, or a mapping or sequence of models, whose last argument is the element
            choices = [choice for choice in _members(model) if part in get_args(choice.model_fields["kind"].annotation)]
            model = choices[0] if choices else (get_args(model) or (None,))[-1]
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _given(annotation: Any) -> Any:
    """What an annotation such as A | None is of where a value is given."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and type(None) in get_args(annotation) else annotation


def _members(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models with a `kind` inside an annotation such as Annotated[A | B, ...]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if "kind" in annotation.model_fields:
            yield annotation
        return
    for argument in get_args(annotation):
        yield from _members(argument)
