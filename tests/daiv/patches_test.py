"""What comes out of a session: a patch that git applies to the archive's tree, always."""

import base64
import io
import os
import random
import tarfile
import unittest

from daiv_case import DaivCase, REPO, Tree, archive_of, packed
from harness import main

BASE = {"a.txt": b"one\ntwo\nthree\n", "dir/b.txt": b"beta\n", "run.sh": (b"#!/bin/sh\necho hi\n", 0o755)}


class Patches(DaivCase):
    def setUp(self):
        self.open = self.session(extract_patch=True)

    def made(self, files, *commands, mode="w:gz"):
        """The patch, once it is shown to turn the archive's tree into the sandbox's."""
        archive = archive_of(files, mode)
        patch = self.patch(self.open, archive, *commands)
        tree = Tree(self).unpack(archive)
        if patch is not None:
            tree.apply(patch)
        return patch, tree.content()

    def test_an_edit(self):
        patch, tree = self.made(BASE, "sed -i s/two/2/ a.txt")
        self.assertEqual(tree["a.txt"][2], b"one\n2\nthree\n")
        self.assertIn("diff --git a/a.txt b/a.txt\n", patch)
        self.assertIn("\n-two\n+2\n three\n", patch)

    def test_nothing_changed_is_null(self):
        archive = archive_of(BASE)
        self.assertIsNotNone(self.patch(self.open, archive, "echo new > a.txt"))
        self.assertIsNone(self.patch(self.open, archive, "ls -la"))
        self.assertIsNone(self.patch(self.open, archive, "touch a.txt; cat a.txt > x; rm x"))
        self.assertIsNone(self.patch(self.open, archive))

    def test_only_with_an_archive_and_only_when_asked_for(self):
        self.patch(self.open, archive_of(BASE))
        self.assertIsNone(self.run_all(self.open, "echo x > a.txt")["patch"])
        plain = self.session()
        self.assertIsNone(self.run_all(plain, "echo x > a.txt", archive=packed(archive_of(BASE)))["patch"])

    def test_add_delete_rename_mode_link_binary_and_empty(self):
        big = b"".join(b"line %d\n" % n for n in range(200))
        files = BASE | {"move.me": big, "gone": b"x\n", "bin": bytes(range(256)) * 20, "to": "a.txt"}
        patch, tree = self.made(
            files, "mkdir sub && mv move.me sub/moved && echo more >> sub/moved", "rm gone", "chmod +x a.txt",
            "chmod -x run.sh", "ln -sfn dir to", "ln -s nowhere dangling", ": > empty",
            "printf '\\000\\001' | dd of=bin bs=1 seek=100 conv=notrunc 2>/dev/null", "printf 'no newline' > last")
        self.assertIn("rename from move.me\nrename to sub/moved\n", patch)
        self.assertIn("GIT binary patch", patch)
        self.assertIn("old mode 100644\nnew mode 100755", patch)
        self.assertIn("\\ No newline at end of file", patch)
        self.assertEqual(tree["sub/moved"][2], big + b"more\n")
        self.assertNotIn("gone", tree)
        self.assertNotIn("move.me", tree)
        self.assertEqual((tree["a.txt"][1], tree["run.sh"][1]), (True, False))
        self.assertEqual((tree["to"], tree["dangling"]), (("link", False, b"dir"), ("link", False, b"nowhere")))
        self.assertEqual(tree["empty"], ("file", False, b""))
        self.assertEqual(tree["bin"][2][100:102], b"\0\1")

    def test_it_runs_when_commands_fail_or_time_out(self):
        archive = packed(archive_of(BASE))
        answer = self.run_all(self.open, "echo x > new", "false", archive=archive, fail_fast=True)
        self.assertEqual([one["exit_code"] for one in answer["results"]], [0, 1])
        self.assertIsNotNone(answer["patch"])
        answer = self.run_all(self.open, "echo y > a.txt; sleep 100", "echo never", archive=archive, timeout=1)
        self.assertEqual([one["exit_code"] for one in answer["results"]], [124])
        self.assertIn("+y", base64.b64decode(answer["patch"]).decode())

    def test_words_of_git_in_a_changed_line(self):
        patch, _ = self.made(BASE, "echo 'nothing to commit, working tree clean' >> a.txt")
        self.assertIn("+nothing to commit, working tree clean\n", patch)

    def test_text_that_is_no_utf8_goes_packed_and_the_rest_as_text(self):
        patch, tree = self.made({"latin": b"caf\xe9\n" * 10, "plain": b"a\n"},
                                "printf 'caf\\351 x\\n' >> latin; echo b >> plain")
        self.assertTrue(tree["latin"][2].endswith(b"caf\xe9 x\n"))
        self.assertIn("GIT binary patch", patch)
        self.assertIn("+b\n", patch)

    def test_a_file_that_nobody_may_read(self):
        patch, tree = self.made(BASE, "echo secret > closed; chmod 000 closed", "mkdir shut && echo in > shut/f && chmod 000 shut")
        self.assertEqual(tree["closed"][2], b"secret\n")
        self.assertEqual(tree["shut/f"][2], b"in\n")

    def test_an_empty_archive_and_one_that_is_all_ignored(self):
        patch, tree = self.made({}, "echo x > new")
        self.assertEqual(tree["new"][2], b"x\n")
        again = self.session(extract_patch=True)
        self.assertIsNone(self.patch(again, archive_of({"build/x.o": b"x"}), "true"))
        patch = self.patch(again, archive_of({".gitignore": b"*\n", "x.o": b"x"}), "echo y > x.o; echo z > z.o")
        self.assertIn("b/x.o", patch)  # it came with the archive
        self.assertNotIn("z.o", patch)

    def test_ignored_files_stay_out_unless_they_were_shipped(self):
        files = BASE | {".gitignore": b"*.log\nbuild/\n!keep.log\n", "old.log": b"1\n", "sub/.gitignore": b"tmp\n"}
        patch, tree = self.made(
            files, "echo 2 > old.log; echo x > new.log; echo k > keep.log; mkdir -p build/deep; echo o > build/deep/x; "
            "echo t > sub/tmp; echo u > sub/other; echo t > tmp")
        self.assertEqual(tree["old.log"][2], b"2\n")
        self.assertEqual((tree["keep.log"][2], tree["sub/other"][2], tree["tmp"][2]), (b"k\n", b"u\n", b"t\n"))
        for name in ("new.log", "build/deep/x", "sub/tmp"):
            self.assertNotIn(name, tree)

    def test_attributes_of_the_tree_convert_nothing(self):
        files = {".gitattributes": b"* text=auto eol=lf\n*.u working-tree-encoding=UTF-16\n*.x -diff\n",
                 "crlf.txt": b"a\r\nb\r\n", "w.u": "é\n".encode(), "t.x": b"1\n"}
        patch, tree = self.made(files, "printf 'a\\r\\nc\\r\\n' > crlf.txt; echo z >> w.u; echo 2 > t.x")
        self.assertEqual(tree["crlf.txt"][2], b"a\r\nc\r\n")
        self.assertEqual(tree["w.u"][2], "é\nz\n".encode())
        self.assertIn("+2\n", patch)
        patch, tree = self.made(files, "printf 'a\\nb\\n' > crlf.txt")
        self.assertEqual(tree["crlf.txt"][2], b"a\nb\n")

    def test_nested_repositories_are_plain_files(self):
        files = BASE | {"inner/.git/HEAD": b"ref: refs/heads/main\n", "inner/.git/config": b"[core]\n",
                        "inner/file": b"1\n", ".git/HEAD": b"ref: refs/heads/main\n"}
        patch = self.patch(self.open, archive_of(files), "echo 2 > inner/file; echo x > .git/new; echo x > inner/.git/y")
        self.assertIn("b/inner/file", patch)
        self.assertNotIn(".git/", patch)
        self.assertNotIn("Subproject", patch)

    def test_leftovers_of_earlier_requests_are_not_told_again(self):
        archive = archive_of(BASE)
        self.assertIn("b/left", self.patch(self.open, archive, "echo 1 > left"))
        self.assertIsNone(self.patch(self.open, archive, "true"))
        patch = self.patch(self.open, archive, "echo 2 > left")
        self.assertIn("new file mode", patch)
        self.assertEqual(Tree(self).unpack(archive).apply(patch).content()["left"][2], b"2\n")
        self.assertIsNone(self.patch(self.open, archive, "rm left"))

    def test_ephemeral_starts_from_the_archive_each_time(self):
        session = self.session(ephemeral=True, extract_patch=True)
        archive = archive_of(BASE)
        self.patch(session, archive, "echo 1 > left; mkdir -p shut/x; chmod 000 shut; touch .hidden")
        self.assertEqual(self.run_one(session, "ls -A | sort | tr '\\n' ' '")[0], ".hidden a.txt dir left run.sh shut ")
        answer = self.run_all(session, "ls -A | sort | tr '\\n' ' '", archive=packed(archive))
        self.assertEqual(answer["results"][0]["output"], "a.txt dir run.sh ")
        self.assertIsNone(answer["patch"])

    def test_names_that_mean_something_to_git(self):
        patch, tree = self.made({".gitignore": b"*.o\n", "a": b"1\n"},
                                "echo 2 > a; for f in :x ':!a' ':(top)b' '!c'; do echo new > \"$f\"; done; "
                                "ln -s a .gitmodules; echo o > x.o")
        self.assertEqual({name for name in tree if tree[name][2] == b"new\n"}, {":x", ":!a", ":(top)b", "!c"})
        self.assertEqual(tree["a"][2], b"2\n")

    def test_what_is_ignored_does_not_count_however_large(self):
        patch, tree = self.made({".gitignore": b"build/\n"}, "mkdir build; truncate -s 2G build/large; echo x > new")
        self.assertEqual(set(tree), {".gitignore", "new"})

    def test_odd_names(self):
        names = ["sp ace", "tab\there", 'quo"te', "back\\slash", "ünï", "new\nline", "-dash", "a/b c/d", "*star?", "git~1",
                 "[x]", "é/ü"]
        files = {name: b"1\n" for name in names}
        patch, tree = self.made(files, f"cd {REPO} && find . -type f -exec sh -c 'for f; do echo 2 > \"$f\"; done' x {{}} +")
        for name in names:
            self.assertEqual(tree[name][2], b"2\n", name)
        self.assertEqual(patch.count("diff --git "), len(names))


class Random(DaivCase):
    """Random trees, random edits, random archives; git decides."""

    ROUNDS = 12

    def content(self, dice):
        return dice.choice([
            b"", b"\n", b"no newline", b"x\n" * dice.randrange(1, 300), bytes(dice.randrange(256) for _ in range(200)),
            "grüße\n".encode() * dice.randrange(1, 50), b"caf\xe9\n" * dice.randrange(1, 40), b"\0binary\n" * 9,
            b"".join(b"line %d\n" % dice.randrange(10**6) for _ in range(dice.randrange(1, 200))),
            b"a\r\nb\r\n", b"diff --git a/x b/x\n", b"GIT binary patch\n"])

    def name(self, dice):
        part = lambda: dice.choice(["a", "b c", "ü", "d.txt", "e\n", "-f", "#g", "h'\"", "long" * 30, "[i]", "j\\"])
        return "/".join(part() for _ in range(dice.randrange(1, 4)))

    def tree(self, dice):
        out = {}
        for _ in range(dice.randrange(0, 25)):
            name = self.name(dice)
            clash = any(name == one or name.startswith(one + "/") or one.startswith(name + "/") for one in out)
            if clash:
                continue
            kind = dice.random()
            out[name] = "a" if kind < 0.1 else (self.content(dice), dice.choice([0o644, 0o755]))
        return out

    def edits(self, dice, tree):
        new = dict(tree)
        for name in list(tree):
            kind = dice.random()
            if kind < 0.15:
                del new[name]
            elif kind < 0.3:
                new[name] = (self.content(dice), dice.choice([0o644, 0o755]))
            elif kind < 0.4 and isinstance(tree[name], tuple):
                new[name] = (tree[name][0] + b"more\n", tree[name][1] ^ 0o111)
            elif kind < 0.5:
                fresh = "moved/" + name
                new[fresh] = new.pop(name)
            elif kind < 0.55:
                new[name] = "target"
        for name, content in self.tree(dice).items():
            if not any(name == one or name.startswith(one + "/") or one.startswith(name + "/") for one in new):
                new[name] = content
        return new

    def test_the_patch_makes_one_tree_out_of_the_other(self):
        # The same trees each time, so that who changes something hears of it and nobody else; CAISSON_SEED asks for others.
        seed = int(os.environ.get("CAISSON_SEED", "1"))
        dice = random.Random(seed)
        session = self.session(ephemeral=True, extract_patch=True)
        for number in range(self.ROUNDS):
            with self.subTest(seed=seed, round=number):
                old = self.tree(dice)
                new = self.edits(dice, old)
                wanted = archive_of(new, "w", format=tarfile.PAX_FORMAT)
                written = self.fs(session, "write", path=f"/workspace/tmp/{number}.tar", content=packed(wanted))
                self.assertIsNone(written["error"])
                before = archive_of(old, dice.choice(["w", "w:gz", "w:bz2", "w:xz"]), format=tarfile.PAX_FORMAT)
                patch = self.patch(session, before,
                                   f"find . -mindepth 1 -delete && tar -xf /workspace/tmp/{number}.tar --no-same-owner")
                tree = Tree(self).unpack(before)
                if patch is not None:
                    tree.apply(patch)
                self.assertEqual(tree.content(), Tree(self).unpack(wanted).content())


if __name__ == "__main__":
    main()
