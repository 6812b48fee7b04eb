"""Map over a hundred forks: prepare a sandbox once, then try a hundred things on its files, sixteen at a time.

A fork costs the same whatever the size of the files, because they are kept once. Each tries one number; what the best
one wrote is merged back into the first sandbox.

    CAISSON_URL=http://127.0.0.1:8080 CAISSON_TOKEN=… python3 map_forks.py [FORKS]
"""

from __future__ import annotations

import asyncio
import sys
import time

from caisson import AsyncClient, AsyncSandbox, Limits, SandboxConfig

AT_ONCE_MAX = 16
TARGET = 1764


class Best:
    """The fork that came nearest. Every other one goes as soon as it has lost, so that few live at a time."""

    def __init__(self) -> None:
        self.off = sys.maxsize
        self.fork: AsyncSandbox | None = None

    async def offer(self, off: int, fork: AsyncSandbox) -> None:
        loser: AsyncSandbox | None = fork
        if off < self.off:
            loser, self.off, self.fork = self.fork, off, fork
        if loser is not None:
            await loser.destroy()


async def attempt(base: AsyncSandbox, turns: asyncio.Semaphore, best: Best, number: int) -> None:
    async with turns:
        fork = await base.fork()
        try:
            done = await fork.exec(["sh", "score.sh", str(number)])
        except BaseException:
            await fork.destroy()
            raise
        await best.offer(int(done.stdout), fork)


async def main(forks: int) -> None:
    config = SandboxConfig(files={"score.sh": f"d=$(($1 * $1 - {TARGET})); echo $1 > answer; echo ${{d#-}}\n"},
                           resource_limits=Limits(memory_mb=32, timeout_seconds=300))
    turns = asyncio.Semaphore(AT_ONCE_MAX)
    async with AsyncClient() as client, client.sandbox(config) as base:
        await base.exec("head -c 20000000 /dev/urandom > large.bin")
        begun = time.monotonic()
        best = Best()
        await asyncio.gather(*(attempt(base, turns, best, number) for number in range(forks)))
        print(f"{forks} forks tried in {time.monotonic() - begun:.2f} s")
        assert best.fork is not None
        async with best.fork as winner:
            await base.merge(f"sandbox:{winner.id}")
        print(f"the best is off by {best.off}; its answer is {(await base.files.read_text('answer')).strip()}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
