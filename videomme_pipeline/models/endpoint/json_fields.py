"""Types of the fields in the JSON of an endpoint.

A field that is not needed is None if its value has a wrong type. NUL characters are removed from
text, because databases and terminals end a text there.
"""

from typing import Annotated, TypeVar

import pydantic
from pydantic import AfterValidator, Field, WrapValidator

MAX_TOKENS = 2**63 - 1
"""The largest token count that a database stores."""


def _or_none(value: object, validate: pydantic.ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except pydantic.ValidationError:
        return None


AnyType = TypeVar("AnyType")
Text = Annotated[str, AfterValidator(lambda text: text.replace("\0", ""))]
OrNone = Annotated[AnyType | None, WrapValidator(_or_none)]
Tokens = OrNone[Annotated[int, Field(ge=0, le=MAX_TOKENS)]]


class Fields(pydantic.BaseModel):
    """Fields of a JSON object. Values of another type are not converted."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True)
