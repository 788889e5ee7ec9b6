"""`CheckParams`: what the quality gate looks for and how strictly, one entry a check of the catalogue; a section of params.yaml."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.checks.check import Options
from rl_datasets.validation import validated_over


class _Gate(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_findings: int = Field(20, gt=0, description="findings written out for each check; more are counted")
    quarantine_limit: float = Field(0.05, ge=0, le=1, description="share of the episodes that may be set aside; more is a failure")

    def of(self, check: str) -> Options:
        """Returns the options of one check."""
        options: Options = getattr(self, check)
        return options

    def merged_into(self, default: "_Gate", path: str, common: str, source: str = "params.yaml") -> "CheckParams":
        """Returns `default`, which stands under `common`, with what was set here, under `path`, in its place, option by option.

        Raises HindcastError where they clash.
        """
        own = self.model_dump(exclude_unset=True)
        return validated_over(CheckParams, _merged(default.model_dump(), own), own, path, common, source)


if TYPE_CHECKING:

    class CheckParams(_Gate):
        """One field a check, which `of` returns."""

else:
    CheckParams = create_model("CheckParams", __base__=_Gate, **{check.name: (check.options, check.options()) for check in CATALOGUE})


def _merged(default: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    return {**default, **{key: _merged(default[key], value) if isinstance(value, Mapping) else value for key, value in over.items()}}
