"""CybORG's objects as bytes, which pickle alone cannot make."""

from __future__ import annotations

import copyreg
import io
import operator
import pickle
import random
from collections.abc import Mapping
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

RANDOM = "random"


def dumps(
    value: Any, modules: Mapping[str, ModuleType], generator: random.Random | None = None
) -> bytes:
    """Pickle a value. Definitions of `modules` and their random generator are named, not copied.

    An import need not find these modules.
    """
    file = io.BytesIO()
    _Pickler(file, modules, generator).dump(value)
    return file.getvalue()


def loads(
    pickled: bytes, modules: Mapping[str, ModuleType], generator: random.Random | None = None
) -> Any:
    """Return the value that `dumps` was given, in any process."""
    return _Unpickler(io.BytesIO(pickled), modules, generator).load()


def _proxy_of(mapping: Mapping[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _reduce_proxy(proxy: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    # The parameters of a function: CybORG keeps them with every action.
    return _proxy_of, (dict(proxy),)


class _Pickler(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table | {MappingProxyType: _reduce_proxy}

    def __init__(
        self, file: io.BytesIO, modules: Mapping[str, ModuleType], generator: random.Random | None
    ) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._modules = modules
        self._generator = generator

    def persistent_id(self, value: Any) -> tuple[str, ...] | None:
        if isinstance(value, type | FunctionType) and value.__module__ in self._modules:
            return value.__module__, value.__qualname__
        if value is self._generator and value is not None:
            return (RANDOM,)
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, modules: Mapping[str, ModuleType], generator: random.Random | None
    ) -> None:
        super().__init__(file)
        self._modules = modules
        self._generator = generator

    def persistent_load(self, named: tuple[str, ...]) -> Any:
        if named == (RANDOM,):
            return self._generator
        module, name = named
        return operator.attrgetter(name)(self._modules[module])
