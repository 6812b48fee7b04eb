"""Archives: everything that is a tar goes in, sanitised, or nothing of it does."""

import io
import lzma
import pathlib
import re
import subprocess
import tarfile

from daiv_case import REPO, DaivCase, Tree, archive_of, git, packed
from harness import main
from store_case import need

FILES = {"a.txt": b"a\n", "dir/b": b"b\n", "x.sh": (b"#!/bin/sh\n", 0o755)}


def one_member(**fields):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("good")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"g\n"))
        info = tarfile.TarInfo("x")
        for name, value in fields.items():
            setattr(info, name, value)
        tar.addfile(info, io.BytesIO(b"x" * info.size))
    return out.getvalue()


class Archives(DaivCase):
    def setUp(self):
        self.open = self.session(ephemeral=True)

    def put(self, data, *commands):
        return self.run_all(self.open, *commands, archive=packed(data))["results"]

    def refused(self, data):
        answer = self.call("POST", f"/session/{self.open}/", {"commands": ["touch ran"], "archive": packed(data)})
        self.assertIn(answer.status, (400, 422), answer.body)
        self.assertTrue(answer.json["detail"])
        self.assertEqual(self.run_one(self.open, "ls -A")[0], "")  # nothing of it, and no command

    def most_memory(self):
        """KiB that the server has ever had at once."""
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])

    def test_each_packing_is_found_by_its_content(self):
        plain = archive_of(FILES, "w")
        packings = {"tar": plain, "gz": archive_of(FILES, "w:gz"), "bz2": archive_of(FILES, "w:bz2"),
                    "xz": archive_of(FILES, "w:xz"), "lzma2 blocks": lzma.compress(plain, check=lzma.CHECK_SHA256)}
        need(self, "zstd")
        packings["zstd"] = subprocess.run(["zstd", "-qc"], input=plain, capture_output=True, check=True).stdout
        for name, data in packings.items():
            with self.subTest(name):
                self.assertEqual(self.put(data, "cat a.txt dir/b; test -x x.sh && echo x")[0]["output"], "a\nb\nx\n")

    def test_base64_with_line_ends(self):
        text = packed(archive_of(FILES))
        wrapped = "\n".join(text[i:i + 60] for i in range(0, len(text), 60)) + "\n"
        self.assertEqual(self.run_all(self.open, "cat a.txt", archive=wrapped)["results"][0]["output"], "a\n")
        answer = self.call("POST", f"/session/{self.open}/", {"commands": [], "archive": "YWJ"})
        self.assertEqual((answer.status, answer.json["detail"][0]["type"]), (422, "base64_decode"))
        self.assertEqual(self.run_all(self.open, "echo x", archive="***")["results"][0]["output"], "x\n")

    def test_what_leads_out_refuses_all_of_it(self):
        for name in ("/etc/x", "../x", "a/../../x", "a/.."):
            with self.subTest(name):
                self.refused(one_member(name=name, size=1))
        self.refused(b"this is no archive at all" * 100)
        self.refused(archive_of(FILES)[:-40])
        self.refused(archive_of(FILES, "w")[:513])

    def test_what_is_no_file_is_left_out(self):
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
            self.assertEqual(self.put(one_member(type=kind), "ls")[0]["output"], "good\n")
        self.assertEqual(self.put(one_member(type=tarfile.LNKTYPE, linkname="/etc/passwd"), "ls")[0]["output"], "good\n")
        for target in ("/etc/passwd", "../../x", "a/../../../x"):
            self.assertEqual(self.put(one_member(type=tarfile.SYMTYPE, linkname=target), "ls")[0]["output"], "good\n")

    def test_modes_and_owners(self):
        for given, wanted in ((0o700, "755"), (0o600, "644"), (0, "644"), (0o4711, "755"), (0o640, "644")):
            self.put(one_member(mode=given, size=1, uid=0, gid=0, uname="root"))
            self.assertEqual(self.run_one(self.open, "stat -c %a:%u:%g x")[0], f"{wanted}:1000:1000\n", oct(given))

    def test_a_link_that_was_there_leads_nowhere(self):
        session = self.session()
        self.run_one(session, "ln -s /home/daiv-sandbox dir")
        answer = self.call("POST", f"/session/{session}/", {"commands": ["ls /home/daiv-sandbox; cat dir/b"],
                                                            "archive": packed(archive_of({"dir/b": b"b\n"}))})
        self.assertIn(answer.status, (200, 400, 422))
        self.assertNotIn("b", self.run_one(session, "ls /home/daiv-sandbox")[0])

    def test_times_are_kept(self):
        self.put(archive_of(FILES))
        self.assertEqual(self.run_one(self.open, "stat -c %Y a.txt")[0], "1700000000\n")

    def test_existing_files_are_replaced_and_others_stay(self):
        session = self.session()
        self.run_all(session, "echo mine > mine; echo old > a.txt; chmod 000 a.txt", archive=packed(archive_of({})))
        answer = self.run_all(session, "cat a.txt mine", archive=packed(archive_of(FILES)))
        self.assertEqual(answer["results"][0]["output"], "a\nmine\n")

    def test_a_repository_is_clean_for_git(self):
        tree = Tree(self)
        (tree.path / "f").write_text("1\n")
        (tree.path / "run").write_text("2\n")
        (tree.path / "run").chmod(0o755)
        git("init", "-q", ".", cwd=tree.path)
        git("add", "-A", cwd=tree.path)
        git("commit", "-qm", "x", cwd=tree.path)
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            tar.add(tree.path, ".")
        said = self.put(out.getvalue(), "git status")[0]
        self.assertEqual(said["exit_code"], 0, said)
        self.assertTrue(said["output"].startswith("On branch main"), said)
        self.assertIn("nothing to commit, working tree clean", said["output"])

    def test_a_large_one_does_not_fill_the_memory(self):
        data = archive_of({f"f{n}": bytes([n]) * (4 << 20) for n in range(16)}, "w")
        self.put(archive_of(FILES))
        before = self.most_memory()
        self.assertEqual(self.put(data, "ls | wc -l")[0]["output"], "16\n")
        self.assertLess(self.most_memory() - before, 32 << 10)  # the archive has 64 MiB

    def test_a_full_disk_is_said_and_nothing_hangs(self):
        data = archive_of({"zeros": bytes(300 << 20)}, "w:gz")
        answer = self.call("POST", f"/session/{self.open}/", {"commands": ["true"], "archive": packed(data)})
        self.assertGreaterEqual(answer.status, 400)
        self.assertEqual(self.run_one(self.open, "echo alive")[0], "alive\n")


class Seeds(DaivCase):
    def test_once_and_in_its_places(self):
        session = self.session()
        self.assertEqual(self.seed(session).json, {"detail": "At least one of repo_archive or skills_archive must be provided"})
        self.assertEqual(self.seed(session, skills_archive=archive_of({"s": b"skill"}),
                                   repo_archive=archive_of({"r": b"repo", "l": "r"})).status, 204)
        self.assertEqual(self.run_one(session, "cat r l /workspace/skills/s")[0], "reporeposkill")
        again = self.seed(session, repo_archive=archive_of(FILES))
        self.assertEqual((again.status, again.json), (409, {"detail": "Session already seeded"}))

    def test_a_bad_one_leaves_it_unseeded(self):
        session = self.session()
        answer = self.seed(session, repo_archive=b"nonsense" * 100)
        self.assertEqual(answer.status, 422)
        self.assertTrue(answer.json["detail"].startswith("repo_archive is invalid: "), answer.json)
        self.assertEqual(self.seed(session, repo_archive=archive_of(FILES)).status, 204)

    def test_commands_cannot_touch_the_mark(self):
        session = self.session()
        self.run_one(session, "touch ~/.daiv-seeded")
        self.assertEqual(self.seed(session, repo_archive=archive_of(FILES)).status, 204)
        self.run_one(session, "rm -rf ~/.daiv-seeded")
        self.assertEqual(self.seed(session, repo_archive=archive_of(FILES)).status, 409)

    def test_folders_without_an_entry_are_the_users(self):
        session = self.session()
        self.seed(session, repo_archive=archive_of({"deep/er/f": b"1"}))
        self.assertEqual(self.run_one(session, "stat -c %u:%g:%a deep deep/er | sort -u; touch deep/er/new; echo $?")[0],
                         "1000:1000:755\n0\n")

    def test_unknown_and_not_multipart(self):
        self.assertEqual(self.seed("ab" * 32, repo_archive=archive_of(FILES)).status, 404)
        session = self.session()
        self.assertEqual(self.call("POST", f"/session/{session}/seed/", {}).status, 422)


if __name__ == "__main__":
    main()
