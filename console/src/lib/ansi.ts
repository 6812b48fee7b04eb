// Output as plain text: what a terminal would do with escape sequences is left out, and a line that
// was written over by a carriage return shows its last form.

// eslint-disable-next-line no-control-regex
const kEscapes =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])/g;
// eslint-disable-next-line no-control-regex
const kControls = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

export function plain(text: string): string {
  const shown = text.replace(kEscapes, '').replace(/\r\n/g, '\n');
  if (!shown.includes('\r')) return shown.replace(kControls, '');
  return shown
    .split('\n')
    .map((line) => line.replace(/\r+$/, '').split('\r').pop() ?? '')
    .join('\n')
    .replace(kControls, '');
}

const kLinesMax = 3000; // a page with more lines takes long to lay out

// Keeps the newest part of a text that grows, cut at a line.
export function keepTail(text: string, most: number): { text: string; cut: boolean } {
  let from = 0;
  if (text.length > most) {
    from = text.length - most;
    const line = text.indexOf('\n', from);
    if (line >= 0 && line - from < 4096) from = line + 1;
  }
  let at = text.length;
  for (let lines = 0; lines <= kLinesMax && at > from; lines += 1)
    at = text.lastIndexOf('\n', at - 1);
  if (at > from) from = at + 1;
  return from > 0 ? { text: text.slice(from), cut: true } : { text, cut: false };
}
