"""Command-line options that are generated from the fields of a settings class."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import click
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from agents.settings import OneOf, Settings
from workflow_rl.commands.options import PATH, spelling


def options_of(settings: type[Settings]) -> list[click.Option]:
    """Return an option for each field, with its type, range, default and description."""
    return [_option(name, field) for name, field in settings.model_fields.items()]


def _option(name: str, field: FieldInfo) -> click.Option:
    kind, limits = _kind_and_limits(field.annotation)
    more: dict[str, Any] = {"help": field.description, "default": field.default}
    if kind is bool:
        return click.Option([spelling(name)], is_flag=True, **more)
    if get_origin(field.annotation) is tuple:
        more |= {"multiple": True, "help": f"{field.description} May be given again."}
    elif field.default is not None:
        more["show_default"] = True
    limits += field.metadata
    choices = next((one.names for one in limits if isinstance(one, OneOf)), None)
    if choices is not None:
        return click.Option([spelling(name)], type=click.Choice(list(choices)), **more)
    if kind is Path:
        return click.Option([spelling(name)], type=PATH, metavar="FOLDER", **more)
    if kind is int:
        least: Any = next((one.ge for one in limits if isinstance(one, Ge)), None)
        most: Any = next((one.le for one in limits if isinstance(one, Le)), None)
        more |= {"metavar": "N"}
        return click.Option([spelling(name)], type=click.IntRange(least, most), **more)
    return click.Option([spelling(name)], type=kind, **more)


def _kind_and_limits(annotation: Any) -> tuple[Any, list[Any]]:
    """Return the innermost type of an annotation, and what restricts it."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        limits = [
            limit
            for one in metadata
            for limit in (one.metadata if isinstance(one, FieldInfo) else (one,))
        ]
        kind, more = _kind_and_limits(inner)
        return kind, [*limits, *more]
    if get_origin(annotation) in (tuple, Union, types.UnionType):
        return _kind_and_limits(get_args(annotation)[0])
    return annotation, []
