// One command at a time, its output as it comes, and what was run before in this visit.
import { signal, type Signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { execSocket } from '../../api/processes';
import type { Sandbox } from '../../api/types';
import { keepTail, plain } from '../../lib/ansi';
import { ending, type Ending } from '../../lib/format';
import { parseSpan } from '../../lib/pairs';
import { can } from '../../state/session';
import { complain } from '../../state/toasts';
import { Copy } from '../../ui/bits';
import { Button } from '../../ui/button';

const kRunsMax = 50;
const kHistoriesMax = 20; // sandboxes whose runs are remembered
const kOutputMax = 256 * 1024; // letters kept of one run
const kPiecesMax = 1000; // changes between the two streams
const kDrawMs = 80; // output that comes faster is drawn together

interface Piece {
  stream: 'out' | 'err';
  text: string;
}
interface Run {
  number: number;
  command: string;
  output: Output;
  end: Signal<string>; // empty while it runs
  good: Signal<boolean>;
  kill: () => void;
}

const histories = new Map<string, Signal<Run[]>>();
function runsOf(id: string): Signal<Run[]> {
  let found = histories.get(id);
  if (!found) {
    histories.set(id, (found = signal<Run[]>([])));
    const [oldest] = histories.keys();
    if (histories.size > kHistoriesMax && oldest !== undefined) histories.delete(oldest);
  }
  return found;
}
let lastNumber = 0;

// The newest part of the output, in the order in which it came.
function keepNewest(list: readonly Piece[]): Piece[] {
  let left = kOutputMax;
  const kept: Piece[] = [];
  for (let i = list.length - 1; i >= 0 && left > 0 && kept.length < kPiecesMax; i -= 1) {
    const piece = list[i]!;
    kept.push({ stream: piece.stream, text: keepTail(piece.text, left).text });
    left -= piece.text.length;
  }
  return kept.reverse();
}

// Gathers what comes and shows it now and then.
class Output {
  readonly shown = signal<Piece[]>([]);
  private list: Piece[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  add(stream: 'out' | 'err', text: string): void {
    const last = this.list[this.list.length - 1];
    if (last?.stream === stream && last.text.length < kOutputMax) last.text += text;
    else this.list.push({ stream, text });
    this.timer ??= setTimeout(() => this.draw(), kDrawMs);
  }

  draw(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.list = keepNewest(this.list);
    this.shown.value = this.list.map((piece) => ({ ...piece }));
  }
}

// A WebSocket rather than events: browsers open few HTTP connections at once, and many commands may run.
function start(id: string, command: string, seconds: number | undefined): Run {
  const socket = new WebSocket(execSocket(id), ['caisson']);
  socket.binaryType = 'arraybuffer';
  const run: Run = {
    number: ++lastNumber,
    command,
    output: new Output(),
    end: signal(''),
    good: signal(true),
    kill: () => socket.close(),
  };
  const decoders = { out: new TextDecoder(), err: new TextDecoder() };
  const finish = (text: string, good: boolean) => {
    if (run.end.value !== '') return;
    run.output.draw();
    run.good.value = good;
    run.end.value = text;
  };
  socket.onopen = () => socket.send(JSON.stringify({ command, timeout_seconds: seconds ?? null }));
  socket.onmessage = (event) => {
    if (typeof event.data === 'string') {
      const message = JSON.parse(event.data);
      if (message.type === 'exit') finish(ending(message as Ending), message.exit_code === 0);
      if (message.type === 'error') finish(String(message.error?.message ?? 'it failed'), false);
      return;
    }
    const bytes = new Uint8Array(event.data as ArrayBuffer);
    const stream = bytes[0] === 2 ? 'err' : 'out';
    run.output.add(stream, decoders[stream].decode(bytes.subarray(1), { stream: true }));
  };
  socket.onclose = () => finish('the connection was lost, and the command with it', false);
  return run;
}

function RunView({ run }: { run: Run }) {
  const all = run.output.shown.value;
  const text = plain(all.map((piece) => piece.text).join(''));
  return (
    <article class="run" data-testid="run">
      <header class="row">
        <code class="grow run-command" data-testid="run-command">
          {run.command}
        </code>
        {run.end.value ? (
          <span class={run.good.value ? 'chip good' : 'chip bad'} data-testid="run-end">
            {run.end.value}
          </span>
        ) : (
          <Button kind="danger" testid="run-kill" onClick={run.kill}>
            Stop
          </Button>
        )}
        <Copy text={text} label="Copy the output" testid="run-copy" />
      </header>
      <pre class="code run-output" data-testid="run-output">
        {all.map((piece, index) => (
          <span key={index} class={piece.stream === 'err' ? 'err' : ''}>
            {plain(piece.text)}
          </span>
        ))}
      </pre>
    </article>
  );
}

export function RunTab({ box }: { box: Sandbox }) {
  const runs = runsOf(box.id);
  const [text, setText] = useState('');
  const [time, setTime] = useState('');
  const [back, setBack] = useState(0);
  const end = useRef<HTMLDivElement>(null);
  const usable = box.state === 'running' && can('use');
  const count = runs.value.length;
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }), [count]);
  const submit = () => {
    const command = text.trim();
    if (command === '' || !usable) return;
    const seconds = parseSpan(time, 'Time limit');
    if (typeof seconds === 'string') return complain(new Error(seconds));
    runs.value = [...runs.value, start(box.id, command, seconds)].slice(-kRunsMax);
    setText('');
    setBack(0);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      submit();
    } else if ((event.key === 'ArrowUp' || event.key === 'ArrowDown') && !text.includes('\n')) {
      const next = Math.max(
        0,
        Math.min(runs.value.length, back + (event.key === 'ArrowUp' ? 1 : -1)),
      );
      setBack(next);
      setText(next === 0 ? '' : (runs.value[runs.value.length - next]?.command ?? ''));
      event.preventDefault();
    }
  };
  return (
    <div class="stack" data-testid="tab-run">
      <div class="run-input">
        <textarea
          rows={2}
          spellcheck={false}
          aria-label="Command"
          placeholder="A command; Enter runs it, Shift+Enter is a new line, ↑ brings the last one back"
          disabled={!usable}
          value={text}
          data-testid="run-input"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <input
          class="run-time phone-hide"
          type="text"
          aria-label="Time limit"
          title="Time limit, such as 90 or 10m"
          placeholder="time limit"
          value={time}
          data-testid="run-time"
          onInput={(event) => setTime(event.currentTarget.value)}
        />
        <Button kind="primary" icon="play" disabled={!usable} testid="run-submit" onClick={submit}>
          Run
        </Button>
      </div>
      {[...runs.value].reverse().map((run) => (
        <RunView key={run.number} run={run} />
      ))}
      <div ref={end} />
    </div>
  );
}
