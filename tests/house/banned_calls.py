"""Calls that have a safer sister here. Each name stands beside the reason and what to use."""

import re

import tree

EVERYWHERE = {
    "system": "a shell parses the string: start the program with an argument list",
    "popen": "a shell parses the string: start the program with an argument list",
    "strcpy": "it does not know the size: std::string, or a bounded copy",
    "strcat": "it does not know the size: std::string, or a bounded copy",
    "sprintf": "it does not know the size: fmt::format, or snprintf in the child zone",
    "vsprintf": "it does not know the size: fmt::format",
    "gets": "it does not know the size",
    "tmpnam": "another process can take the name first: O_TMPFILE or mkdtemp",
    "tempnam": "another process can take the name first: O_TMPFILE or mkdtemp",
    "mktemp": "another process can take the name first: O_TMPFILE or mkdtemp",
    "strtok": "it keeps hidden state: split a string_view",
    "rand": "it can be guessed: base/id.h, or std::mt19937 in a test",
    "srand": "it can be guessed: base/id.h, or std::mt19937 in a test",
    "alloca": "it overflows the stack in silence",
    "setenv": "other threads read the environment: build the new environment as a list",
    "putenv": "other threads read the environment: build the new environment as a list",
    "daemon": "it forks behind our back: pidfds and the launcher own every process",
}
# A test that waits by the clock is either slow or wrong: wait for the event itself.
IN_TESTS = {
    "sleep": "wait for the event: a pipe, a pidfd, an eventfd, poll with a deadline",
    "usleep": "wait for the event: a pipe, a pidfd, an eventfd, poll with a deadline",
    "sleep_for": "wait for the event: a pipe, a pidfd, an eventfd, poll with a deadline",
    "sleep_until": "wait for the event: a pipe, a pidfd, an eventfd, poll with a deadline",
}
# A guest program may do what a guest does: sleeping and asking for trouble are its job.
EXEMPT = {("tests/payload", "sleep"), ("tests/payload", "usleep"), ("tests/payload", "setenv")}


def pattern(names):
    # Not after '.' or '->': a member that happens to have the name is a different function.
    return re.compile(r"(?<![\w.>])(?:::|std::(?:this_thread::)?)?(" + "|".join(names) + r")\s*\(")


def is_test(path):
    return path.parts[0] == "tests" or path.stem.endswith("_test")


def check(root):
    everywhere, in_tests = pattern(EVERYWHERE), pattern(IN_TESTS)
    complaints = []
    for path in tree.code_files(root):
        text = tree.without_comments_and_strings(tree.read(root, path))
        for number, line in enumerate(text.split("\n"), 1):
            found = {name: EVERYWHERE[name] for name in everywhere.findall(line)}
            if is_test(path):
                found.update({name: IN_TESTS[name] for name in in_tests.findall(line)})
            for name, reason in sorted(found.items()):
                if (path.parent.as_posix(), name) not in EXEMPT:
                    complaints.append(f"{path}:{number}: {name}(): {reason}")
    return complaints


if __name__ == "__main__":
    tree.main(check)
