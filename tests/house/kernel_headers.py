"""Raw kernel headers stop at `sys`. Who else may see them is listed here, with the reason."""

import re

import tree

KERNEL = re.compile(
    r"^(linux/.*|asm/.*|sched\.h|seccomp\.h"
    r"|sys/(mount|syscall|prctl|ptrace|mman|capability|xattr|quota|reboot|klog|swap|sysmacros|personality)\.h)$"
)
ALLOWED = {
    "src/sys": "one thin typed function per kernel call lives here",
    "src/engine/native": "the child half calls the kernel directly, without the C++ library",
    "src/engine/microvm/jail": "as native: between clone and execve nothing of the C++ library may run",
    "src/engine/seccomp": "filters are written in the kernel's own structures",
    "src/engine/host": "it asks the kernel which features there are",
    "src/guest": "the guest's init is freestanding and cannot link sys",
    "tests": "an attack is a raw system call",
}


def check(root):
    complaints = []
    for path in tree.code_files(root):
        name = path.as_posix()
        if any(name.startswith(folder + "/") for folder in ALLOWED) or path.stem.endswith("_test"):
            continue
        for line, header, is_system in tree.includes(tree.read(root, path)):
            if is_system and KERNEL.match(header):
                complaints.append(f"{path}:{line}: <{header}> belongs behind a function of src/sys")
    return complaints


if __name__ == "__main__":
    tree.main(check)
