"""A service that grades code: each submission runs in a sandbox of its own, several at once, and none spoils another's.

A submission is graded against cases, each with an input and the output that is wanted. What it may use is limited, and
each way to fail has a verdict of its own.

    CAISSON_URL=http://127.0.0.1:8080 CAISSON_TOKEN=… python3 code_grading.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from caisson import AsyncClient, Limits, SandboxConfig

AT_ONCE_MAX = 4
CASE_SECONDS = 2.0
LIMITS = Limits(cpu=1, memory_mb=64, processes=32, disk_mb=8, timeout_seconds=60)


@dataclass(frozen=True)
class Case:
    given: str
    wanted: str


@dataclass(frozen=True)
class Verdict:
    submission: str
    points: int
    of: int
    why: str


CASES = [Case("3 4\n", "7\n"), Case("-1 1\n", "0\n"), Case("1000000 1\n", "1000001\n")]
SUBMISSIONS = {
    "good": "read a b; echo $((a + b))",
    "wrong": "read a b; echo $((a - b))",
    "endless": "while :; do :; done",
    "greedy": "head -c 300m /dev/zero | tail >/dev/null; echo never",
    "vandal": "rm -rf /usr/bin/* 2>/dev/null; echo gone > /etc/passwd; read a b; echo $((a + b))",
    "broken": "fi fi fi",
}


async def grade(client: AsyncClient, turns: asyncio.Semaphore, name: str, code: str) -> Verdict:
    config = SandboxConfig(files={"main.sh": code}, resource_limits=LIMITS, labels={"submission": name})
    async with turns, client.sandbox(config) as sandbox:
        points, why = 0, "all cases passed"
        for number, case in enumerate(CASES, 1):
            done = await sandbox.exec(["sh", "main.sh"], stdin=case.given, timeout_seconds=CASE_SECONDS)
            if done.timed_out:
                why = f"case {number}: took more than {CASE_SECONDS:g} s"
                break
            if done.oom_killed:
                why = f"case {number}: took more than {LIMITS.memory_mb:g} MiB"
                break
            if done.stdout == case.wanted:
                points += 1
            elif why.startswith("all"):
                what = "wrong answer" if done.exit_code == 0 else f"exit code {done.exit_code}"
                why = f"case {number}: {what}"
        return Verdict(name, points, len(CASES), why)


async def main() -> None:
    turns = asyncio.Semaphore(AT_ONCE_MAX)
    async with AsyncClient() as client:
        verdicts = await asyncio.gather(*(grade(client, turns, name, code) for name, code in SUBMISSIONS.items()))
    for verdict in verdicts:
        print(f"{verdict.submission:8} {verdict.points}/{verdict.of}  {verdict.why}")


if __name__ == "__main__":
    asyncio.run(main())
