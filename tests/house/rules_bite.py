"""Shows each rule of the house a tree that breaks it and one that does not."""

import os
import tempfile
import unittest
from pathlib import Path

import banned_calls
import child_symbols
import file_length
import kernel_headers
import layering
import no_leftovers
import openapi
import promises
import readme_commands
import signs
import skips
import tree


class TreeCase(unittest.TestCase):
    """A test with a small tree of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name, text=""):
        path = self.root / name
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def assert_complains(self, check, word):
        found = check(self.root)
        self.assertTrue(any(word in line for line in found), f"expected '{word}' in {found}")

    def assert_content(self, check):
        self.assertEqual(check(self.root), [])


class Text(unittest.TestCase):
    def test_blanks_comments_and_strings_but_keeps_lines(self):
        text = 'a(); // system()\n/* popen(\n*/ b("system()"); c(R"x(gets()x"); d(1\'000);'
        clean = tree.without_comments_and_strings(text)
        self.assertEqual(clean.count("\n"), text.count("\n"))
        self.assertNotIn("system", clean)
        self.assertNotIn("popen", clean)
        self.assertNotIn("gets", clean)
        self.assertIn("d(1'000);", clean)

    def test_an_include_in_a_comment_is_none(self):
        self.assertEqual(list(tree.includes('// #include "a/b.h"\n#include "c/d.h"\n')), [(2, "c/d.h", False)])


class Layering(TreeCase):
    def test_upward_include(self):
        self.write("src/policy/policy.h", '#include "engine/engine.h"\n')
        self.assert_complains(layering.check, "policy may not include engine")

    def test_neighbour_include(self):
        self.write("src/sys/sys.h", '#include "policy/policy.h"\n')
        self.assert_complains(layering.check, "sys may not include policy")

    def test_init_knows_only_the_protocol(self):
        self.write("src/guest/init/init.cc", '#include "guest/protocol/protocol.h"\n')
        self.assert_content(layering.check)
        self.write("src/guest/init/init.cc", '#include "base/result.h"\n')
        self.assert_complains(layering.check, "guest/init may not include base")

    def test_the_embedded_init_belongs_to_the_host(self):
        self.write("src/guest/init_blob.h")
        self.write("src/engine/engine.cc", '#include "guest/init_blob.h"\n')
        self.assert_content(layering.check)
        self.write("src/engine/engine.cc", '#include "guest/init/ring.h"\n')
        self.assert_complains(layering.check, "engine may not include guest/init")

    def test_the_layer_program_knows_base_and_the_protocol(self):
        self.write("src/guest/layer/x.cc", '#include "base/result.h"\n#include "guest/protocol/layer_job.h"\n')
        self.write("src/guest/layer_blob.h")
        self.write("src/engine/engine.cc", '#include "guest/layer_blob.h"\n')
        self.assert_content(layering.check)
        self.write("src/guest/layer/x.cc", '#include "sys/file.h"\n')
        self.assert_complains(layering.check, "guest/layer may not include sys")

    def test_upward_link(self):
        self.write("src/base/CMakeLists.txt", "caisson_room(base DEPS caisson_sys)\n")
        self.write("src/sys/CMakeLists.txt", "caisson_room(sys)\n")
        self.assert_complains(layering.check, "caisson_base may not link caisson_sys")

    def test_included_but_not_linked(self):
        self.write("src/base/CMakeLists.txt", "caisson_room(base)\n")
        self.write("src/policy/CMakeLists.txt", "caisson_room(policy)\n")
        self.write("src/policy/policy.h", '#include "base/result.h"\n')
        self.assert_complains(layering.check, "does not link base")
        self.write("src/policy/CMakeLists.txt", "caisson_room(policy DEPS caisson_base)\n")
        self.assert_content(layering.check)

    def test_unknown_and_badly_named_rooms(self):
        self.write("src/helpers/x.cc")
        self.assert_complains(layering.check, "never 'helpers'")
        self.assert_complains(layering.check, "has no step")


class SmallRules(TreeCase):
    def test_file_length(self):
        self.write("src/base/long.cc", "\n" * 600)
        self.assert_content(file_length.check)
        self.write("src/base/long.cc", "\n" * 601)
        self.assert_complains(file_length.check, "601 lines")

    def test_banned_calls(self):
        self.write("src/base/a.cc", "fs.system(1); x->popen(2); // system(3)\nfile_system(4);\n")
        self.assert_content(banned_calls.check)
        self.write("src/base/a.cc", "std::system(cmd);\n")
        self.assert_complains(banned_calls.check, "system()")

    def test_sleep_is_banned_in_tests_only(self):
        self.write("src/base/a.cc", "sleep(1);\n")
        self.write("tests/payload/nap.c", "sleep(1);\n")
        self.assert_content(banned_calls.check)
        self.write("src/base/a_test.cc", "std::this_thread::sleep_for(1s);\n")
        self.assert_complains(banned_calls.check, "sleep_for()")

    def test_kernel_headers(self):
        self.write("src/sys/a.cc", "#include <linux/sched.h>\n")
        self.assert_content(kernel_headers.check)
        self.write("src/control/a.cc", "#include <sys/mount.h>\n")
        self.assert_complains(kernel_headers.check, "<sys/mount.h>")

    def test_leftovers(self):
        self.write("src/base/a.cc", 'make_temp("/tmp/XXXXXX");\n')
        self.assert_content(no_leftovers.check)
        self.write("src/base/a.cc", "// TO" "DO: later\n")
        self.assert_complains(no_leftovers.check, "do it, refuse it, or document it")

    def test_signs(self):
        self.write("src/policy/policy.h", "// policy — what is allowed.\n// Never here: files.\n#pragma once\n")
        self.assert_content(signs.check)
        self.write("src/policy/policy.h", "#pragma once\n")
        self.assert_complains(signs.check, "begins without a sign")
        self.write("src/sys/mount.h", "")
        self.assert_complains(signs.check, "has no main header")


class Documents(TreeCase):
    def test_promise_without_a_test(self):
        self.write("tests/security/p01_files_test.cc")
        self.write("docs/SECURITY.md", "| P1 | No file | tests/security/p01_files_test.cc |\n")
        self.assert_content(promises.check)
        self.write("docs/SECURITY.md", "| P1 | No file | tests/security/p99_none_test.cc |\n")
        self.assert_complains(promises.check, "does not exist")
        self.assert_complains(promises.check, "no promise")
        self.write("tests/security/p32_tokens.py")
        self.write("tests/security/live_server.py")
        self.write("docs/SECURITY.md", "| P32 | No call | tests/security/p01_files_test.cc |\n")
        self.assert_complains(promises.check, "p32_tokens.py: no promise")
        self.assertFalse(any("live_server" in line for line in promises.check(self.root)))
        self.write("docs/SECURITY.md", "| P1 | No file | by hand |\n")
        self.assert_complains(promises.check, "names no test")

    def test_missing_documents(self):
        self.assert_complains(promises.check, "missing")
        self.assert_complains(readme_commands.check, "missing")

    def test_readme_commands(self):
        self.write("dev", "cmd_build() {\n}\n")
        self.write("src/cli/cli.cc", 'app.add_subcommand("run", "Runs");\n')
        self.write("README.md", "`./dev build`\n```\n$ build/bin/caisson run -- true\n```\n")
        self.assert_content(readme_commands.check)
        self.write("README.md", "`./dev fly`, [page](docs/none.md)\n```\nsudo caisson swim\n```\n")
        self.assert_complains(readme_commands.check, "./dev fly")
        self.assert_complains(readme_commands.check, "caisson swim")
        self.assert_complains(readme_commands.check, "docs/none.md")


class Contract(TreeCase):
    OPERATION = ("{operationId: getThing, summary: A thing, x-caisson-scope: %s, parameters: [{name: id, in: path}, "
                 "{name: deep, in: query}], responses: {'200': {}, '400': *e, '401': *e, '403': *e}}")

    def write_both(self, scope="read", line='{Get, Need::Read, "/things/{id}", "getThing", "deep", get_thing},'):
        self.write("api/openapi.yaml", "e: &e {content: {application/json: {}}}\npaths:\n  /things/{id}:\n    get: "
                   + self.OPERATION % scope + "\n")
        self.write("src/doors/rest/routes.cc", line + "\n")

    def test_contract_and_table_agree(self):
        self.write_both()
        self.assert_content(openapi.check)

    def test_each_way_they_differ(self):
        self.write_both(scope="use")
        self.assert_complains(openapi.check, "the scope is read in the table and use")
        self.write_both(line='{Get, Need::Read, "/things/{id}", "getThing", "flat", get_thing},')
        self.assert_complains(openapi.check, "the query parameters")
        self.write_both(line='{Put, Need::Read, "/things/{id}", "getThing", "deep", get_thing},')
        self.assert_complains(openapi.check, "GET /things/{id} is not in src")
        self.assert_complains(openapi.check, "PUT /things/{id} is not in api")
        self.write_both(scope="all")
        self.assert_complains(openapi.check, "declares no x-caisson-scope")


class Symbols(unittest.TestCase):
    def test_a_call_that_is_not_on_the_list(self):
        allowed = child_symbols.allowed_symbols("# calls\nwrite\n_exit  # the end\n")
        undefined = child_symbols.undefined_symbols("write U\n_exit U\nmalloc U\n")
        self.assertEqual(child_symbols.complaints(allowed, undefined, "child.o"),
                         ["child.o: needs 'malloc', which is not on the list"])


class Skips(unittest.TestCase):
    GTEST = ('<testsuites><testsuite name="A">'
             '<testcase name="Runs" status="run" result="completed" classname="A"/>'
             '<testcase name="Needs" status="run" result="skipped" classname="A">'
             '<skipped message="no cgroup v2"/></testcase></testsuite></testsuites>')

    def test_finds_the_skip_and_its_reason(self):
        self.assertEqual(list(skips.skipped_in(self.GTEST, False)), [("A.Needs", "no cgroup v2")])

    def test_judges_by_pattern(self):
        skipped = [("A.Needs", "x"), ("ctest:vm.boot", "y")]
        expected, unexpected, unused = skips.judge(skipped, ["A.*", "B.Other"])
        self.assertEqual((expected, unexpected, unused), ([("A.Needs", "x")], [("ctest:vm.boot", "y")], ["B.Other"]))


if __name__ == "__main__":
    unittest.main()
