// Bytes in the forms that people have them in.
import { AnswerError } from './errors.js';

/** What can be sent as a body. A stream can be sent only once, so its call is never repeated. */
export type Bytes = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>;

interface NodeBuffer {
  from(text: string, encoding: 'base64'): Uint8Array;
}

const buffer = (globalThis as { Buffer?: NodeBuffer }).Buffer;

export function fromBase64(text: string): Uint8Array {
  if (buffer !== undefined) {
    const { buffer: memory, byteOffset, length } = buffer.from(text, 'base64');
    return new Uint8Array(memory, byteOffset, length);
  }
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function toBytes(data: string | Uint8Array): Uint8Array {
  return typeof data === 'string' ? new TextEncoder().encode(data) : data;
}

/** The whole body, or an error when it is larger than `bytesMax`. */
export async function collect(response: Response, bytesMax: number): Promise<Uint8Array> {
  const promised = response.headers.get('Content-Length');
  const packed = response.headers.has('Content-Encoding'); // then it says nothing about what comes out
  if (promised !== null && !packed && Number(promised) <= bytesMax) {
    return new Uint8Array(await response.arrayBuffer());
  }
  const pieces: Uint8Array[] = [];
  let size = 0;
  if (response.body !== null) {
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > bytesMax) {
        await reader.cancel();
        throw new AnswerError(`the answer is larger than ${bytesMax} bytes: read it as a stream`);
      }
      pieces.push(value);
    }
  }
  const [first] = pieces;
  if (pieces.length === 1 && first !== undefined) return first;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
