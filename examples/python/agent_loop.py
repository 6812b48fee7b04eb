"""An agent loop: a model asks for tools, a sandbox runs them, the results go back, until the model is content.

The model here is a script, so that the example runs without a network; a real one gets the same list of tools and
answers with the same calls. What the sandbox may do is decided outside of the model: three tools, no network, half a
core. A call that is denied goes back to the model as an observation, and into the audit.

    CAISSON_URL=http://127.0.0.1:8080 CAISSON_TOKEN=… python3 agent_loop.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generator

from caisson import ApiError, Client, Limits, Sandbox, SandboxConfig

STEPS_MAX = 20

TASK = "Make the tests pass."
FILES = {
    "fizz.sh": 'fizz() { if [ $(($1 % 3)) = 0 ]; then echo Buzz; else echo "$1"; fi; }\n',
    "test.sh": '. ./fizz.sh\n[ "$(fizz 3)" = Fizz ] && [ "$(fizz 4)" = 4 ] && echo passed\n',
}


@dataclass
class ToolCall:
    tool: str
    arguments: dict[str, Any]


class ScriptedModel:
    """Says what a model would say: look, try, be denied once, repair, try again, report."""

    def __init__(self) -> None:
        self._script = self._think()
        next(self._script)

    def answer(self, observation: dict[str, Any]) -> ToolCall | str:
        said = self._script.send(observation)
        assert said is not None
        return said

    def _think(self) -> Generator[ToolCall | str | None, dict[str, Any], None]:
        yield None
        seen = yield ToolCall("shell_exec", {"command": "sh test.sh"})
        assert seen["exit_code"] != 0, seen
        seen = yield ToolCall("http_request", {"method": "GET", "url": "http://example.com/answers"})
        assert seen["error"] == "Denied", seen  # it may not look the answer up
        seen = yield ToolCall("file_read", {"path": "fizz.sh"})
        repaired = seen["content"].replace("Buzz", "Fizz")
        yield ToolCall("file_write", {"path": "fizz.sh", "content": repaired})
        seen = yield ToolCall("shell_exec", {"command": "sh test.sh"})
        yield f"The tests say: {seen['stdout'].strip()}"


def run_tool(sandbox: Sandbox, call: ToolCall) -> dict[str, Any]:
    """A refusal is an observation for the model, not the end of the program."""
    try:
        return sandbox.execute(call.tool, **call.arguments).result
    except ApiError as error:
        return {"error": error.actual_code, "message": error.message, "field": error.field}


def main() -> None:
    config = SandboxConfig(tools=["shell_exec", "file_read", "file_write"], files=FILES,
                           resource_limits=Limits(cpu=0.5, memory_mb=128, timeout_seconds=120))
    with Client() as client, client.sandbox(config) as sandbox:
        model = ScriptedModel()
        # The first message of a real model would be the task and the schemas of the tools.
        tools = {tool.name for tool in client.tools()}
        observation: dict[str, Any] = {"task": TASK, "tools": sorted(tools & set(sandbox.info.tools))}
        # The first `answer` needs something to look at; each later one sees what its tool gave.
        for _ in range(STEPS_MAX):
            said = model.answer(observation)
            if isinstance(said, str):
                print(said)
                break
            observation = run_tool(sandbox, said)
            print(f"{said.tool}: {observation.get('error') or observation.get('exit_code', 'done')}")
        denied = [row for row in sandbox.logs().rows if row.outcome == "denied"]
        print(f"The audit has {len(denied)} denied call: {denied[0].action}")


if __name__ == "__main__":
    main()
