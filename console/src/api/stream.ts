// A streamed answer, event by event.
import { send, type CallOptions } from './client';
import { SseParser, type SseEvent } from '../lib/sse';

export async function stream(
  method: string,
  path: string,
  options: CallOptions,
  onEvent: (event: SseEvent) => void,
  onOpen?: (response: Response) => void,
): Promise<void> {
  const headers = { ...options.headers, Accept: 'text/event-stream' };
  const response = await send(method, path, { ...options, headers });
  onOpen?.(response);
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  const parser = new SseParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of parser.push(decoder.decode(value, { stream: true }))) onEvent(event);
  }
}
