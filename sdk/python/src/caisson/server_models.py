"""What a server answers about itself: images, volumes, storage, tokens, users, health."""

from __future__ import annotations

import datetime
from typing import Dict, List, Literal

from ._model import Model
from .requests import Scope


class ImageConfig(Model):
    """What an image says about programs that run on it."""

    user: str
    uid: int
    gid: int
    workdir: str
    env: List[str]
    entrypoint: List[str]
    command: List[str]
    ports: List[str]
    labels: Dict[str, str]


class Image(Model):
    reference: str
    digest: str
    platform: str
    layers: List[str]
    packed_bytes: int
    bytes: int
    created_at: datetime.datetime
    source: Literal["pull", "import", "build"]
    config: ImageConfig


class PullProgress(Model):
    stage: str
    layer: str
    done: int
    total: int


class Garbage(Model):
    blobs: int
    layers: int
    bytes: int


class Volume(Model):
    name: str
    bytes_max: int
    bytes: int
    created_at: datetime.datetime
    sandboxes: List[str]


class Storage(Model):
    kind: str
    limits: bool
    live_snapshots: bool
    bytes: int
    free_bytes: int
    why: str


class Token(Model):
    id: str
    tenant: str
    label: str
    scopes: List[Scope]
    created_at: datetime.datetime
    expires_at: datetime.datetime | None
    revoked_at: datetime.datetime | None
    last_used_at: datetime.datetime | None
    max_sandboxes: int


class NewToken(Token):
    """The token itself is in this answer and nowhere else."""

    token: str


class User(Model):
    tenant: str
    name: str
    email: str
    login: str
    avatar_url: str
    created_at: datetime.datetime | None
    tokens: int
    sandboxes: int


class ImportCount(Model):
    sandboxes: int
    executions: int
    skipped: int


class SecretName(Model):
    name: str


class CallerInfo(Model):
    tenant: str
    token: str
    scopes: List[str]
    name: str
    email: str


class Server(Model):
    version: str
    vhost: str
    open: bool
    profiles: List[str]
    default_image: str
    tiers: List[Literal["native", "gvisor", "microvm"]]
    minimum_tier: Literal["native", "gvisor", "microvm"]
    caller: CallerInfo


class Health(Model):
    status: Literal["ok"]
    version: str


class Readiness(Model):
    status: Literal["ready"]


class Document(Model):
    """The contract; all of it is in `extra`."""


class ImageList(Model):
    images: List[Image]


class VolumeList(Model):
    volumes: List[Volume]


class TokenList(Model):
    tokens: List[Token]


class UserList(Model):
    users: List[User]


class SecretList(Model):
    secrets: List[SecretName]
