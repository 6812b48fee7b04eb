"""The client for asyncio against a real server: it is the source of the other one, so here is what only tasks do."""

import asyncio

from client_case import ClientCase

import caisson
from caisson import AsyncClient, SandboxConfig
from harness import main


class Async(ClientCase):
    def run_with_client(self, work, **options):
        async def inner():
            async with AsyncClient(options.pop("url", self.server.url), self.server.token, **options) as client:
                return await asyncio.wait_for(work(client), 120)

        return asyncio.run(inner())

    def test_the_example_of_cagebox(self):
        async def work(c):
            async with c.sandbox(SandboxConfig(tools=["shell_exec"], files={"a.txt": "42\n"})) as sb:
                r = await sb.execute("shell_exec", command="cat a.txt")
                self.assertEqual(r.stdout, "42\n")
                with self.assertRaises(caisson.DeniedError):
                    await sb.execute("file_read", path="a.txt")
            with self.assertRaises(caisson.NotFoundError):
                await c.get(sb.id)

        self.run_with_client(work)

    def test_streams(self):
        async def work(client):
            async with client.sandbox() as sandbox:
                async with sandbox.exec_stream("echo one; echo two >&2; exit 3") as stream:
                    seen = {one.stream: one.data async for one in stream}
                self.assertEqual(seen, {"stdout": b"one\n", "stderr": b"two\n"})
                self.assertEqual(stream.exit.exit_code, 3)
                async with sandbox.exec_interactive(["cat"]) as command:
                    await command.write(b"z" * 3_000_000)
                    await command.close_input()
                    size = 0
                    async for one in command:
                        size += len(one.data)
                self.assertEqual(size, 3_000_000)
                async with sandbox.terminal(command="stty size; exec sh -i") as terminal:
                    await terminal.read_until(b"24 80")
                    await terminal.write("exit 6\n")
                    self.assertEqual((await terminal.wait()).exit_code, 6)

        self.run_with_client(work)

    def test_files_and_events(self):
        async def work(client):
            async with client.events() as events, client.sandbox() as sandbox:
                async for event in events:
                    if event.sandbox == sandbox.id:
                        break
                self.assertEqual(event.type, "sandbox.created")
                async with sandbox.files.watch() as changes:
                    await sandbox.files.write("big.bin", (b"x" * 100_000 for _ in range(20)))
                    change = await changes.__anext__()
                    self.assertNotEqual(change.path, "")
                async with sandbox.files.download("big.bin") as download:
                    self.assertEqual(sum([len(one) async for one in download]), 2_000_000)
                rows = [row async for row in client.audit_rows(sandbox=sandbox.id)]
                self.assertEqual(rows[0].action, "sandbox.create")

        self.run_with_client(work)

    def test_many_tasks(self):
        async def one(client, at):
            async with client.sandbox() as sandbox:
                return (await sandbox.exec(f"echo {at}")).stdout

        async def work(client):
            seen = await asyncio.gather(*(one(client, at) for at in range(20)))
            self.assertEqual(seen, [f"{at}\n" for at in range(20)])

        self.run_with_client(work, connections_max=4)

    def test_lost_answers(self):
        relay = self.relay()

        async def work(client):
            relay.to_lose = 1
            async with client.sandbox() as sandbox:
                self.assertEqual([one.id for one in await client.sandboxes()], [sandbox.id])
                process = await sandbox.processes.start("echo one; read x; echo two")
                async with process.output() as output:
                    seen = (await output.__anext__()).data
                    relay.cut()
                    await process.write("go\n")
                    async for item in output:
                        seen += item.data
                self.assertEqual(seen, b"one\ntwo\n")

        self.run_with_client(work, url=relay.url)

    def test_over_tls(self):
        relay, trust = self.tls_relay()

        async def work(client):
            async with client.sandbox() as sandbox:
                await sandbox.files.write("large.bin", b"x" * 2_000_000)
                self.assertEqual(len(await sandbox.files.read("large.bin")), 2_000_000)

        self.run_with_client(work, url=relay.url, tls=trust)

    def test_a_task_that_is_cancelled_leaves_nothing(self):
        async def cancelled(client):
            async with client.sandbox() as sandbox:
                task = asyncio.create_task(sandbox.exec("echo begun > mark; sleep 1000", timeout_seconds=900))
                while "mark" not in [entry.name for entry in await sandbox.files.list()]:
                    pass
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                while "sleep" in (await sandbox.exec("cat /proc/[0-9]*/comm")).stdout.split():
                    pass

        self.run_with_client(cancelled)


if __name__ == "__main__":
    main()
