"""The loader: from a `task.yaml` to a `Task`, with every problem of the file at once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import Limits

from ..agreement.settings import AgreementSettings
from ..budgets import FallbackTrigger
from ..mounts import holds_files
from ..mounts.output import OutputFile
from ..reading import Mode
from ..signatures import Signature, SignatureError
from ..signatures.checks import CheckProblem, read_check
from . import references
from .errors import TaskError, TaskProblem
from .inputs import InputReader, expand_home, standard_input
from .models import ROLES, Models, choose, local_problems, read_adapter
from .schema import BudgetFile, TaskFile
from .task import Task
from .validation import read_confidence, validate_script, validate_task
from .yaml_document import Document, read

if TYPE_CHECKING:
    from ..mcp.servers import McpServers
    from ..repl.learned import Learned
    from .plans import TaskPlans

# `doc:str` is an input: no module has a class named like a built-in type.
_REFERENCE = re.compile(r"[\w.-]+:(?!(?:str|int|float|bool|list|dict|bytes)$)[\w.]+")


@dataclass(frozen=True)
class Overrides:
    """Changes of the command line to a task file."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    """By name: a text (or JSON, where the field does not take text), `@file`, or `@-` for standard input."""

    models: Mapping[str, str] = field(default_factory=dict)
    """By role: main, sub, extraction; and as `api_base` the endpoint of the main model."""

    budget: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `FallbackTrigger`."""

    mode: Mode | None = None
    """Who writes the first cell."""

    agree: int | None = None
    """The number of runs in place of that of the file."""


@dataclass(frozen=True)
class Recorded:
    """A task as it was when it ran: its file and its inputs may have changed since, or be gone."""

    text: str
    inputs: Mapping[str, Any] | None
    """None: they are read from the sources that the text names."""

    models: Mapping[str, str] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    mode: Mode | None = None
    agree: int | None = None
    """Changes of the command line at that time."""

    mcp: Sequence[Mapping[str, Any]] | None = None
    """The tools of its MCP servers, which need not be started to replay it."""


def load(
    path: str | Path,
    overrides: Overrides | None = None,
    *,
    read_stdin: Callable[[], str] | None = standard_input,
    recorded: Recorded | None = None,
    partial: bool = False,
) -> Task:
    """Return the task in a file, or raise `TaskError` with every problem.

    With `read_stdin=None`, inputs from standard input are left out of the task instead of being read. With `recorded`,
    neither the file nor its inputs are read: the recorded ones are used. With `partial`, inputs may be missing.
    """
    overrides = overrides or Overrides()
    if recorded is not None:
        models, budget = {**recorded.models, **overrides.models}, {**recorded.budget, **overrides.budget}
        mode = overrides.mode or recorded.mode
        agree = overrides.agree if overrides.agree is not None else recorded.agree
        overrides = dataclasses.replace(overrides, models=models, budget=budget, mode=mode, agree=agree)
    loader = _Loader(Path(path), overrides, read_stdin, recorded, partial)
    task = loader.load()
    if task is None or loader.problems:
        raise TaskError(loader.problems)
    return task


class _Loader:
    """Reads one file and collects problems. Each part is checked as far as the others allow."""

    def __init__(
        self,
        path: Path,
        overrides: Overrides,
        read_stdin: Callable[[], str] | None,
        recorded: Recorded | None,
        partial: bool,
    ) -> None:
        self.path, self.overrides, self.read_stdin, self.recorded = path, overrides, read_stdin, recorded
        self.partial = partial
        self.document: Document = read(path) if recorded is None else Document(str(path), recorded.text)
        self.folder = path.absolute().parent
        self.problems: list[TaskProblem] = list(self.document.problems)
        self.warnings: list[TaskProblem] = []

    def load(self) -> Task | None:
        """Return the task; None if there are problems that leave none."""
        file, problems, broken = validate_task(self.document)
        self.problems += problems
        if file is None:
            return None
        models = self._models(file, ("models",) in broken)
        trigger = self._trigger(file.budget)
        signature = self._signature(file)
        self._tools(file, signature)
        servers = self._servers(file)
        inputs = self._inputs(
            file, signature, servers, {str(path[1]) for path in broken if path[0] == "inputs" and path[1:]}
        )
        self._checks(file, signature)
        plans = self._plans(file, signature)
        adapter, problems = read_adapter(file.adapter, self.document, self.folder)
        self.problems += problems
        if adapter is not None and adapter.model is not None and adapter.model.scripted is not None:
            self._script(adapter.model.scripted, ("adapter", "model", "scripted"))
        scorer, problems = read_confidence(file.confidence, self.document, self.folder)
        self.problems += problems
        learned = self._learned(file.learned)
        if signature is None or models is None or trigger is None:
            return None
        self._map(file, signature)
        limits = file.sandbox.model_dump(exclude={"isolation", "policy", "packages"})
        return Task(
            signature=signature,
            inputs=inputs,
            models=models,
            trigger=trigger,
            limits=Limits(**limits),
            isolation=file.sandbox.isolation,
            policy=file.sandbox.policy,
            tool_references=tuple(file.tools),
            mcp=servers,
            checks=list(file.checks),
            depth=file.depth,
            scorer=scorer,
            adapter=adapter,
            mode=self.overrides.mode or file.mode or ("repl" if file.map is None else "map"),
            map=file.map,
            plans=plans,
            agreement=self._agreement(file),
            verify=file.verify,
            learned=learned,
            packages=self._packages(file),
            save=self._save(file, signature),
            overwrite=file.overwrite,
            warnings=tuple(self.warnings),
            path=self.path.absolute(),
            source={
                "path": str(self.path.absolute()),
                "text": self.document.text,
                "models": dict(self.overrides.models),
                "budget": dict(self.overrides.budget),
                **({} if self.overrides.mode is None else {"mode": self.overrides.mode}),
                **({} if self.overrides.agree is None else {"agree": self.overrides.agree}),
            },
        )

    def _learned(self, name: str | None) -> Learned | None:
        if name is None:
            return None
        from ..repl.learned import LearnedFileError, read_learned

        try:
            return read_learned(self.folder / name)
        except LearnedFileError as error:
            self.problems.append(self.document.problem(f"learned: {error}", self.document.value_place(("learned",))))
        return None

    def _signature(self, file: TaskFile) -> Signature | None:
        path, text = ("signature",), file.signature
        try:
            source = text if "->" in text else self._signature_class(text)
            signature = Signature.of(source, instructions=file.instructions, reserved=_reserved())
        except SignatureError as error:
            place = self.document.value_place(path)
            if error.text is not None and error.position is not None:
                place = self.document.place_inside(path, error.position)
            message = str(error).splitlines()[0].partition(" (at ")[0]
            self.problems.append(self.document.problem(f"signature: {message}", place))
        except references.ImportProblem as error:
            self.problems.append(self.document.problem(f"signature: {error}", self.document.value_place(path)))
        else:
            try:
                return signature.citing(file.cite)
            except SignatureError as error:
                self.problems.append(self.document.problem(f"cite: {error}", self.document.value_place(("cite",))))
        return None

    def _signature_class(self, reference: str) -> Any:
        if ":" not in reference:
            raise SignatureError(
                "this is neither 'inputs -> outputs', as in 'doc: str -> title: str', nor module:Class"
            )
        if not _REFERENCE.fullmatch(reference.strip()):
            raise SignatureError("'->' and the outputs are missing, as in 'doc: str -> title: str'")
        references.check(self.folder, reference)
        return references.load(self.folder, reference)

    def _models(self, file: TaskFile, broken: bool) -> Models | None:
        models = choose(file.models, self.overrides.models, self.folder)
        misspelt = self.document.has(("model",))  # which is a problem of its own
        if models is None and not broken and not misspelt:
            message = "models.main is missing; add a model, as in `models: openai/gpt-5-mini`, or use --model"
            self.problems.append(self.document.problem(message, self.document.key_place(("models",))))
        seen: set[Path] = set()
        for role in ROLES:
            script = getattr(models, role).scripted if models is not None else None
            if script is not None and script not in seen:
                seen.add(script)
                own = ("models", role, "scripted")
                self._script(script, own if self.document.has(own) else ("models", "scripted"))
        if models is not None:
            self.problems += local_problems(models, self.document, self.folder, self.overrides.models)
        return models

    def _script(self, script: Path, path: tuple[str, ...]) -> None:
        shown = self.path.parent / script.relative_to(self.folder) if script.is_relative_to(self.folder) else script
        try:
            document = read(script, str(shown))
            self.problems += document.problems or validate_script(document)
        except TaskError as error:
            # Problems inside the script have their place there; a missing script is reported where it is named.
            place = self.document.value_place(path)
            self.problems += [
                self.document.problem(f"{'.'.join(path)}: {problem}", place) if problem.where == str(shown) else problem
                for problem in error.problems
            ]

    def _map(self, file: TaskFile, signature: Signature) -> None:
        if file.map is None:
            return
        try:
            file.map.for_signature(signature)
        except ValueError as error:
            self.problems.append(self.document.problem(str(error), self.document.key_place(("map",))))

    def _trigger(self, file: BudgetFile) -> FallbackTrigger | None:
        presets = {None: FallbackTrigger, "strict": FallbackTrigger.strict, "lenient": FallbackTrigger.lenient}
        changes = file.model_dump(exclude={"preset"}, exclude_unset=True) | dict(self.overrides.budget)
        try:
            return dataclasses.replace(presets[file.preset](), **changes)
        except (ValueError, TypeError) as error:
            self.problems.append(TaskProblem("budget", str(error)))
            return None

    def _servers(self, file: TaskFile) -> McpServers | None:
        """Return the MCP servers of the task; none is started."""
        if not file.mcp:
            return None
        from ..mcp.servers import McpServers

        recorded = None if self.recorded is None else self.recorded.mcp
        try:
            return McpServers(file.mcp, folder=self.folder, recorded=recorded)
        except ValueError as error:
            self.problems.append(self.document.problem(f"mcp: {error}", self.document.key_place(("mcp",))))
            return None

    def _inputs(
        self, file: TaskFile, signature: Signature | None, servers: McpServers | None, broken: set[str]
    ) -> dict[str, Any]:
        if self.recorded is not None and self.recorded.inputs is not None:
            return dict(self.recorded.inputs)
        reader = InputReader(signature, self.folder, self.document, self.read_stdin, self.partial, servers)
        inputs = reader.read(file.inputs, self.overrides.inputs, broken)
        self.problems += reader.problems
        self.warnings += reader.warnings
        return inputs

    def _tools(self, file: TaskFile, signature: Signature | None) -> None:
        from ..repl.caller_tools import tool_problem

        seen: dict[str, int] = {}
        inputs = {field.name for field in signature.inputs} if signature is not None else set()
        for index, reference in enumerate(file.tools):
            place, name = self.document.value_place(("tools", index)), reference.partition(":")[2]
            if name in seen:
                message = f"tools[{index}]: there is already a tool {name!r}; rename this one"
                self.problems.append(self.document.problem(message, place))
            elif (problem := tool_problem(name, inputs)) is not None:
                self.problems.append(self.document.problem(f"tools[{index}]: {problem}", place))
            seen[name] = index
            try:
                references.check(self.folder, reference)
            except references.ImportProblem as error:
                self.problems.append(self.document.problem(f"tools[{index}]: {error}", place))

    def _agreement(self, file: TaskFile) -> AgreementSettings | None:
        agree = file.agree
        runs, reconcile = (agree, False) if isinstance(agree, int) else (agree.runs, agree.reconcile)
        wanted = runs if self.overrides.agree is None else self.overrides.agree
        return AgreementSettings(wanted, reconcile) if wanted > 1 else None

    def _plans(self, file: TaskFile, signature: Signature | None) -> TaskPlans | None:
        if file.plans is None:
            return None
        from .plans import plan_problems, read_plans

        tools = [reference.partition(":")[2] for reference in file.tools]
        self.problems += plan_problems(file.plans, signature, tools, self.document, self.folder)
        plans = read_plans(file.plans, self.folder)
        for name, spec in plans.models.items():
            if spec.scripted is not None:
                self._script(spec.scripted, ("plans", "models", name, "scripted"))
        return plans

    def _packages(self, file: TaskFile) -> Path | None:
        """Return the requirements file, which must be there."""
        if file.sandbox.packages is None:
            return None
        path = self.folder / expand_home(file.sandbox.packages)
        if not path.is_file():
            place = self.document.value_place(("sandbox", "packages"))
            self.problems.append(self.document.problem(f"sandbox.packages: there is no file {path}", place))
        return path

    def _save(self, file: TaskFile, signature: Signature) -> dict[str, str]:
        """Return where files of outputs are copied to."""
        outputs = {field.name: field for field in signature.outputs}
        places: dict[str, str] = {}
        for name, place in file.save.items():
            if name not in outputs or not holds_files(outputs[name].type, OutputFile):
                what = "is no output that is a File" if name in outputs else "is not an output of the signature"
                listed = ", ".join(each for each, field in outputs.items() if holds_files(field.type, OutputFile))
                message = f"save.{name} {what}; those are: {listed or 'none'}"
                self.problems.append(self.document.problem(message, self.document.key_place(("save", name))))
            else:
                path = str(self.folder / expand_home(place))
                places[name] = f"{path}/" if place.endswith("/") else path
        return places

    def _checks(self, file: TaskFile, signature: Signature | None) -> None:
        outputs = [field.name for field in signature.outputs] if signature is not None else None
        inputs = [field.name for field in signature.inputs] if signature is not None else ()
        for index, text in enumerate(file.checks):
            try:
                read_check(text, outputs, inputs)
            except CheckProblem as error:
                place = self.document.place_inside(("checks", index), error.position)
                self.problems.append(self.document.problem(f"checks[{index}]: {error}", place))


def _reserved() -> frozenset[str]:
    """Return the names that the REPL reserves."""
    from ..repl.tools import RESERVED

    return RESERVED
