// Programs that listen inside.
import { expect, test } from 'vitest';
import type { Sandbox } from '../src/index.js';
import { sandbox } from './live.js';

/** Runs a program until it says that it listens. */
async function serve(box: Sandbox, program: string): Promise<void> {
  const server = await box.processes.start({ argv: ['python3', '-uc', program] });
  for await (const piece of server.output()) if (piece.text.includes('up')) return;
}

const mirror = `
import http.server
class Mirror(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        names = ("Authorization", "X-Own", "Content-Type")
        said = " ".join([self.path, *(str(self.headers.get(name)) for name in names), body]).encode()
        self.send_response(418)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 8000), Mirror)
print("up")
server.serve_forever()
`;

// One WebSocket: its handshake, and one short message that is sent back.
const echo = `
import base64, hashlib, socket
listener = socket.create_server(("127.0.0.1", 8001))
print("up")
link, _ = listener.accept()
stream = link.makefile("rb")
fields = {}
for line in iter(stream.readline, b"\\r\\n"):
    name, _, value = line.decode().partition(":")
    fields[name.lower()] = value.strip()
key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
link.sendall(("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
              f"Sec-WebSocket-Accept: {accept}\\r\\nSec-WebSocket-Protocol: chat\\r\\n\\r\\n").encode())
size = stream.read(2)[1] & 127
mask = stream.read(4)
text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(stream.read(size)))
said = text + b" " + fields["sec-websocket-protocol"].encode()
link.sendall(bytes([0x81, len(said)]) + said)
stream.read()
`;

test('HTTP goes through, without our token', async () => {
  await using box = await sandbox();
  await serve(box, mirror);
  const answer = await box.ports.fetch(8000, '/a/b?c=d', {
    method: 'POST',
    body: '!',
    headers: { 'x-own': 'mine', 'content-type': 'text/odd' },
  });
  expect([answer.status, await answer.text()]).toEqual([418, '/a/b?c=d None mine text/odd !']);
  expect((await box.ports.list()).listening).toEqual([8000]);
});

test('a WebSocket goes through, and the program inside sees none of our protocols', async () => {
  await using box = await sandbox();
  await serve(box, echo);
  const socket = box.ports.socket(8001, '', ['chat']);
  socket.addEventListener('open', () => socket.send('hello'));
  const said = await new Promise((resolve, reject) => {
    socket.addEventListener('message', ({ data }: { data: unknown }) => resolve(data));
    socket.addEventListener('error', reject);
  });
  expect(said).toBe('hello chat');
  expect(socket.protocol).toBe('chat');
  socket.close();
});
