// "NAME=value" lines, for variables and labels.

export function parsePairs(text: string): Record<string, string> | string {
  const out: Record<string, string> = Object.create(null);
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const at = line.indexOf('=');
    if (at <= 0) return `"${line.trim().slice(0, 40)}" has no "=": write NAME=value`;
    out[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return { ...out };
}

export const printPairs = (pairs: Record<string, string>): string =>
  Object.entries(pairs)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n');

// A field for a number: empty is undefined; a string says what is wrong.
export function parseNumber(text: string, what: string): number | undefined | string {
  if (text.trim() === '') return undefined;
  const value = Number(text);
  return Number.isFinite(value) && value >= 0 ? value : `${what} is "${text}": want a number`;
}

// "90", "10m", "2h", "7d" in seconds.
export function parseSpan(text: string, what: string): number | undefined | string {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?\s*$/.exec(text);
  if (text.trim() === '') return undefined;
  if (!match) return `${what} is "${text}": want a time such as 90, 10m, 2h or 7d`;
  const unit = { s: 1, m: 60, min: 60, h: 3600, d: 86400 }[match[2] ?? 's'] ?? 1;
  return Number(match[1]) * unit;
}
