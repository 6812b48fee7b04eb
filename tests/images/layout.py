"""Writes images as OCI layouts, by the specification and, where a test wants it, against it.

    layer = Layer().file("etc/motd", b"hello").remove("etc/issue")
    with Layout(folder) as layout:
        layout.tag("1", layout.image([layer], {"Cmd": ["/bin/sh"]}))

A Layer can be any bytes and a descriptor can claim anything: hostile images are made with the same few words. The same
input gives the same bytes, so that a digest can be a key.
"""

import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile

CREATED = "2024-01-01T00:00:00Z"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
OCI = {
    "index": "application/vnd.oci.image.index.v1+json",
    "manifest": "application/vnd.oci.image.manifest.v1+json",
    "config": "application/vnd.oci.image.config.v1+json",
    "": "application/vnd.oci.image.layer.v1.tar",
    "gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "zstd": "application/vnd.oci.image.layer.v1.tar+zstd",
}
DOCKER = {
    "index": "application/vnd.docker.distribution.manifest.list.v2+json",
    "manifest": "application/vnd.docker.distribution.manifest.v2+json",
    "config": "application/vnd.docker.container.image.v1+json",
    "": "application/vnd.docker.image.rootfs.diff.tar",
    "gzip": "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "zstd": "application/vnd.docker.image.rootfs.diff.tar.zstd",
}
COMPRESSORS = {"gzip": ["gzip", "-n", "-6", "-c"], "zstd": ["zstd", "-q", "-3", "-c"]}
BLOCK = 1 << 20
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def digest_of_file(path):
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def to_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Layer:
    """Entries in their order; nothing is added that was not asked for, not even parent folders."""

    def __init__(self, compression="gzip"):
        self.compression = compression
        self.entries = []  # (TarInfo, bytes or None)

    def entry(self, path, kind=tarfile.REGTYPE, content=None, xattrs=None, **fields):
        """Anything that a tar can say: fields are those of a TarInfo."""
        info = tarfile.TarInfo(path)
        info.type, info.size = kind, len(content or b"")
        info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
        for name, value in fields.items():
            setattr(info, name, value)
        for name, value in (xattrs or {}).items():
            info.pax_headers = {**info.pax_headers, f"SCHILY.xattr.{name}": value}
        self.entries.append((info, content))
        return self

    def file(self, path, content=b"", **fields):
        return self.entry(path, content=content, **fields)

    def folder(self, path, **fields):
        return self.entry(path, tarfile.DIRTYPE, **fields)

    def link(self, path, target, **fields):
        return self.entry(path, tarfile.SYMTYPE, linkname=target, mode=0o777, **fields)

    def hard_link(self, path, target, **fields):
        return self.entry(path, tarfile.LNKTYPE, linkname=target, **fields)

    def remove(self, path):
        folder, _, name = path.rpartition("/")
        return self.file((folder + "/" if folder else "") + WHITEOUT + name)

    def opaque(self, folder):
        return self.file(f"{folder}/{OPAQUE}")

    def write(self, tar):
        for info, content in self.entries:
            tar.addfile(info, io.BytesIO(content) if content is not None else None)

    def write_tar(self, file):
        with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT, bufsize=BLOCK) as tar:
            self.write(tar)


class RawLayer(Layer):
    """Bytes that a test made itself: they need not be a tar, nor compressed as they claim to be."""

    def __init__(self, content, compression="gzip"):
        super().__init__(compression)
        self.content = content

    def write_tar(self, file):
        file.write(self.content)


class Layout:
    """A folder in the making; leaving the block writes its index.json."""

    def __init__(self, folder, types=None):
        self.folder, self.types = pathlib.Path(folder), types or OCI
        self.blobs = self.folder / "blobs/sha256"
        self.manifests = []

    def __enter__(self):
        self.blobs.mkdir(parents=True, exist_ok=True)
        (self.folder / "oci-layout").write_bytes(to_json({"imageLayoutVersion": "1.0.0"}))
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            index = {"schemaVersion": 2, "mediaType": OCI["index"], "manifests": self.manifests}
            (self.folder / "index.json").write_bytes(to_json(index))

    def blob(self, content, kind):
        """The descriptor of these bytes. kind is a word of the tables above, or a whole media type."""
        digest = digest_of(content)
        (self.blobs / digest.partition(":")[2]).write_bytes(content)
        return {"mediaType": self.types.get(kind, kind), "digest": digest, "size": len(content)}

    def layer(self, layer):
        """(descriptor, diff_id)"""
        temporary = tempfile.NamedTemporaryFile
        with temporary(dir=self.folder) as plain, temporary(dir=self.folder) as packed:
            layer.write_tar(plain)
            plain.flush()
            diff_id, path = digest_of_file(plain.name), plain.name
            if layer.compression:
                plain.seek(0)
                subprocess.run(COMPRESSORS[layer.compression], stdin=plain, stdout=packed, check=True)
                path = packed.name
            digest = digest_of_file(path)
            blob = self.blobs / digest.partition(":")[2]
            blob.unlink(missing_ok=True)
            os.link(path, blob)
            blob.chmod(0o644)
        return {"mediaType": self.types[layer.compression], "digest": digest, "size": blob.stat().st_size}, diff_id

    def image(self, layers, config=None, **bent):
        """The descriptor of a manifest."""
        return self.manifest([self.layer(one) for one in layers], config, **bent)

    def manifest(self, layers, config=None, architecture=ARCHITECTURE, whole_config=None, **bent):
        """As image(), of layers that are there. whole_config and bent replace keys of the config file and of the
        manifest."""
        text = {"architecture": architecture, "os": "linux", "created": CREATED, "config": config or {},
                "rootfs": {"type": "layers", "diff_ids": [diff_id for _, diff_id in layers]},
                "history": [{"created": CREATED, "created_by": "image kit"} for _ in layers]}
        text.update(whole_config or {})
        manifest = {"schemaVersion": 2, "mediaType": self.types["manifest"],
                    "config": self.blob(to_json(text), "config"), "layers": [layer for layer, _ in layers]}
        manifest.update(bent)
        return self.blob(to_json(manifest), "manifest")

    def index(self, images):
        """The descriptor of an index. images: platform as in `linux/arm64/v8` → descriptor."""
        listed = []
        for platform, descriptor in images.items():
            words = dict(zip(("os", "architecture", "variant"), platform.split("/")))
            listed.append({**descriptor, "platform": words})
        text = {"schemaVersion": 2, "mediaType": self.types["index"], "manifests": listed}
        return self.blob(to_json(text), "index")

    def tag(self, name, descriptor):
        self.manifests.append({**descriptor, "annotations": {"org.opencontainers.image.ref.name": name}})
        return descriptor


# ---------------------------------------------------------------------------------------------------------------------
# Reading one back.


def blob_path(folder, digest):
    return pathlib.Path(folder, "blobs", *digest.split(":"))


def read_json(folder, digest):
    return json.loads(blob_path(folder, digest).read_bytes())


def tags(folder):
    """tag → descriptor"""
    listed = json.loads(pathlib.Path(folder, "index.json").read_bytes())["manifests"]
    return {one.get("annotations", {}).get("org.opencontainers.image.ref.name"): one for one in listed}


def layers_of(folder, tag="1"):
    """[(descriptor, diff_id)] of an image, to put others on top of them."""
    manifest = read_json(folder, tags(folder)[tag]["digest"])
    diff_ids = read_json(folder, manifest["config"]["digest"])["rootfs"]["diff_ids"]
    return list(zip(manifest["layers"], diff_ids, strict=True))


def config_of(folder, tag="1"):
    return read_json(folder, read_json(folder, tags(folder)[tag]["digest"])["config"]["digest"])["config"]


def derive(base, folder, layers=(), tag="1", **config):
    """A new layout in folder: the image of base, with more layers and other words in its config."""
    with Layout(folder) as made:
        below = layers_of(base)
        for descriptor, _ in below:
            target = blob_path(folder, descriptor["digest"])
            target.write_bytes(blob_path(base, descriptor["digest"]).read_bytes())
        below += [made.layer(layer) for layer in layers]
        made.tag(tag, made.manifest(below, {**config_of(base), **config}))
    return pathlib.Path(folder)
