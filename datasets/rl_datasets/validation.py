"""Values that a person wrote, checked by a pydantic model, and every fault in them in words."""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from rl_datasets.errors import HindcastError

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Mapping[str, Any], path: str, source: str = "params.yaml") -> Model:
    """Returns the model of some values. Raises HindcastError that names every fault: its path from `path` on, the value, what is allowed.

    `source` is where a person finds the values.
    """
    try:
        # Strict, so that "2" is no number and true no integer; through JSON, where a list may still stand for a tuple.
        return model.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        lines = _joined([_describe(fault, path, model, values) for fault in error.errors()])
        raise HindcastError(f"{source}:\n" + "\n".join(f"  {line}" for line in lines)) from error


def _joined(faults: list[tuple[str, str]]) -> list[str]:
    """One line for each (place with what was found, what is allowed); a value that may be one of several kinds has several faults."""
    lines: dict[str, list[str]] = {}
    for found, allowed in faults:
        lines.setdefault(found, []).append(allowed)
    return [f"{found}; {', or '.join(allowed)}" for found, allowed in lines.items()]


def _describe(fault: Any, path: str, model: type[BaseModel], values: Any) -> tuple[str, str]:
    """One fault of pydantic's as 'key.path: found <value>' and what is allowed."""
    parts = _without_tags(fault["loc"], values)
    location = ".".join(str(part) for part in (path, *parts) if part not in ("", "[key]"))
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        known = _fields_at(model, fault["loc"][:-1])
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"allowed here: {', '.join(known)}" if known else "it is not allowed here"
        return f"{location}: unknown key (value {fault['input']!r})", hint
    if fault["type"] == "missing":
        return f"{location}: missing", message.lower()
    return f"{location}: found {fault['input']!r}", f"{message[0].lower()}{message[1:]}"


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
            model = field.annotation if field else None
        else:  # one of several kinds, or a mapping or sequence of models, whose last argument is the element
            choices = [choice for choice in _members(model) if part in get_args(choice.model_fields["kind"].annotation)]
            model = choices[0] if choices else (get_args(model) or (None,))[-1]
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _members(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models with a `kind` inside an annotation such as Annotated[A | B, ...]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if "kind" in annotation.model_fields:
            yield annotation
        return
    for argument in get_args(annotation):
        yield from _members(argument)
