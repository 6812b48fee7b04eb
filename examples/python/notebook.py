"""A session like a notebook's: cells run in one interpreter, keep their variables, and what they did is taken back.

The interpreter lives inside the sandbox and reads cells from its standard input; a marker tells where a cell's output
ends. The files are kept as a snapshot, so a cell that spoiled the data is undone without starting over.

    CAISSON_URL=http://127.0.0.1:8080 CAISSON_TOKEN=… python3 notebook.py
"""

from __future__ import annotations

import json

from caisson import Client, Limits, Sandbox, SandboxConfig

DATA = "city,degrees\nOslo,4\nRome,18\nCairo,28\nLima,20\n"
# Runs cells for ever: a line of JSON in, the output of the cell out, then the marker.
KERNEL = """
import json, sys, traceback
names = {}
for line in sys.stdin:
    cell = json.loads(line)
    try:
        exec(compile(cell["code"], "<cell>", "exec"), names)
    except BaseException:
        traceback.print_exc(limit=0, file=sys.stdout)
    print(cell["marker"], flush=True)
"""


class Notebook:
    """Cells in a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._cells = 0
        sandbox.files.write("/tmp/kernel.py", KERNEL)
        self._start()

    def _start(self) -> None:
        self._kernel = self._sandbox.processes.start(["python3", "-u", "/tmp/kernel.py"], merge_stderr=True)
        self._output = self._kernel.output()

    def run(self, code: str) -> str:
        """Output of one cell."""
        self._cells += 1
        marker = f"--- end of cell {self._cells} ---"
        self._kernel.write(json.dumps({"code": code, "marker": marker}) + "\n")
        seen = ""
        for output in self._output:
            seen += output.text
            if seen.endswith(marker + "\n"):
                return seen.removesuffix(marker + "\n")
        raise RuntimeError(f"the interpreter ended: {self._output.exit}")

    def back_to(self, snapshot: str) -> None:
        """The files as they were; the interpreter starts anew, because its memory is of another time."""
        self._output.close()
        self._sandbox.undo(snapshot=snapshot, end_processes=True)
        self._start()


def main() -> None:
    config = SandboxConfig(files={"cities.csv": DATA}, resource_limits=Limits(memory_mb=256, timeout_seconds=300))
    with Client() as client, client.sandbox(config) as sandbox:
        notebook = Notebook(sandbox)
        notebook.run("import csv, statistics")
        notebook.run("rows = list(csv.DictReader(open('/workspace/cities.csv')))")
        print("mean:", notebook.run("print(statistics.mean(int(row['degrees']) for row in rows))"), end="")
        print("error:", notebook.run("rows[0]['humidity']"), end="")
        print("still there:", notebook.run("print(len(rows), 'rows')"), end="")

        kept = sandbox.snapshot()
        notebook.run("open('/workspace/cities.csv', 'w').close()")
        print("spoiled:", sandbox.files.stat("cities.csv").size, "bytes")
        for change in sandbox.diff(f"snapshot:{kept.id}").changes:
            print("changed:", change.kind, change.path)
        notebook.back_to(kept.id)
        print("again:", notebook.run("print(open('/workspace/cities.csv').readline())").strip())

        notebook.run("open('/workspace/report.txt', 'w').write('warmest: Cairo')")
        print(sandbox.files.read_text("report.txt"))


if __name__ == "__main__":
    main()
