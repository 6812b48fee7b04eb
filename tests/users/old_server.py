"""A database as sandboxer leaves one: its tables, two users, and what they did.

    with OldServer(folder / "old.sqlite") as old:
        user = old.user("ada")
        old.token(user, "x" * 43)
        box = old.sandbox(user, label="web")
        old.run(box, "echo hi", logs=[(1, "hi\n")])
"""

import hashlib
import secrets
import sqlite3

SCHEMA = """
CREATE TABLE users (id TEXT PRIMARY KEY, email TEXT UNIQUE NOT NULL, name TEXT, login TEXT, avatar_url TEXT,
  access_token TEXT, created_at INTEGER, updated_at INTEGER);
CREATE TABLE networks (name TEXT PRIMARY KEY, user_id TEXT REFERENCES users(id), created_at INTEGER);
CREATE TABLE static_auth_tokens (token TEXT PRIMARY KEY, user_id TEXT REFERENCES users(id), description TEXT,
  created_at INTEGER);
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, name TEXT UNIQUE NOT NULL, label TEXT, image TEXT,
  network TEXT REFERENCES networks(name), parent_id TEXT NULL, last_active_at, deleted_at NULL, delete_reason NULL,
  is_public BOOLEAN DEFAULT FALSE, status TEXT DEFAULT 'unknown');
CREATE TABLE command_executions (id TEXT PRIMARY KEY, sandbox_id TEXT, command TEXT, exit_code INTEGER, executed_at);
CREATE TABLE command_execution_logs (id INTEGER PRIMARY KEY AUTOINCREMENT, execution_id TEXT, fd INTEGER, content TEXT,
  created_at);
"""
BEGIN = 1_740_000_000


class OldServer:
    def __init__(self, path, schema=SCHEMA):
        self.path = path
        self.count = 0
        self.salt = secrets.token_hex(4)  # ids are unique in the world
        self.db = sqlite3.connect(path)
        self.db.executescript(schema)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.db.commit()
        self.db.close()

    def next(self):
        self.count += 1
        return self.count

    def user(self, name, user_id=None, **more):
        user_id = user_id or f"0b8e2f1c-5f5e-4d3a-9c1b-{self.next():012d}"
        row = {"id": user_id, "email": f"{name}@example.org", "name": name.title(), "login": name,
               "avatar_url": f"https://example.org/{name}.png", "access_token": "gho_secret_of_github",
               "created_at": BEGIN, "updated_at": BEGIN} | more
        self.insert("users", row)
        self.insert("networks", {"name": f"user_{user_id}", "user_id": user_id, "created_at": BEGIN})
        return user_id

    def token(self, user, text, description="Initial admin token"):
        self.insert("static_auth_tokens", {"token": text, "user_id": user, "description": description,
                                           "created_at": BEGIN})

    def sandbox(self, user, **more):
        number = self.next()
        box = hashlib.sha256(f"{self.salt}{number}".encode()).hexdigest()
        row = {"id": box, "name": f"{self.salt}{number:018d}", "label": f"box {number}", "image": "nginx",
               "network": f"user_{user}", "parent_id": None, "last_active_at": BEGIN + number + 0.25,
               "deleted_at": None, "delete_reason": None, "is_public": False, "status": "running"} | more
        self.insert("sandboxes", row)
        return box

    def run(self, box, command, exit_code=0, logs=()):
        number = self.next()
        run = f"{self.salt}{number:018d}"
        self.insert("command_executions", {"id": run, "sandbox_id": box, "command": command, "exit_code": exit_code,
                                           "executed_at": BEGIN + number + 0.5})
        for fd, content in logs:
            self.insert("command_execution_logs", {"execution_id": run, "fd": fd, "content": content,
                                                   "created_at": BEGIN + number + 0.75})
        return run

    def insert(self, table, row):
        marks = ", ".join("?" for _ in row)
        self.db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))
