// Server-sent events, from chunks of text. fetch() is used instead of EventSource because it can
// send a body, shows the status of a refusal, and hands over every type without a list of them.

export interface SseEvent {
  id: string;
  event: string;
  data: string;
}

export class SseParser {
  private rest = '';
  private event = '';
  private id = '';
  private data: string[] = [];

  // What is complete now. A piece may end in the middle of a line.
  push(text: string): SseEvent[] {
    const out: SseEvent[] = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    for (const line of lines) this.line(line, out);
    return out;
  }

  private line(line: string, out: SseEvent[]): void {
    if (line === '') {
      if (this.data.length > 0) {
        out.push({ id: this.id, event: this.event || 'message', data: this.data.join('\n') });
      }
      this.event = '';
      this.data = [];
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment that keeps the connection alive
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') this.event = value;
    else if (name === 'data') this.data.push(value);
    else if (name === 'id') this.id = value;
  }
}
