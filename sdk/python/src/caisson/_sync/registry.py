# Made from _async/registry.py by generate_sync.py: change it there.
"""What belongs to a tenant or to the server, not to one sandbox: snapshots, images, volumes, tokens, users, secrets."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Sequence

from .. import _operations as op
from .._wire import EVENT_STREAM
from ..models import Snapshot
from ..requests import (BuildRequest, ImportRequest, PullRequest, Scope, SecretRequest, TokenRequest, UserRequest,
                        VolumeRequest)
from ..server_models import Garbage, Image, ImportCount, NewToken, Storage, Token, User, Volume
from .caller import Caller
from .files import TAR, Download
from .stream import Pull

PULL_SECONDS = 3600.0  # an image may be large and a registry slow


class Section:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller


class Snapshots(Section):
    """`client.snapshots`, by id or name."""

    def get(self, snapshot: str) -> Snapshot:
        return self._caller.call(op.GET_SNAPSHOT, {"id": snapshot})

    def remove(self, snapshot: str) -> None:
        """Sandboxes that were made on it keep their files."""
        self._caller.call(op.REMOVE_SNAPSHOT, {"id": snapshot})

    def list(self) -> List[Snapshot]:
        return (self._caller.call(op.LIST_SNAPSHOTS)).snapshots


class Images(Section):
    """`client.images`, by reference, such as `python:3.12`."""

    def get(self, reference: str) -> Image:
        return self._caller.call(op.GET_IMAGE, query={"reference": reference})

    def remove(self, reference: str) -> None:
        self._caller.call(op.REMOVE_IMAGE, query={"reference": reference})

    def pull(self, reference: str, *, platform: str | None = None, username: str | None = None,
                   password: str | None = None, refresh: bool | None = None, timeout: float = PULL_SECONDS) -> Image:
        body = PullRequest(reference=reference, platform=platform, username=username, password=password,
                           refresh=refresh)
        return self._caller.call(op.PULL_IMAGE, body=body, timeout=timeout)

    def pull_stream(self, reference: str, *, platform: str | None = None, username: str | None = None,
                    password: str | None = None, refresh: bool | None = None) -> Pull:
        """The same with progress. Who leaves the block gives the pull up."""
        body = PullRequest(reference=reference, platform=platform, username=username, password=password,
                           refresh=refresh)
        return Pull(self._caller, lambda last_id: self._caller.request(
            op.PULL_IMAGE, headers={"Accept": EVENT_STREAM}, body=body))

    def load(self, reference: str, archive: bytes | Iterable[bytes], *, pick: str | None = None,
                   timeout: float = PULL_SECONDS) -> Image:
        """Makes an image of an archive: an OCI layout, a docker archive or a root file system, as tar."""
        return self._caller.call(op.IMPORT_IMAGE, query={"reference": reference, "pick": pick}, headers=TAR,
                                       body=archive, timeout=timeout)

    def save(self, reference: str, *, timeout: float | None = None) -> Download:
        """An image as an archive, piece by piece."""
        request = self._caller.request(op.EXPORT_IMAGE, query={"reference": reference})
        return Download(self._caller, request, timeout)

    def build(self, reference: str, snapshot: str, *, entrypoint: Sequence[str] | None = None,
                    command: Sequence[str] | None = None, workdir: str | None = None, user: str | None = None,
                    labels: Mapping[str, str] | None = None, timeout: float = PULL_SECONDS) -> Image:
        """Makes an image of a snapshot."""
        body = BuildRequest(reference=reference, snapshot=snapshot, entrypoint=entrypoint, command=command,
                            workdir=workdir, user=user, labels=labels)
        return self._caller.call(op.BUILD_IMAGE, body=body, timeout=timeout)

    def collect_garbage(self) -> Garbage:
        """Removes what no image, snapshot or sandbox needs."""
        return self._caller.call(op.COLLECT_GARBAGE)

    def list(self) -> List[Image]:
        return (self._caller.call(op.LIST_IMAGES)).images


class Volumes(Section):
    """`client.volumes`, by name."""

    def put(self, name: str, bytes_max: int) -> Volume:
        """Makes one, or changes how much it may hold."""
        return self._caller.call(op.PUT_VOLUME, {"id": name}, body=VolumeRequest(bytes=bytes_max))

    def remove(self, name: str) -> None:
        self._caller.call(op.REMOVE_VOLUME, {"id": name})

    def storage(self) -> Storage:
        """What the store of files can do on the server's host."""
        return self._caller.call(op.GET_STORAGE)

    def list(self) -> List[Volume]:
        return (self._caller.call(op.LIST_VOLUMES)).volumes


class Tokens(Section):
    """`client.tokens`, for administrators."""

    def create(self, scopes: Sequence[Scope], *, tenant: str | None = None, label: str | None = None,
                     expires_seconds: float | None = None, max_sandboxes: int | None = None,
                     taken_over: str | None = None) -> NewToken:
        """The token itself is in this answer and nowhere else."""
        body = TokenRequest(scopes=scopes, tenant=tenant, label=label, expires_seconds=expires_seconds,
                            max_sandboxes=max_sandboxes, taken_over=taken_over)
        return self._caller.call(op.CREATE_TOKEN, body=body)

    def revoke(self, token: str) -> None:
        """By its id."""
        self._caller.call(op.REVOKE_TOKEN, {"id": token})

    def list(self) -> List[Token]:
        return (self._caller.call(op.LIST_TOKENS)).tokens


class Users(Section):
    """`client.users`: who the tenants are, for administrators."""

    def put(self, tenant: str, *, name: str | None = None, email: str | None = None, login: str | None = None,
                  avatar_url: str | None = None) -> User:
        body = UserRequest(name=name, email=email, login=login, avatar_url=avatar_url)
        return self._caller.call(op.PUT_USER, {"id": tenant}, body=body)

    def remove(self, tenant: str) -> None:
        """Removes its entry and withdraws its tokens."""
        self._caller.call(op.REMOVE_USER, {"id": tenant})

    def import_listings(self, tenant: str, sandboxes: Sequence[Mapping[str, Any]],
                              executions: Sequence[Mapping[str, Any]]) -> ImportCount:
        """Takes over the list of a sandboxer server."""
        body = ImportRequest(tenant=tenant, sandboxes=sandboxes, executions=executions)
        return self._caller.call(op.IMPORT_LISTINGS, body=body)

    def list(self) -> List[User]:
        return (self._caller.call(op.LIST_USERS)).users


class Secrets(Section):
    """`client.secrets`: what network rules put into requests, for administrators. Values never come back."""

    def put(self, name: str, value: str) -> None:
        self._caller.call(op.PUT_SECRET, {"id": name}, body=SecretRequest(value=value))

    def remove(self, name: str) -> None:
        self._caller.call(op.REMOVE_SECRET, {"id": name})

    def list(self) -> List[str]:
        return [one.name for one in (self._caller.call(op.LIST_SECRETS)).secrets]
