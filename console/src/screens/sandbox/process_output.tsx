// What a process says, from the oldest byte that is still held, as it comes.
import { useEffect, useRef, useState } from 'preact/hooks';
import { isAbort } from '../../api/client';
import { outputPath, writeInput } from '../../api/processes';
import { stream } from '../../api/stream';
import type { Process, Sandbox } from '../../api/types';
import { keepTail, plain } from '../../lib/ansi';
import { complain } from '../../state/toasts';
import { can } from '../../state/session';
import { Copy } from '../../ui/bits';
import { Button } from '../../ui/button';

const kLettersMax = 256 * 1024;
const kDrawMs = 80; // output that comes faster is drawn together

const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

function useOutput(box: Sandbox, process: Process): string {
  const [text, setText] = useState('');
  useEffect(() => {
    const stop = new AbortController();
    const decoders: Record<string, TextDecoder> = {
      stdout: new TextDecoder(),
      stderr: new TextDecoder(),
    };
    let whole = '';
    let timer: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      timer = undefined;
      setText(whole);
    };
    stream('GET', outputPath(box.id, process.id), { signal: stop.signal }, (event) => {
      const decoder = decoders[event.event];
      if (!decoder) return;
      const { data, lost } = JSON.parse(event.data) as { data: string; lost: number };
      if (lost > 0) whole += `\n… ${lost} bytes are gone …\n`;
      whole = keepTail(whole + decoder.decode(bytesOf(data), { stream: true }), kLettersMax).text;
      timer ??= setTimeout(draw, kDrawMs);
    }).catch((error) => {
      if (!isAbort(error)) complain(error);
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [box.id, process.id]);
  return text;
}

export function OutputView({ box, process }: { box: Sandbox; process: Process }) {
  const text = plain(useOutput(box, process));
  const [line, setLine] = useState('');
  const ref = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (ref.current && follows.current) ref.current.scrollTop = ref.current.scrollHeight;
  }, [text]);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    await writeInput(box.id, process.id, `${line}\n`).then(() => setLine(''), complain);
  };
  return (
    <section class="panel" data-testid="process-output-view">
      <div class="panel-head">
        <h2>Output of process {process.id}</h2>
        <Copy text={text} label="Copy the output" />
      </div>
      <pre
        ref={ref}
        class="code output"
        tabIndex={0}
        data-testid="process-output-text"
        onScroll={(event) => {
          const box = event.currentTarget;
          follows.current = box.scrollTop + box.clientHeight > box.scrollHeight - 20;
        }}
      >
        {text || ' '}
      </pre>
      {process.running && can('use') && (
        <form class="row" onSubmit={send}>
          <input
            class="grow"
            type="text"
            aria-label="A line for its standard input"
            placeholder="A line for its standard input"
            data-testid="process-input"
            value={line}
            onInput={(event) => setLine(event.currentTarget.value)}
          />
          <Button type="submit" testid="process-send">
            Send
          </Button>
        </form>
      )}
    </section>
  );
}
