"""Tasks: signature, inputs, models and limits of a run, read from a `task.yaml`.

task = load("task.yaml", Overrides(inputs={"doc": "@report.txt"}))
"""

from .errors import TaskError, TaskProblem
from .loader import Overrides, Recorded, load
from .models import Models, ModelSpec
from .schema import json_schema
from .task import Task

__all__ = ["ModelSpec", "Models", "Overrides", "Recorded", "Task", "TaskError", "TaskProblem", "json_schema", "load"]
