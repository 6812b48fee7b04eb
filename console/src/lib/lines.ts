// Line ends of a file in an editor. A text field of a browser knows "\n" only, so what a file had is
// remembered and put back; one with several kinds would be damaged.

export type LineEnds = 'lf' | 'crlf' | 'mixed';

export function lineEnds(text: string): LineEnds {
  const returns = text.split('\r').length - 1;
  if (returns === 0) return 'lf';
  const pairs = text.split('\r\n').length - 1;
  const feeds = text.split('\n').length - 1;
  return pairs === returns && pairs === feeds ? 'crlf' : 'mixed';
}

export const forEditor = (text: string): string => text.replace(/\r\n?/g, '\n');

export const forFile = (text: string, ends: LineEnds): string =>
  ends === 'crlf' ? text.replace(/\n/g, '\r\n') : text;
