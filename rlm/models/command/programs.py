"""Commands that ask a model, and how each is called. The process is in `process`, what it prints in `replies`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from ...errors import RlmError

PREFIX = "cli/"

MAX_ARGUMENT_BYTES = 100_000
"""The longest system prompt that is passed as an argument. Linux allows 128 KiB for each."""


class UnknownProgram(RlmError):
    """The name of a model that begins with `cli/` names no known program."""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command that reads a prompt and prints the answer of a model."""

    argv: tuple[str, ...]
    """The program and its arguments, with `{prompt}`, `{system}` and `{model}`. Without `{prompt}`, standard input has
    the prompt; without `{system}`, the prompt begins with the system prompt."""

    reply: str = "text"
    """How the output is read: `text`, the name of a reader in `replies`, or a path in JSON such as `choices.0.text`."""

    model: str = ""
    """The model that the program is to ask; empty for its own default."""

    model_option: tuple[str, ...] = ()
    """The arguments that name the model, where there is one."""

    env: tuple[str, ...] = ()
    """Names of variables that the program gets, beside those that every program needs."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set for the program; `{folder}` is its working directory."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Files in the working directory, which is empty otherwise. `{system}` in a text is the system prompt."""

    @property
    def program(self) -> str:
        """Return the name of the program."""
        return self.argv[0]

    @property
    def takes_system(self) -> bool:
        """Return whether the system prompt has a place of its own."""
        return any("{system}" in part for part in (*self.argv, *self.files.values()))


# Without tools, files, settings of projects, or a record of the conversation, as far as each program allows.
_CODEX_FEATURES = (
    *("shell_tool", "unified_exec", "apps", "browser_use", "computer_use", "plugins", "image_generation", "hooks"),
    *("view_image", "sleep_tool", "goals", "tool_suggest", "skill_search", "multi_agent", "in_app_browser"),
)
_PROGRAMS = {
    "claude": CommandSpec(
        (
            *("claude", "--print", "--output-format", "json", "--tools", "", "--strict-mcp-config"),
            *("--setting-sources", "", "--disable-slash-commands", "--no-session-persistence"),
            *("--system-prompt", "{system}"),
        ),
        "claude",
        model_option=("--model", "{model}"),
        env=(
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
        ),
        settings={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1"},
    ),
    "codex": CommandSpec(
        (
            *("codex", "exec", "--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config"),
            *("--ignore-rules", "--sandbox", "read-only", "-c", 'web_search="disabled"'),
            *(part for name in _CODEX_FEATURES for part in ("-c", f"features.{name}=false")),
        ),
        "codex",
        model_option=("--model", "{model}"),
        env=("CODEX_HOME", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ),
    "gemini": CommandSpec(
        ("gemini", "--output-format", "json", "--skip-trust", "--extensions", "none", "--policy", "no-tools.toml"),
        "gemini",
        model_option=("--model", "{model}"),
        env=(
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT"),
            *("GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
        ),
        settings={"GEMINI_SYSTEM_MD": "{folder}/system.md"},
        files={
            "no-tools.toml": '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n',
            "system.md": "{system}",
        },
    ),
    "llm": CommandSpec(
        ("llm", "prompt", "--no-stream", "--no-log", "--usage", "--system", "{system}"),
        "llm",
        model_option=("--model", "{model}"),
        env=("LLM_USER_PATH", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "LLM_GEMINI_KEY"),
    ),
}
PROGRAMS = tuple(_PROGRAMS)


def program_spec(name: str) -> CommandSpec:
    """Return the command of a model called `cli/PROGRAM` or `cli/PROGRAM/MODEL`. Raises `UnknownProgram`."""
    program, _, model = name.removeprefix(PREFIX).partition("/")
    if program not in _PROGRAMS:
        raise UnknownProgram(
            f"{name}: no such program; there are {', '.join(PREFIX + known for known in PROGRAMS)}. Any other command "
            "can be given as `command: [program, argument, ...]`"
        )
    return replace(_PROGRAMS[program], model=model)


def name_of(spec: CommandSpec) -> str:
    """Return the name of a model that any other command asks."""
    return f"command/{PurePath(spec.program).name}"
