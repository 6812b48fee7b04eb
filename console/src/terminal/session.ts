// One terminal: a screen here, a process there, and a WebSocket between them that may break. The
// process goes on without us, so a lost connection is taken up again by its number; the server then
// shows again what it still holds. This file is loaded when the first terminal is opened.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { effect, signal } from '@preact/signals';
import { ApiError, isStatus } from '../api/client';
import { getProcess, runOnce, terminalSocket } from '../api/processes';
import { getSandbox } from '../api/sandboxes';
import { ending } from '../lib/format';
import { dark } from '../state/theme';
import { kDark, kLight } from './colours';
import { page } from './safe_document';

const kScrollbackLines = 5000;
const kPendingBytesMax = 4 * 1024 * 1024; // written but not yet drawn; more and we hang up for a moment
const kTitleMax = 60;
const kRetryMs = [300, 700, 1500, 3000, 5000];

export type Status = 'connecting' | 'open' | 'lost' | 'ended';

export class TerminalSession {
  readonly host = document.createElement('div');
  readonly status = signal<Status>('connecting');
  readonly title = signal('');
  readonly note = signal('');
  readonly processSignal = signal<number | undefined>(undefined);
  private readonly screen: Terminal;
  private readonly fit = new FitAddon();
  private socket: WebSocket | undefined;
  private opened = false;
  private gone = false;
  private tries = 0;
  private pending = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly encoder = new TextEncoder();
  private readonly endThemeEffect: () => void;

  constructor(
    readonly sandbox: string,
    readonly number: number,
    process?: number,
  ) {
    this.processSignal.value = process;
    this.host.className = 'terminal-host';
    this.screen = new Terminal({
      documentOverride: page,
      scrollback: kScrollbackLines,
      fontSize: 13,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'),
      cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
      theme: dark.peek() ? kDark : kLight,
      // A link in output is a guest's word: it is copied by who wants it, not followed.
      linkHandler: { activate: () => undefined },
    });
    this.screen.loadAddon(this.fit);
    this.screen.onData((text) => this.sendBytes(this.encoder.encode(text)));
    this.screen.onBinary((text) =>
      this.sendBytes(Uint8Array.from(text, (letter) => letter.charCodeAt(0))),
    );
    this.screen.onResize(({ rows, cols }) => this.sendText({ type: 'resize', rows, cols }));
    this.screen.onTitleChange((title) => {
      this.title.value = title.slice(0, kTitleMax);
    });
    this.screen.attachCustomKeyEventHandler((event) => this.copyKey(event));
    this.endThemeEffect = effect(() => {
      this.screen.options.theme = dark.value ? kDark : kLight;
    });
  }

  get process(): number | undefined {
    return this.processSignal.peek();
  }

  // Puts the screen into the page. The first time it also connects, since only now its size is known.
  attach(parent: HTMLElement): void {
    parent.append(this.host);
    if (!this.opened) {
      this.opened = true;
      this.screen.open(this.host);
      this.resize();
      this.connect();
    } else {
      this.resize();
    }
  }

  resize(): void {
    if (this.opened && this.host.clientWidth > 0) this.fit.fit();
  }

  focus(): void {
    this.screen.focus();
  }

  selection(): string {
    return this.screen.getSelection();
  }

  // All of it, or what is marked.
  text(): string {
    const marked = this.selection();
    if (marked) return marked;
    this.screen.selectAll();
    const all = this.screen.getSelection();
    this.screen.clearSelection();
    return all.trimEnd();
  }

  // Tries at once instead of after the pause.
  retry(): void {
    if (this.status.peek() !== 'lost') return;
    clearTimeout(this.timer);
    this.connect();
  }

  close(): void {
    this.gone = true;
    clearTimeout(this.timer);
    this.socket?.close();
    this.endThemeEffect();
    this.screen.dispose();
    this.host.remove();
  }

  private connect(): void {
    if (this.gone) return;
    this.status.value = this.process === undefined && this.tries === 0 ? 'connecting' : 'lost';
    const socket = new WebSocket(
      terminalSocket(this.sandbox, this.screen.rows, this.screen.cols, this.process),
      ['caisson'],
    );
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    socket.onmessage = (event) => {
      if (socket !== this.socket) return;
      if (typeof event.data === 'string') this.told(JSON.parse(event.data));
      else this.show(new Uint8Array(event.data as ArrayBuffer));
    };
    socket.onclose = () => {
      if (socket === this.socket) void this.lost();
    };
  }

  private told(message: Record<string, unknown>): void {
    if (message.type === 'start') {
      if (this.process !== undefined) this.screen.reset(); // it is all shown again
      this.processSignal.value = Number(message.process);
      this.tries = 0;
      this.note.value = '';
      this.status.value = 'open';
      this.resize();
    } else if (message.type === 'exit') {
      this.end(ending(message as never));
    } else if (message.type === 'error') {
      this.end(String((message.error as { message?: string } | undefined)?.message ?? 'it failed'));
    }
  }

  private end(text: string): void {
    this.note.value = text;
    this.status.value = 'ended';
    this.screen.options.cursorBlink = false;
    this.socket?.close();
  }

  private show(bytes: Uint8Array): void {
    this.pending += bytes.length;
    this.screen.write(bytes, () => {
      this.pending -= bytes.length;
    });
    // A flood, such as `yes`: hanging up lets the process go on and this page breathe.
    if (this.pending > kPendingBytesMax) this.socket?.close();
  }

  private async lost(): Promise<void> {
    if (this.gone || this.status.peek() === 'ended') return;
    this.status.value = 'lost';
    const why = await this.whyItCannotBe();
    if (this.gone || this.status.peek() !== 'lost') return;
    if (why) return this.end(why);
    const pause = kRetryMs[Math.min(this.tries, kRetryMs.length - 1)];
    this.tries += 1;
    this.timer = setTimeout(() => this.connect(), pause);
    return undefined;
  }

  // A refused WebSocket does not say why; the API does. Nothing when it is worth another try.
  private async whyItCannotBe(): Promise<string | undefined> {
    try {
      const box = await getSandbox(this.sandbox);
      if (box.state === 'ended' || box.state === 'stopped') return `the sandbox is ${box.state}`;
      this.note.value = box.state === 'paused' ? 'the sandbox is paused' : '';
      if (this.process === undefined)
        return box.state === 'running' ? await this.whyNoShell() : undefined;
      const process = await getProcess(this.sandbox, this.process);
      return process.running ? undefined : ending(process);
    } catch (error) {
      if (isStatus(error, 404) || isStatus(error, 410)) return 'it has ended';
      return isStatus(error, 401) ? 'you are not logged in any more' : undefined;
    }
  }

  // No shell in the image, or no right to start one: an ordinary call is refused with the reason.
  private async whyNoShell(): Promise<string | undefined> {
    try {
      await runOnce(this.sandbox, ':');
      return undefined;
    } catch (error) {
      return error instanceof ApiError && error.status >= 400 && error.status < 500
        ? error.message
        : undefined;
    }
  }

  private sendBytes(bytes: Uint8Array): void {
    if (this.socket?.readyState === WebSocket.OPEN)
      this.socket.send(bytes as Uint8Array<ArrayBuffer>);
  }

  private sendText(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  // Ctrl+Shift+C copies, as in other terminals; plain Ctrl+C stays the guest's.
  private copyKey(event: KeyboardEvent): boolean {
    if (event.type === 'keydown' && event.ctrlKey && event.shiftKey && event.code === 'KeyC') {
      event.preventDefault();
      if (this.selection()) void navigator.clipboard.writeText(this.selection());
      return false;
    }
    return true;
  }
}
