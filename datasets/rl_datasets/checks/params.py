"""`CheckParams`: what the quality gate looks for and how strictly, one entry a check of the catalogue; a section of params.yaml."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.checks.check import Options


class _Gate(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_findings: int = Field(20, gt=0, description="findings written out for each check; more are counted")
    quarantine_limit: float = Field(0.05, ge=0, le=1, description="share of the episodes that may be set aside; more is a failure")

    def of(self, check: str) -> Options:
        """Returns the options of one check."""
        options: Options = getattr(self, check)
        return options

    def merged_into(self, default: "_Gate") -> "CheckParams":
        """Returns `default` with what was set here in its place, option by option. Raises pydantic's ValidationError where they clash."""
        return CheckParams.model_validate(_merged(default.model_dump(), self.model_dump(exclude_unset=True)))


if TYPE_CHECKING:

    class CheckParams(_Gate):
        """One field a check, which `of` returns."""

else:
    CheckParams = create_model("CheckParams", __base__=_Gate, **{check.name: (check.options, check.options()) for check in CATALOGUE})


def _merged(default: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    return {**default, **{key: _merged(default[key], value) if isinstance(value, Mapping) else value for key, value in over.items()}}
