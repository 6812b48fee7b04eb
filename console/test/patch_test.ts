import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePatch, tally } from '../src/lib/patch';

const kTwo = `diff --git a/workspace/a.txt b/workspace/a.txt
index 45b983b..9daeafb 100644
--- a/workspace/a.txt
+++ b/workspace/a.txt
@@ -1,3 +1,4 @@ head
 one
-two
+2
+2.5
 three
\\ No newline at end of file
diff --git b/workspace/b.bin b/workspace/b.bin
new file mode 100644
index 0000000..45b983b
GIT binary patch
literal 3
`;

test('lines have their kind and their numbers', () => {
  const [file] = parsePatch(kTwo);
  assert.equal(file?.path, '/workspace/a.txt');
  assert.deepEqual(
    file?.lines.map((line) => line.kind),
    ['hunk', 'same', 'removed', 'added', 'added', 'same', 'note'],
  );
  assert.deepEqual(
    file?.lines.slice(1, 6).map((line) => [line.old, line.new]),
    [
      [1, 1],
      [2, undefined],
      [undefined, 2],
      [undefined, 3],
      [3, 4],
    ],
  );
  assert.deepEqual(tally(file?.lines ?? []), { added: 2, removed: 1 });
});

test('what is not text is said, and a new file has its name', () => {
  const files = parsePatch(kTwo);
  assert.equal(files.length, 2);
  assert.equal(files[1]?.binary, true);
  assert.equal(files[1]?.path, '/workspace/b.bin');
});

test('lines that look like headers are lines inside a hunk', () => {
  const [file] = parsePatch(
    'diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- sql\n+++ more\n',
  );
  assert.deepEqual(file?.lines.slice(1), [
    { kind: 'removed', text: '-- sql', old: 1 },
    { kind: 'added', text: '++ more', new: 1 },
  ]);
});

test('markup stays text, and nothing is nothing', () => {
  const [file] = parsePatch('diff --git a/x b/x\n@@ -0,0 +1 @@\n+<script>alert(1)</script>\n');
  assert.equal(file?.lines[1]?.text, '<script>alert(1)</script>');
  assert.deepEqual(parsePatch(''), []);
});

test('a huge patch is cut, and says so', () => {
  const text = `diff --git a/x b/x\n@@ -0,0 +1,9000 @@\n${'+a\n'.repeat(9000)}`;
  const lines = parsePatch(text)[0]?.lines ?? [];
  assert.equal(lines.length, 5002);
  assert.equal(lines[lines.length - 1]?.text, 'the rest is not shown');
});
