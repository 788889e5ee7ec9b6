"""What an entry of params.yaml says of logged data: which column is what, and where episodes end. The same for every kind of source.

Names of columns may hold "*", which stands for anything; several columns are joined along the last axis, in the order of the
file, or in numeric order where what "*" stands for is a number. A name that ends in "?" is used where the source has it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from rl_datasets.builder import BuilderOptions, References


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _as_tuple(value)


def _as_columns(value: Any) -> Any:
    """Names alone stand for columns that keep theirs."""
    names = _as_names(value)
    return {name: name for name in names} if isinstance(names, tuple) else names


def _as_numbers(value: Any) -> Any:
    return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else _as_tuple(value)


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]
Columns = Annotated[Mapping[str, str], BeforeValidator(_as_columns)]  # name to column
Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_numbers)]  # one for all elements, or one an element


class _FromNames(BuilderOptions):
    """A model for which names of columns alone may stand."""

    @model_validator(mode="before")
    @classmethod
    def _from_names(cls, value: Any) -> Any:
        return {"columns": value} if isinstance(value, str | list | tuple) else value


class Array(_FromNames):
    """One array made of columns, or a nest of such arrays. Names of columns alone mean `columns`.

    The values go through the options in the order in which they stand here.
    """

    entries: Mapping[str, "Array"] | None = None  # a Dict observation: leaf by name
    elements: Annotated[tuple["Array", ...] | None, BeforeValidator(_as_tuple)] = None  # a Tuple observation
    columns: Names = ()
    missing: Numbers | None = None  # takes the place of values that are missing or not a number; how many is counted
    missing_marks: Numbers = ()  # numbers that stand for a missing one in the source, such as -999
    carry: bool = False  # the last known value of the episode takes the place of a missing one, and `missing` where none comes before
    one_hot: bool = False  # the columns are a one-hot vector: stored is the index of its 1 as a category
    categories: Annotated[tuple[str | int, ...] | None, BeforeValidator(_as_tuple)] = None  # stored is the index of the value
    text: int | None = Field(None, gt=0)  # a string: stored are its UTF-8 bytes, so many, filled up with zeros
    scale: float | None = None  # stored is value * scale + offset
    offset: float | None = None
    unit: str = ""  # of what is stored; for the report only
    clip: Annotated[tuple[float, float] | None, BeforeValidator(_as_tuple)] = None  # how many values it moves is counted
    dtype: str | None = None  # what to store; float64 becomes float32 where nothing is said
    shape: Annotated[tuple[int, ...] | None, BeforeValidator(_as_tuple)] = None  # of one row, where the columns are flat
    minimum: Numbers | None = None  # inclusive bounds of what is stored
    maximum: Numbers | None = None
    num_values: int | None = Field(None, gt=0)  # of a category: an integer in [0, num_values)

    @model_validator(mode="after")
    def _one_kind(self) -> "Array":
        kinds = [name for name in ("columns", "entries", "elements") if getattr(self, name)]
        if len(kinds) != 1:
            raise ValueError(f"give one of columns, entries and elements, found {' and '.join(kinds) or 'none'}")
        if kinds != ["columns"] and self.model_fields_set - {"entries", "elements"}:
            raise ValueError("a nest has no options of its own; give them to its leaves")
        if (self.one_hot, self.categories is not None, self.text is not None).count(True) > 1:
            raise ValueError("one_hot, categories and text exclude one another")
        if (self.carry or self.missing_marks) and self.missing is None:
            raise ValueError("carry and missing_marks need 'missing', the number that fills what is not known")
        return self

    def leaves(self, name: str) -> dict[str, "Array"]:
        """Returns the arrays of the nest by path, such as "observation/camera"; one that is none is its only leaf."""
        parts = self.entries.items() if self.entries else enumerate(self.elements or ())
        return {k: v for key, part in parts for k, v in part.leaves(f"{name}/{key}").items()} or {name: self}

    def nest(self, leaves: Mapping[str, Any], name: str) -> Any:
        """Returns values by path, nested as this is."""
        if self.entries:
            return {key: part.nest(leaves, f"{name}/{key}") for key, part in self.entries.items()}
        if self.elements:
            return tuple(part.nest(leaves, f"{name}/{index}") for index, part in enumerate(self.elements))
        return leaves[name]


class Flag(_FromNames):
    """Set where any of the columns is 1, or equals a given value. One value a row, or one an episode. Names alone mean `columns`."""

    columns: Names
    equals: str | int | None = None


class FlagEnds(BuilderOptions):
    """An episode ends on a row where `terminal`, `truncated` or this column is set; rows after the last such row are the tail."""

    kind: Literal["flags"]
    column: str | None = None


class StartEnds(BuilderOptions):
    """An episode begins on each row where the column is 1."""

    kind: Literal["starts"]
    column: str


class IndexEnds(BuilderOptions):
    """The column lists where episodes end: the row after the last (as numpy.split takes it), or the last row itself."""

    kind: Literal["indices"]
    column: str
    at: Literal["next", "last"] = "next"


class LengthEnds(BuilderOptions):
    """The column lists the number of rows of each episode, in order."""

    kind: Literal["lengths"]
    column: str


class IdEnds(BuilderOptions):
    """Rows of one id are an episode. They stand together, or `sequence` gives their order and they may stand anywhere.

    An id of several columns, such as a house and a day, is their values joined: "north/3".
    """

    kind: Literal["ids"]
    column: Annotated[Names, Field(min_length=1)]
    sequence: str | None = None
    gaps: Literal["refuse", "allow"] = "refuse"  # "allow" where sequence is a time and not a count


class BreakEnds(BuilderOptions):
    """An episode ends where the next row's observation is not this row's next_observation, or a flag is set."""

    kind: Literal["breaks"]


class FixedEnds(BuilderOptions):
    """Every episode has so many rows; what remains at the end of a file is the tail."""

    kind: Literal["fixed"]
    length: int = Field(gt=0)


class GroupEnds(BuilderOptions):
    """Each group of the source is an episode; where it has none, each file is."""

    kind: Literal["groups"]


Ends = Annotated[FlagEnds | StartEnds | IndexEnds | LengthEnds | IdEnds | BreakEnds | FixedEnds | GroupEnds, Field(discriminator="kind")]


class MappingOptions(BuilderOptions):
    """Columns to episodes. Nothing is guessed: a column that is not named here is an error, and each assumption is reported."""

    env_id: str = Field(min_length=1)  # Gymnasium's id where there is one; policies are evaluated there
    env_kwargs: Mapping[str, Any] = Field(default_factory=dict)

    observation: Array
    action: Array
    reward: Array
    next_observation: Array | None = None  # made as `observation` is: give only its columns, nested alike
    terminal: Flag | None = None  # the state after this row's action is terminal
    truncated: Flag | None = None  # a time limit, or another cut, ends the episode here; `terminal` goes before it
    ends: Ends
    metadata: Mapping[str, str] = Field(default_factory=dict)  # name to column: one value an episode, or one that stays the same in it
    step_metadata: Columns = Field(default_factory=dict)  # columns that are kept as they are with each step, and not learnt from: a list
    # of names, or name to column. A pattern takes what nothing else is made of; "*" alone takes what is not ignored either
    policy: str = "unknown"  # who acted, where no column says it (metadata: {policy: <column>})
    ignore: Names = ()  # columns that are left out, where they are no step metadata

    rows: Literal["transitions", "steps", "extra_observation"] = "transitions"  # of an episode of T transitions: T rows; T + 1 rows,
    # the last of which has only an observation; T rows but T + 1 observations
    reward_offset: int = Field(0, ge=0)  # the reward of (o_t, a_t) is on row t + reward_offset
    action_offset: int = Field(0, ge=0)  # the action taken at o_t is on row t + action_offset
    unflagged: Literal["truncated", "terminal"] = "truncated"  # what an end without a flag is
    tail: Literal["keep", "drop"] = "keep"  # rows after the last end: an episode that was cut, or nothing
    inner_flags: Literal["refuse", "ignore"] = "refuse"  # a flag within an episode, where something else than flags tells its end
    lost_observation: Literal["drop", "repeat"] = "drop"  # of a terminal transition: drop the transition, or repeat the one before it
    tolerance: float = Field(0.0, ge=0)  # between a next_observation and the observation of the next row, which are one and the same

    bounds: Literal["given", "data", "environment"] = "given"  # of actions: as under `action`; as found; those of the environment
    max_episode_steps: int | None = Field(None, gt=0)
    time_limit: Literal["keep", "repair"] = "keep"  # "repair": terminal on the step limit becomes truncated
    reference_returns: References | None = None

    @model_validator(mode="after")
    def _next_is_alike(self) -> "MappingOptions":
        if self.next_observation is None:
            return self
        if self.rows != "transitions":
            raise ValueError(f"next_observation is for rows: transitions, found rows: {self.rows}, whose last row holds it")
        own, other = self.observation.leaves("observation"), self.next_observation.leaves("observation")
        if own.keys() != other.keys():
            raise ValueError(f"next_observation has the leaves {sorted(other)}, but observation has {sorted(own)}")
        if any(leaf.model_fields_set - {"columns"} for leaf in other.values()):
            raise ValueError("next_observation is made as observation is; give only its columns")
        if any(leaf.carry for leaf in own.values()):
            raise ValueError("an observation with carry has no next_observation, which has no rows before it; leave that out")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> "MappingOptions":
        if patterns := [name for name, column in self.step_metadata.items() if name != column and "*" in name + column]:
            raise ValueError(f"step_metadata.{patterns[0]} is a pattern, which keeps the columns' own names; put it in a list of names")
        if self.ends.kind == "breaks" and self.next_observation is None:
            raise ValueError("ends of kind breaks need next_observation")
        if self.ends.kind == "flags" and not (self.terminal or self.truncated or self.ends.column):
            raise ValueError("ends of kind flags need terminal, truncated or a column of their own")
        if self.action.entries or self.action.elements or self.reward.entries or self.reward.elements:
            raise ValueError("action and reward are one array each; join several columns with a list of names")
        if self.time_limit == "repair" and self.max_episode_steps is None and self.bounds != "environment":
            raise ValueError("time_limit: repair needs max_episode_steps, or bounds: environment")
        return self
