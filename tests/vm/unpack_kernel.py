"""Takes the ELF kernel out of a bzImage: unpack_kernel.py VMLINUZ VMLINUX.

The boot header of the image says where its compressed payload lies (boot protocol 2.08 and later).
"""

import lzma
import struct
import subprocess
import sys
import zlib
from pathlib import Path

BOOT_MAGIC_AT, SETUP_SECTORS_AT, VERSION_AT, PAYLOAD_AT = 0x202, 0x1F1, 0x206, 0x248
SECTOR_BYTES = 512


def payload_of(image):
    if image[BOOT_MAGIC_AT:BOOT_MAGIC_AT + 4] != b"HdrS":
        sys.exit("not a bzImage: the boot header is missing")
    if struct.unpack_from("<H", image, VERSION_AT)[0] < 0x208:
        sys.exit("the image's boot protocol is older than 2.08")
    offset, length = struct.unpack_from("<II", image, PAYLOAD_AT)
    start = (image[SETUP_SECTORS_AT] + 1) * SECTOR_BYTES + offset
    return image[start:start + length]


def unpack(payload):
    """The payload ends with four bytes that hold its size, so each decoder must stop by itself."""
    if payload.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(payload)
    for magic, program in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x02\x21\x4c\x18", "lz4")):
        if payload.startswith(magic):
            return subprocess.run([program, "-dc"], input=payload[:-4], check=True, stdout=subprocess.PIPE).stdout
    sys.exit(f"the kernel is compressed in an unknown way: {payload[:6].hex()}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    kernel = unpack(payload_of(Path(sys.argv[1]).read_bytes()))
    if not kernel.startswith(b"\x7fELF"):
        sys.exit("the payload is not an ELF file")
    Path(sys.argv[2]).write_bytes(kernel)


if __name__ == "__main__":
    main()
