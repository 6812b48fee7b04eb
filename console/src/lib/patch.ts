// A patch in git's form, as lines to show.

export type LineKind = 'same' | 'added' | 'removed' | 'hunk' | 'note';

export interface PatchLine {
  kind: LineKind;
  text: string;
  old?: number;
  new?: number;
}

export interface FilePatch {
  path: string;
  lines: PatchLine[];
  binary: boolean;
}

const kLinesMax = 5000; // of one file; a page with more is no use to anybody
const kHunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

const pathOf = (line: string): string =>
  line
    .slice(4)
    .replace(/^[ab]\//, '/')
    .replace(/\t.*$/, '');

export function parsePatch(text: string): FilePatch[] {
  const files: FilePatch[] = [];
  let file: FilePatch | undefined;
  let oldLine = 0;
  let newLine = 0;
  let inHunk = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('diff --git ')) {
      file = {
        path: line
          .slice(11)
          .split(' ')
          .pop()!
          .replace(/^[ab]\//, '/'),
        lines: [],
        binary: false,
      };
      files.push(file);
      inHunk = false;
      continue;
    }
    if (!file || file.lines.length > kLinesMax) continue;
    const hunk = kHunk.exec(line);
    if (hunk) {
      oldLine = Number(hunk[1]);
      newLine = Number(hunk[2]);
      inHunk = true;
      file.lines.push({ kind: 'hunk', text: line });
    } else if (!inHunk) {
      header(file, line);
    } else if (line.startsWith('+')) {
      file.lines.push({ kind: 'added', text: line.slice(1), new: newLine++ });
    } else if (line.startsWith('-')) {
      file.lines.push({ kind: 'removed', text: line.slice(1), old: oldLine++ });
    } else if (line.startsWith(' ')) {
      file.lines.push({ kind: 'same', text: line.slice(1), old: oldLine++, new: newLine++ });
    } else if (line.startsWith('\\')) {
      file.lines.push({ kind: 'note', text: line.slice(2) });
    }
    if (file.lines.length > kLinesMax)
      file.lines.push({ kind: 'note', text: 'the rest is not shown' });
  }
  return files;
}

// What stands between "diff --git" and the first hunk.
function header(file: FilePatch, line: string): void {
  if (line.startsWith('+++ ') && line !== '+++ /dev/null') file.path = pathOf(line);
  else if (line.startsWith('--- ') && line !== '--- /dev/null') file.path = pathOf(line);
  else if (line.startsWith('GIT binary patch') || line.startsWith('Binary files'))
    file.binary = true;
  else if (/^(old|new|deleted|rename|similarity)\b/.test(line))
    file.lines.push({ kind: 'note', text: line });
}

export function tally(lines: readonly PatchLine[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.kind === 'added') added += 1;
    if (line.kind === 'removed') removed += 1;
  }
  return { added, removed };
}
