"""What belongs to a tenant or to the server, not to one sandbox: snapshots, images, volumes, tokens, users, secrets."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Sequence

from .. import _operations as op
from .._wire import EVENT_STREAM
from ..models import Snapshot
from ..requests import (BuildRequest, ImportRequest, PullRequest, Scope, SecretRequest, TokenRequest, UserRequest,
                        VolumeRequest)
from ..server_models import Garbage, Image, ImportCount, NewToken, Storage, Token, User, Volume
from .caller import AsyncCaller
from .files import TAR, AsyncDownload
from .stream import AsyncPull

PULL_SECONDS = 3600.0  # an image may be large and a registry slow


class AsyncSection:
    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller


class AsyncSnapshots(AsyncSection):
    """`client.snapshots`, by id or name."""

    async def get(self, snapshot: str) -> Snapshot:
        return await self._caller.call(op.GET_SNAPSHOT, {"id": snapshot})

    async def remove(self, snapshot: str) -> None:
        """Sandboxes that were made on it keep their files."""
        await self._caller.call(op.REMOVE_SNAPSHOT, {"id": snapshot})

    async def list(self) -> List[Snapshot]:
        return (await self._caller.call(op.LIST_SNAPSHOTS)).snapshots


class AsyncImages(AsyncSection):
    """`client.images`, by reference, such as `python:3.12`."""

    async def get(self, reference: str) -> Image:
        return await self._caller.call(op.GET_IMAGE, query={"reference": reference})

    async def remove(self, reference: str) -> None:
        await self._caller.call(op.REMOVE_IMAGE, query={"reference": reference})

    async def pull(self, reference: str, *, platform: str | None = None, username: str | None = None,
                   password: str | None = None, refresh: bool | None = None, timeout: float = PULL_SECONDS) -> Image:
        body = PullRequest(reference=reference, platform=platform, username=username, password=password,
                           refresh=refresh)
        return await self._caller.call(op.PULL_IMAGE, body=body, timeout=timeout)

    def pull_stream(self, reference: str, *, platform: str | None = None, username: str | None = None,
                    password: str | None = None, refresh: bool | None = None) -> AsyncPull:
        """The same with progress. Who leaves the block gives the pull up."""
        body = PullRequest(reference=reference, platform=platform, username=username, password=password,
                           refresh=refresh)
        return AsyncPull(self._caller, lambda last_id: self._caller.request(
            op.PULL_IMAGE, headers={"Accept": EVENT_STREAM}, body=body))

    async def load(self, reference: str, archive: bytes | Iterable[bytes], *, pick: str | None = None,
                   timeout: float = PULL_SECONDS) -> Image:
        """Makes an image of an archive: an OCI layout, a docker archive or a root file system, as tar."""
        return await self._caller.call(op.IMPORT_IMAGE, query={"reference": reference, "pick": pick}, headers=TAR,
                                       body=archive, timeout=timeout)

    def save(self, reference: str, *, timeout: float | None = None) -> AsyncDownload:
        """An image as an archive, piece by piece."""
        request = self._caller.request(op.EXPORT_IMAGE, query={"reference": reference})
        return AsyncDownload(self._caller, request, timeout)

    async def build(self, reference: str, snapshot: str, *, entrypoint: Sequence[str] | None = None,
                    command: Sequence[str] | None = None, workdir: str | None = None, user: str | None = None,
                    labels: Mapping[str, str] | None = None, timeout: float = PULL_SECONDS) -> Image:
        """Makes an image of a snapshot."""
        body = BuildRequest(reference=reference, snapshot=snapshot, entrypoint=entrypoint, command=command,
                            workdir=workdir, user=user, labels=labels)
        return await self._caller.call(op.BUILD_IMAGE, body=body, timeout=timeout)

    async def collect_garbage(self) -> Garbage:
        """Removes what no image, snapshot or sandbox needs."""
        return await self._caller.call(op.COLLECT_GARBAGE)

    async def list(self) -> List[Image]:
        return (await self._caller.call(op.LIST_IMAGES)).images


class AsyncVolumes(AsyncSection):
    """`client.volumes`, by name."""

    async def put(self, name: str, bytes_max: int) -> Volume:
        """Makes one, or changes how much it may hold."""
        return await self._caller.call(op.PUT_VOLUME, {"id": name}, body=VolumeRequest(bytes=bytes_max))

    async def remove(self, name: str) -> None:
        await self._caller.call(op.REMOVE_VOLUME, {"id": name})

    async def storage(self) -> Storage:
        """What the store of files can do on the server's host."""
        return await self._caller.call(op.GET_STORAGE)

    async def list(self) -> List[Volume]:
        return (await self._caller.call(op.LIST_VOLUMES)).volumes


class AsyncTokens(AsyncSection):
    """`client.tokens`, for administrators."""

    async def create(self, scopes: Sequence[Scope], *, tenant: str | None = None, label: str | None = None,
                     expires_seconds: float | None = None, max_sandboxes: int | None = None,
                     taken_over: str | None = None) -> NewToken:
        """The token itself is in this answer and nowhere else."""
        body = TokenRequest(scopes=scopes, tenant=tenant, label=label, expires_seconds=expires_seconds,
                            max_sandboxes=max_sandboxes, taken_over=taken_over)
        return await self._caller.call(op.CREATE_TOKEN, body=body)

    async def revoke(self, token: str) -> None:
        """By its id."""
        await self._caller.call(op.REVOKE_TOKEN, {"id": token})

    async def list(self) -> List[Token]:
        return (await self._caller.call(op.LIST_TOKENS)).tokens


class AsyncUsers(AsyncSection):
    """`client.users`: who the tenants are, for administrators."""

    async def put(self, tenant: str, *, name: str | None = None, email: str | None = None, login: str | None = None,
                  avatar_url: str | None = None) -> User:
        body = UserRequest(name=name, email=email, login=login, avatar_url=avatar_url)
        return await self._caller.call(op.PUT_USER, {"id": tenant}, body=body)

    async def remove(self, tenant: str) -> None:
        """Removes its entry and withdraws its tokens."""
        await self._caller.call(op.REMOVE_USER, {"id": tenant})

    async def import_listings(self, tenant: str, sandboxes: Sequence[Mapping[str, Any]],
                              executions: Sequence[Mapping[str, Any]]) -> ImportCount:
        """Takes over the list of a sandboxer server."""
        body = ImportRequest(tenant=tenant, sandboxes=sandboxes, executions=executions)
        return await self._caller.call(op.IMPORT_LISTINGS, body=body)

    async def list(self) -> List[User]:
        return (await self._caller.call(op.LIST_USERS)).users


class AsyncSecrets(AsyncSection):
    """`client.secrets`: what network rules put into requests, for administrators. Values never come back."""

    async def put(self, name: str, value: str) -> None:
        await self._caller.call(op.PUT_SECRET, {"id": name}, body=SecretRequest(value=value))

    async def remove(self, name: str) -> None:
        await self._caller.call(op.REMOVE_SECRET, {"id": name})

    async def list(self) -> List[str]:
        return [one.name for one in (await self._caller.call(op.LIST_SECRETS)).secrets]
