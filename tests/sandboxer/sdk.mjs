// What sandboxer's JavaScript client sends, and the script that comes with it: a counter in three generations.
// Arguments: the server's address, a token. The last line of its output is what was seen, as JSON.
const [baseUrl, token] = process.argv.slice(2);

async function ask(method, path, body) {
  const response = await fetch(`${baseUrl}${path}`, {
    method,
    headers: {Authorization: `Bearer ${token}`, 'Content-Type': 'application/json'},
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}: ${await response.text()}`);
  return response;
}
const json = async (...words) => (await ask(...words)).json();

class Sandbox {
  constructor(data) {
    Object.assign(this, data);
  }
  static async create(image, label, interactive = false) {
    return new Sandbox(await json('POST', '/sandboxes', {image, label, interactive}));
  }
  async fork(label) {
    return new Sandbox(await json('POST', `/sandboxes/${this.id}/fork`, {label}));
  }
  exec(code) {
    return json('POST', `/sandboxes/${this.id}/execute`, {code});
  }
  terminate() {
    return json('DELETE', `/sandboxes/${this.id}`);
  }
  tree() {
    return json('GET', `/sandboxes/${this.id}/tree`);
  }
  async coalesce(final) {
    return new Sandbox(await json('POST', `/sandboxes/${this.id}/coalesce/${final.id}`));
  }
  async streamLogs(onLine) {
    const body = await (await ask('GET', `/sandboxes/${this.id}/execution-logs?limit=1000`)).text();
    for (const line of body.split('\n')) if (line) onLine(line);
  }
}

const root = await Sandbox.create('redis', 'ts-root');
await root.exec('echo kept >/data/file');
await root.exec('redis-cli incr counter');
const child = await root.fork('fork');
await child.exec('redis-cli incr counter');
const deep = await child.fork('deep');
await deep.exec('redis-cli incr counter');
const all = [root, child, deep];
const read = async (code) => Promise.all(all.map(async (one) => (await one.exec(code)).stdout));
const counters = await read('redis-cli get counter');
const files = await read('cat /data/file');
let logs = 0;
await root.streamLogs((line) => (logs += JSON.parse(line).executions.length));
await root.tree();
for (const one of [deep, child, root]) await one.terminate();
let missing = 0;
try {
  await root.exec('true');
} catch (error) {
  missing = Number(error.message.slice(0, 3));
}
console.log(JSON.stringify({counters, files, labels: all.map((one) => one.label), memory: child.memory, logs, missing}));
