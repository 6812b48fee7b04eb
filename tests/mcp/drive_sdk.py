"""What a client of the official Python SDK does with a server, told as one line of JSON.

    python drive_sdk.py legacy|auto|2026-07-28 http URL TOKEN
    python drive_sdk.py legacy|auto|2026-07-28 stdio COMMAND ARGUMENT…
"""

import json
import os
import sys

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main():
    mode, way, *rest = sys.argv[1:]
    if way == "http":
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {rest[1]}"}, timeout=30)
        transport = streamable_http_client(rest[0], http_client=http)
    else:
        transport = stdio_client(StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ)))
    seen = []

    async def progress(done, total, message):
        seen.append(done)

    async with Client(transport, mode=mode) as client:
        tools = (await client.list_tools()).tools
        written = await client.call_tool("write", {"path": "f", "content": "hello"})
        sandbox = written.structured_content["sandbox"]
        ran = await client.call_tool("run", {"command": "cat f", "sandbox": sandbox})
        failed = await client.call_tool("read", {"path": "none", "sandbox": sandbox})
        await client.call_tool("run", {"command": "timeout 1.2 tail -f /dev/null; true", "sandbox": sandbox},
                               progress_callback=progress)
        file = await client.read_resource(f"caisson://{sandbox}/files/workspace/f")
        result = {"server": client.server_info.name if client.server_info else None, "tools": len(tools),
                  "stdout": ran.structured_content["stdout"], "failed": failed.is_error, "progress": bool(seen),
                  "file": file.contents[0].text}
    print(json.dumps(result))


anyio.run(main)
