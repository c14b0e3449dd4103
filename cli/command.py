"""Makes a command of a function: reads its parameters, provides services, prints its output."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from cli.common import STOPPED, exit_codes, with_services, with_source
from cli.options import Common, OptionGroup, Printing
from cli.output import Output
from graphrag.config import Settings


def command(
    group: typer.Typer | None = None,
    name: str | None = None,
    *,
    json: bool = True,
    creates: bool = False,
    stopped: str | None = STOPPED,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Returns a decorator that makes a command of a function, in `group` if one is given.

    The parameters of the function become options and arguments. Parameters without a declaration
    are passed in by name: `settings`; and in a coroutine function `language`, `services` and
    `person`, the local one (see `with_services`, also for `creates`), or `source` (see
    `with_source`). A parameter of an `OptionGroup` class stands for the options of the group.

    The options of `Common` are added last, or those of its parameter of a `Printing` class;
    `json=False` leaves out --json. An `Output` that the function returns is printed. `stopped` is
    printed at Ctrl-C. In a group, a command without a `name` runs if only the group's name is
    typed.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        signature = _Signature.of(function, json=json)
        is_callback = group is not None and name is None

        def called(**typed: Any) -> None:
            context: typer.Context | None = typed.pop(_CONTEXT, None)
            if context is None or context.invoked_subcommand is None:
                run = _CommandRun(function, *signature.grouped(typed), signature.provided)
                run.run(creates=creates, stopped=stopped)

        parameters = list(signature.parameters)
        if is_callback:
            parameters.append(inspect.Parameter(_CONTEXT, _KEYWORD, annotation=typer.Context))
        called.__name__ = function.__name__
        called.__doc__ = function.__doc__
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        called.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        if group is None:
            return called
        if is_callback:
            return group.callback(invoke_without_command=True)(called)
        return group.command(name)(called)

    return decorate


_CONTEXT = "context"
_COMMON = "common"
_PROVIDED = frozenset({"settings", "language", "services", "person", "source"})
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
# Commands that import little import this class for type checkers only.
_OPENED = {"Services": object}


@dataclass(frozen=True, slots=True)
class _Signature:
    """The parameters of a command's function.

    `parameters`: its options and arguments, as Typer reads them. `groups`: its parameters that
    stand for a group of options. `common`: which of these is the `Printing`. `takes_common`:
    whether the function has it. `provided`: the parameters that the command passes in.
    """

    parameters: list[inspect.Parameter]
    groups: Mapping[str, type[OptionGroup]]
    common: str
    takes_common: bool
    provided: frozenset[str]

    @staticmethod
    def of(function: Callable[..., Any], *, json: bool) -> _Signature:
        own = dict(inspect.signature(function, locals=_OPENED, eval_str=True).parameters)
        provided = frozenset(
            name for name in _PROVIDED & own.keys() if get_origin(own[name].annotation) != Annotated
        )
        groups = {name: p.annotation for name, p in own.items() if _is_group(p.annotation)}
        common = next((n for n, group in groups.items() if issubclass(group, Printing)), None)
        parameters: list[inspect.Parameter] = []
        for name, parameter in own.items():
            if name in groups and name != common:
                parameters += _options(groups[name])
            elif name not in groups and name not in provided:
                parameters.append(parameter.replace(kind=_KEYWORD))
        if common is None:
            groups[_COMMON] = Common
        last = _options(groups[common or _COMMON])
        parameters += [one for one in last if json or one.name != "as_json"]
        return _Signature(parameters, groups, common or _COMMON, common is not None, provided)

    def grouped(self, typed: dict[str, Any]) -> tuple[Printing, dict[str, Any]]:
        """Returns the common options and the arguments of the function."""
        arguments = dict(typed)
        for name, group in self.groups.items():
            options = {f.name: arguments.pop(f.name) for f in fields(group) if f.name in arguments}
            arguments[name] = group(**options)
        common = arguments[self.common] if self.takes_common else arguments.pop(self.common)
        return common, arguments


@dataclass(frozen=True, slots=True)
class _CommandRun:
    """One run of a command: its function, and the options and arguments that were typed."""

    function: Callable[..., Any]
    common: Printing
    arguments: dict[str, Any]
    provided: frozenset[str]

    def run(self, *, creates: bool, stopped: str | None) -> None:
        """Calls the function with what it needs and prints its output."""
        if not inspect.iscoroutinefunction(self.function):
            passed = {"settings": self.common.settings()} if "settings" in self.provided else {}
            self._finish(self.function(**self.arguments, **passed))
            return
        settings = self.common.settings()
        with exit_codes(settings.language, stopped=stopped):
            asyncio.run(self._work(settings, creates=creates))

    async def _work(self, settings: Settings, *, creates: bool) -> None:
        if "source" in self.provided:
            await with_source(settings, lambda source: self._call(settings, source=source))
        elif {"services", "person"} & self.provided:
            await with_services(
                settings,
                lambda on: self._call(settings, services=on, person=on.local_person()),
                creates=creates,
            )
        else:
            await self._call(settings)

    async def _call(self, settings: Settings, **opened: Any) -> None:
        available = {"settings": settings, "language": settings.language, **opened}
        passed = {name: available[name] for name in self.provided}
        self._finish(await self.function(**self.arguments, **passed))

    def _finish(self, output: Output | None) -> None:
        if output is not None:
            output.finish(as_json=self.common.as_json)


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _options(group: type[OptionGroup]) -> list[inspect.Parameter]:
    """Returns the options of a group."""
    hints = get_type_hints(group, include_extras=True)

    def parameter(name: str, default: Any) -> inspect.Parameter:
        given = inspect.Parameter.empty if default is MISSING else default
        return inspect.Parameter(name, _KEYWORD, annotation=hints[name], default=given)

    return [parameter(field.name, field.default) for field in fields(group)]
