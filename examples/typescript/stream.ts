// Output while it comes, input while it runs, and a terminal.
import { Client } from '@caisson/sdk';
import WebSocket from 'ws'; // from Node.js 22 on there is a global one

const client = new Client({ WebSocket });
await using sandbox = await client.sandboxes.create();

// Output as it comes. Leaving the loop would kill the command.
const run = await sandbox.execStream('for i in 1 2 3; do echo line $i; done; echo done >&2; exit 7');
for await (const piece of run) {
  for (const line of piece.text.trimEnd().split('\n')) console.log(`${piece.stream}: ${line}`);
}
console.log(`exit: ${(await run.exit).exit_code}`);

// A conversation with a program.
await using calculator = await sandbox.attach({
  argv: ['python3', '-uc', 'while True: print(eval(input()))'],
});
await calculator.write('6 * 7\n');
for await (const piece of calculator) {
  console.log(`answer: ${piece.text.trim()}`);
  break;
}

// A terminal, which would outlive this connection.
const terminal = await sandbox.terminal({ rows: 30, cols: 100, command: 'stty size' });
for await (const piece of terminal) console.log(`terminal: ${piece.text.trim()}`);
