"""`About`: what only a person knows of a data set, and others need to find and use it."""

from datetime import date

from pydantic import BaseModel, ConfigDict, Field, field_validator


class About(BaseModel):
    """For the data card and for Croissant, which asks for all of it but the citation. What is empty is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str = Field("", description="what the data are, in a sentence or two")
    license: str = Field("", description="its address or its SPDX name, such as https://creativecommons.org/licenses/by/4.0/")
    creators: tuple[str, ...] = Field((), description="people or organisations")
    url: str = Field("", description="where the data set is published")
    date_published: str = Field("", pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="year-month-day")

    @field_validator("date_published")
    @classmethod
    def _a_day(cls, value: str) -> str:
        if value:
            try:
                date.fromisoformat(value)
            except ValueError as error:
                raise ValueError(f"no day of the calendar: {error}") from error
        return value

    citation: str = Field("", description="BibTeX, best")
