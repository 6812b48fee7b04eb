// The parent of every JavaScript run of one sandbox. The server starts it as `node -e BOOT 0 CONFIG`, where BOOT reads
// this from standard input and calls it with itself and this text. Node cannot fork itself, so this keeps a worker that
// has started already, hands it out for a run or context, and starts the next. It talks with the server in the frames of python_parent.py; a worker is this program, too, and says what a run
// came to on a pipe of its own, its fourth descriptor, so that its outputs are only the code's.
//
// A worker leads a session, and its group is killed when its run ends. What has left that group ends with this process:
// the server had init start it in a group of its own. Whoever attacks this process attacks his own sandbox.
'use strict';
/* global boot, text */
const WORKER = process.argv[1] !== '0';
const TEXT_MAX = 64 * 1024;

function cut(text, most = TEXT_MAX) {
  return text.length <= most ? text
    : `${text.slice(0, most / 2)}\n[... ${text.length - most} characters ...]\n${text.slice(-most / 2)}`;
}

// Half a pair of UTF-16 is written as an escape, which no strict reader takes.
function toJson(value) {
  const text = JSON.stringify(value);
  return Buffer.from(text.replace(/\\(?:\\|ud[89a-f][0-9a-f]{2})/g, (one) => (one === '\\\\' ? one : '\ufffd')));
}

// ------------------------------------------------------------------------------------------------ in a run

function beWorker() {
  const fs = require('fs');
  const repl = require('repl');
  const util = require('util');
  const vm = require('vm');
  const { PassThrough } = require('stream');
  const MIMES = [['text/html', '_repr_html_'], ['text/markdown', '_repr_markdown_'], ['text/latex', '_repr_latex_'],
    ['image/svg+xml', '_repr_svg_'], ['image/png', '_repr_png_'], ['image/jpeg', '_repr_jpeg_']];
  const OUTPUTS_MAX = 1024;
  const DEPTH_MAX = 48; // of one JSON value that is shown
  let count = 0;
  let outputs = [];
  let room = 0;
  let truncated = false;
  let stopped = null; // what a signal does to the run that waits
  let finish = null;

  // The language's own loop without a terminal, for await at the top. It shares its const and let with scripts.
  const quiet = new PassThrough();
  const server = repl.start({ input: new PassThrough(), output: quiet, prompt: '', terminal: false, useGlobal: true,
    ignoreUndefined: true });
  quiet.resume();
  // What code throws goes to a domain of the loop, in the versions that have one: it is the run's, not the loop's.
  server._domain?.removeAllListeners('error');
  server._domain?.on('error', (error) => { if (stopped) stopped(error); else stray(error); });
  const stray = (error) => process.stderr.write(`Uncaught ${asText(error)}\n`);

  const asText = (value) => {
    try {
      return cut(typeof value === 'string' ? value : util.inspect(value, { breakLength: 100 }));
    } catch (error) {
      return `<a value that cannot be shown: ${error}>`;
    }
  };

  function bundleOf(value) {
    const bundle = { 'text/plain': asText(value) };
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return bundle;
    for (const [mime, name] of MIMES) {
      try {
        const one = typeof value[name] === 'function' ? value[name]() : undefined;
        if (Buffer.isBuffer(one) || one instanceof Uint8Array) bundle[mime] = Buffer.from(one).toString('base64');
        else if (typeof one === 'string') bundle[mime] = one;
      } catch { /* another form stands beside */ }
    }
    const kind = Object.getPrototypeOf(value);
    if (kind === Object.prototype || kind === Array.prototype || kind === null) {
      try {
        bundle['application/json'] = JSON.parse(JSON.stringify(value));
      } catch { /* it has no such form */ }
    }
    return bundle;
  }

  const isFlat = (value, left = DEPTH_MAX) => value === null || typeof value !== 'object'
    || (left > 0 && Object.values(value).every((one) => isFlat(one, left - 1)));

  function show(value, main = false) {
    if (outputs.length >= OUTPUTS_MAX - (main ? 0 : 1)) { // the last place is the value's
      truncated = true;
      return;
    }
    const data = {};
    for (const [mime, one] of Object.entries(bundleOf(value))) {
      if (one === undefined) continue;
      const size = Buffer.byteLength(JSON.stringify(one));
      if (size > room || !isFlat(one)) truncated = true;
      else { room -= size; data[mime] = one; }
    }
    if (Object.keys(data).length) outputs.push({ main, data });
  }
  Object.defineProperty(globalThis, 'display', { value: (...values) => values.forEach((one) => show(one)),
    writable: true, configurable: true });

  function failure(error) {
    if (error instanceof repl.Recoverable) error = error.err;
    if (!(error instanceof Error) && !(error && error.stack)) {
      return { name: 'Error', value: cut(String(error), 8192), traceback: cut(`Uncaught ${asText(error)}\n`) };
    }
    const lines = String(error.stack).split('\n');
    // Below the code come the frames of the loop, and of this.
    const end = lines.findIndex((line) => /\((?:node:|\[eval\])|at (?:node:|\[eval\])/.test(line));
    const stack = (end < 0 ? lines : lines.slice(0, Math.max(1, end))).join('\n');
    return { name: cut(String(error.name), 256), value: cut(String(error.message), 8192), traceback: cut(`${stack}\n`) };
  }

  function tell(answer, status) {
    const body = toJson(answer);
    const head = Buffer.alloc(8);
    head.writeUInt32LE(body.length, 0);
    head.writeInt32LE(status, 4);
    const all = Buffer.concat([head, body]);
    for (let at = 0; at < all.length;) {
      try {
        at += fs.writeSync(3, all, at);
      } catch (error) {
        if (error.code !== 'EAGAIN') process.exit(0);
      }
    }
  }

  // What was written goes out before the answer does.
  const flushed = (stream) => new Promise((done) => { stream.write('', done); });

  // Nothing, when only the loop can make something of it.
  function compile(code, filename) {
    const options = { filename, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER };
    if (/^\s*\{[^]*[^;\s]\s*$/.test(code)) {
      try {
        return new vm.Script(`(${code}\n)`, options); // an object, and no block
      } catch { /* a block after all */ }
    }
    try {
      return new vm.Script(code, options);
    } catch (error) {
      if (/\bawait\b/.test(code)) return null;
      throw error;
    }
  }

  async function run(request) {
    count += 1;
    outputs = [];
    truncated = false;
    room = request.result_max;
    for (const [name, value] of Object.entries(request.env ?? {})) {
      if (value === null) delete process.env[name];
      else process.env[name] = value;
    }
    const answer = { value: null, error: null };
    let status = 0;
    try {
      if (request.cwd) process.chdir(request.cwd);
      const value = await new Promise((resolve, reject) => {
        stopped = reject;
        finish = resolve;
        const name = request.context ? `cell${count}` : 'code';
        const script = compile(request.code, name);
        if (script) {
          resolve(script.runInThisContext({ breakOnSigint: true }));
          return;
        }
        server.eval(`${request.code}\n`, server.context, name, (error, result) => {
          if (error) reject(error);
          else resolve(result);
        });
      });
      if (value !== undefined) {
        answer.value = asText(value);
        show(value, true);
      }
    } catch (error) {
      status = 1;
      answer.error = failure(error);
    }
    stopped = null;
    if (!request.context && !answer.error) await new Promise((done) => { idle(done); });
    await flushed(process.stdout);
    await flushed(process.stderr);
    answer.outputs = outputs;
    answer.truncated = truncated;
    tell(answer, status || (request.context ? 0 : Number(process.exitCode ?? 0) & 255));
  }

  // As a program by itself: it ends when nothing is left that could still happen.
  function idle(done) {
    commands.unref();
    process.once('beforeExit', () => { commands.ref(); done(); });
  }

  process.on('SIGINT', () => {
    if (stopped) stopped(Object.assign(new Error('interrupted'), { name: 'Interrupted' }));
  });
  process.on('uncaughtException', (error) => {
    if (stopped) stopped(error);
    else stray(error);
  });
  process.on('unhandledRejection', (error) => {
    if (stopped) stopped(error);
  });
  process.on('exit', (status) => {
    if (finish && stopped) tell({ value: null, error: null, outputs, truncated }, status & 255);
  });

  const commands = new (require('net').Socket)({ fd: 4 });
  let held = Buffer.alloc(0);
  commands.on('data', async (data) => {
    held = Buffer.concat([held, data]);
    while (held.length >= 4 && held.length >= 4 + held.readUInt32LE(0)) {
      const request = JSON.parse(held.subarray(4, 4 + held.readUInt32LE(0)).toString());
      held = held.subarray(4 + held.readUInt32LE(0));
      if (!request.imports) {
        await run(request);
        continue;
      }
      const problems = [];
      for (const name of request.imports) {
        try {
          const short = name.replace(/^node:/, '').split('/').pop().replace(/[^A-Za-z0-9_]/g, '_');
          globalThis[short] = server.context.require(name);
        } catch (error) {
          problems.push(cut(`${name}: ${error.message.split('\n')[0]}`, 512));
        }
      }
      if (request.open) {
        for (const [name, value] of Object.entries(request.env ?? {})) {
          if (value === null) delete process.env[name];
          else process.env[name] = value;
        }
        try {
          if (request.cwd) process.chdir(request.cwd);
        } catch (error) {
          problems.push(error.message);
        }
      }
      tell({ problems }, 0);
    }
  });
  commands.on('end', () => process.exit(0));
}

// ------------------------------------------------------------------------------------------------ the parent

function beParent() {
  const { spawn } = require('child_process');
  const [OPEN, RUN, INTERRUPT, KILL, CLOSE, CREDIT] = [1, 2, 3, 4, 5, 6];
  const [HELLO, OUTPUT, PART, DONE, OPENED, CLOSED] = [1, 2, 3, 4, 5, 6];
  const FRAME_MAX = 60 * 1024;
  const ANSWER_MAX = 4 * 1024 * 1024; // as the server takes it
  const SPARE = 1;
  const REFILL_MS = 10;
  const config = JSON.parse(process.argv[2] ?? '{}');
  const imports = config.imports ?? [];
  const runs = new Map();
  const contexts = new Map();
  const spare = [];
  let warnings = null;

  function send(kind, stream, id, payload = Buffer.alloc(0)) {
    let at = 0;
    do {
      const piece = payload.subarray(at, at + FRAME_MAX);
      const head = Buffer.alloc(12);
      head.writeUInt32LE(piece.length, 0);
      head[4] = kind;
      head[5] = stream;
      head.writeUInt32LE(id, 8);
      process.stdout.write(head);
      process.stdout.write(piece);
      at += FRAME_MAX;
    } while (at < payload.length);
  }
  const say = (kind, id, value) => send(kind, 0, id, toJson(value));

  class Stream {
    constructor(worker, number, pipe) {
      this.worker = worker;
      this.number = number;
      this.pipe = pipe;
      this.waiting = [];
      pipe.on('data', (data) => this.take(data));
      this.begin(0, 0);
    }

    begin(limit, credit) {
      this.limit = limit;
      this.credit = credit;
      this.head = Math.floor(limit / 2);
      this.tail = [];
      this.tailSize = 0;
      this.lost = 0;
      const waiting = this.waiting.splice(0);
      if (limit || credit) for (const one of waiting) this.take(one);
      else this.waiting = waiting;
    }

    take(data) {
      const { run } = this.worker;
      if (!run || (!this.limit && this.credit <= 0)) { // nobody hears it now
        this.waiting.push(data);
        this.pipe.pause();
        return;
      }
      if (!this.limit) {
        const now = data.subarray(0, this.credit);
        this.credit -= now.length;
        send(OUTPUT, this.number, run, now);
        if (now.length < data.length) this.take(data.subarray(now.length));
        return;
      }
      if (this.head) {
        const now = data.subarray(0, this.head);
        this.head -= now.length;
        send(OUTPUT, this.number, run, now);
        data = data.subarray(now.length);
      }
      if (!data.length) return;
      this.tail.push(Buffer.from(data));
      this.tailSize += data.length;
      if (this.tailSize > 2 * this.limit || this.tail.length > 1024) this.shrink();
    }

    shrink() {
      const keep = this.limit - Math.floor(this.limit / 2);
      const all = Buffer.concat(this.tail);
      this.lost += Math.max(0, all.length - keep);
      this.tail = [all.subarray(Math.max(0, all.length - keep))];
      this.tailSize = this.tail[0].length;
    }

    more(credit) {
      this.credit += credit;
      const waiting = this.waiting.splice(0);
      for (const one of waiting) this.take(one);
      if (this.credit > 0) this.pipe.resume();
    }

    dry() { return this.waiting.length === 0; }

    end() {
      if (this.limit) {
        this.shrink();
        if (this.tail[0].length) send(OUTPUT, this.number, this.worker.run, this.tail[0]);
      }
      this.tail = [];
      this.tailSize = 0;
    }
  }

  class Worker {
    constructor() {
      this.run = 0;
      this.context = 0;
      this.record = null;
      this.ended = null;
      this.answer = Buffer.alloc(0);
      this.on = null; // who hears the answer that is no run's
      this.child = spawn(process.execPath, ['-e', boot, '4'],
        { detached: true, stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'] });
      const [stdin, stdout, stderr, wire, commands] = this.child.stdio;
      this.commands = commands;
      this.stdin = stdin;
      for (const one of [stdin, commands, wire]) one.on('error', () => {});
      this.streams = [new Stream(this, 1, stdout), new Stream(this, 2, stderr)];
      this.open = 3; // outputs and the wire
      for (const one of [stdout, stderr, wire]) one.on('close', () => { this.open -= 1; this.advance(); });
      wire.on('data', (data) => this.hear(data));
      this.child.on('error', () => { this.ended = 127; this.open = 0; this.advance(); });
      this.child.on('exit', (code, signal) => {
        this.ended = signal ? 128 + (require('os').constants.signals[signal] ?? 9) : code;
        this.kill();
        this.advance();
      });
      const program = Buffer.from(text);
      this.commands.write(program.length.toString(16).padStart(8, '0'));
      this.commands.write(program);
      this.command({ imports });
      this.on = ({ problems }) => {
        if (warnings === null) {
          warnings = problems;
          say(HELLO, 0, { language: 'javascript', version: process.versions.node, warnings });
        }
      };
    }

    command(value) {
      const body = Buffer.from(JSON.stringify(value));
      const head = Buffer.alloc(4);
      head.writeUInt32LE(body.length);
      this.commands.write(Buffer.concat([head, body]));
    }

    signal(name) {
      try {
        process.kill(-this.child.pid, name);
      } catch { /* it has ended */ }
    }

    kill() { this.signal('SIGKILL'); }

    hear(data) {
      this.answer = Buffer.concat([this.answer, data]);
      if (this.answer.length < 8) return;
      const size = this.answer.readUInt32LE(0);
      if (size > ANSWER_MAX) { this.kill(); return; }
      if (this.answer.length < 8 + size) return;
      const body = this.answer.subarray(8, 8 + size);
      const status = this.answer.readInt32LE(4);
      this.answer = this.answer.subarray(8 + size);
      if (this.on) {
        const on = this.on;
        this.on = null;
        let said = { problems: ['it does not speak'] };
        try {
          said = JSON.parse(body.toString());
        } catch { /* code of the sandbox wrote there */ }
        on(said);
      } else {
        this.record = { status, body: Buffer.from(body) };
        if (!this.context) this.kill();
        else setImmediate(() => setImmediate(() => this.advance())); // its outputs came before
      }
    }

    begin(run, request) {
      this.run = run;
      this.began = process.hrtime.bigint();
      for (const stream of this.streams) {
        stream.begin(request.limit ?? 0, request.credit ?? 0);
        stream.pipe.resume();
      }
      if (request.stdin !== undefined) this.stdin.write(request.stdin);
      if (!this.context) this.stdin.end();
      this.command(request);
    }

    advance() {
      const over = this.ended !== null && this.open <= 0;
      if (this.run && (over || (this.record && this.context))) {
        if (this.streams.some((stream) => !stream.dry())) return; // when there is credit
        const { run } = this;
        for (const stream of this.streams) stream.end();
        const done = { us: Number((process.hrtime.bigint() - this.began) / 1000n), out_lost: this.streams[0].lost,
          err_lost: this.streams[1].lost, died: !this.record, exit_code: this.record?.status ?? this.ended ?? 1 };
        if (this.record) send(PART, 0, run, this.record.body);
        runs.delete(run);
        this.run = 0;
        this.record = null;
        say(DONE, run, done);
      }
      if (over && !this.run) {
        if (this.on) { const on = this.on; this.on = null; on({ problems: ['it ended while it was opened'] }); }
        const at = spare.indexOf(this);
        if (at >= 0) spare.splice(at, 1);
        if (this.context) {
          contexts.delete(this.context);
          say(CLOSED, this.context, {});
          this.context = 0;
        }
      }
    }
  }

  const refill = () => { while (spare.length < SPARE) spare.push(new Worker()); };
  function take() {
    const worker = spare.shift() ?? new Worker();
    // Behind the run that it was taken for, which otherwise shares its time with a start.
    setTimeout(refill, REFILL_MS);
    return worker;
  }

  function obey(kind, id, payload) {
    if (kind === RUN) {
      const request = JSON.parse(payload.toString());
      const worker = request.context ? contexts.get(request.context) : take();
      const done = { exit_code: 1, died: true, out_lost: 0, err_lost: 0, us: 0 };
      if (!worker || worker.ended !== null) {
        say(DONE, id, done);
        return;
      }
      if (worker.run) {
        const value = 'the context is busy';
        send(PART, 0, id, toJson({ value: null, outputs: [], truncated: false,
          error: { name: 'Error', value, traceback: `Error: ${value}\n` } }));
        say(DONE, id, { ...done, died: false });
        return;
      }
      runs.set(id, worker);
      const begin = () => worker.begin(id, request);
      if (worker.on) { const first = worker.on; worker.on = (said) => { first(said); begin(); }; } else begin();
    } else if (kind === OPEN) {
      const worker = take();
      worker.context = id;
      contexts.set(id, worker);
      const first = worker.on;
      const begin = () => {
        worker.command({ open: true, ...JSON.parse(payload.toString()) });
        worker.on = ({ problems }) => {
          say(OPENED, id, { error: problems.length ? problems.join('; ') : null });
          if (problems.length) worker.kill();
        };
      };
      if (first) worker.on = (said) => { first(said); begin(); }; else begin();
    } else if (kind === CLOSE) {
      contexts.get(id)?.kill();
    } else if (kind === INTERRUPT) {
      runs.get(id)?.signal('SIGINT');
    } else if (kind === KILL) {
      runs.get(id)?.kill();
    } else if (kind === CREDIT) {
      const worker = runs.get(id);
      worker?.streams.forEach((stream, at) => stream.more(payload.readUInt32LE(4 * at)));
      setImmediate(() => setImmediate(() => worker?.advance())); // what the pipes hold comes first
    }
  }

  let held = Buffer.alloc(0);
  process.stdin.on('data', (data) => {
    held = held.length ? Buffer.concat([held, data]) : data;
    while (held.length >= 12 && held.length >= 12 + held.readUInt32LE(0)) {
      const size = held.readUInt32LE(0);
      const [kind, id] = [held[4], held.readUInt32LE(8)];
      const payload = held.subarray(12, 12 + size);
      held = held.subarray(12 + size);
      obey(kind, id, payload);
    }
  });
  process.stdin.on('end', () => process.exit(0));
  process.on('SIGINT', () => {});
  refill();
}

if (WORKER) beWorker();
else beParent();
