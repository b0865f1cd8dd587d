"""Tasks: everything that a run needs, read from a `task.yaml`.

task = load("task.yaml", Overrides(inputs={"doc": "@report.txt"}))
"""

from .loading import Overrides, load
from .models import Models, ModelSpec
from .problems import TaskError, TaskProblem
from .schema import json_schema
from .task import Task

__all__ = ["ModelSpec", "Models", "Overrides", "Task", "TaskError", "TaskProblem", "json_schema", "load"]
