"""What the quality gate looks for and how strictly: the section `checks` of params.yaml."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Severity = Literal["fail", "warn", "off"]


class CheckParams(BaseModel):
    """One severity a check, then the thresholds. `fail` stops the pipeline, `warn` is reported only, `off` isn't looked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    episode_ids: Severity = "fail"  # none empty, none twice
    flags: Severity = "fail"  # is_first only on the first step, is_last only on the last, is_terminal only there
    lengths: Severity = "fail"  # at least one transition, at most the environment's step limit
    spec: Severity = "fail"  # nesting, shapes and dtypes of every array
    finite: Severity = "fail"  # no NaN, no infinity
    discount: Severity = "fail"  # 0 exactly on the transition into a terminal state, 1 elsewhere
    last_step: Severity = "fail"  # action, reward and discount of the last step are zero
    action_bounds: Severity = "fail"
    observation_bounds: Severity = "warn"
    reward_range: Severity = "fail"
    duplicates: Severity = "warn"  # episodes of identical content

    action_tolerance: float = Field(1e-5, ge=0, allow_inf_nan=False)  # beyond a bound, as a part of max(1, |bound|)
    observation_tolerance: float = Field(1e-5, ge=0, allow_inf_nan=False)
    reward_minimum: float | None = None  # None: the environment's own
    reward_maximum: float | None = None
    max_findings: int = Field(20, gt=0)  # written out for each check; more are counted

    @model_validator(mode="after")
    def _ordered(self) -> "CheckParams":
        if self.reward_minimum is not None and self.reward_maximum is not None and self.reward_minimum > self.reward_maximum:
            raise ValueError(f"reward_minimum {self.reward_minimum} is above reward_maximum {self.reward_maximum}")
        return self
