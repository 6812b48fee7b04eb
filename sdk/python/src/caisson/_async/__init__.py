"""The client for asyncio, and the source of the one for threads: only link.py, which holds the socket, is written
twice."""
