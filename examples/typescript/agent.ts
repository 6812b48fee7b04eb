// An agent's loop: a model proposes commands, the sandbox runs them, and what went wrong is taken back.
//
// The model here is a list, so that the example needs no network. A real one would be asked in `propose`.
import { Client, type ExecResponse } from '@caisson/sdk';

const script = [
  'printf "def double(x):\\n    return x + x\\n" > double.py',
  'python3 -c "from double import double; assert double(21) == 42; print(double(21))"',
  'rm -rf *',
  'ls double.py',
];

function propose(step: number, before: ExecResponse | undefined): string | undefined {
  if (before !== undefined)
    console.log(`  the model sees: exit ${before.exit_code}, ${before.stdout.length} letters`);
  return script[step];
}

const client = new Client();
await using sandbox = await client.sandboxes.create({
  resource_limits: { memory_mb: 256, timeout_seconds: 600 },
});

let before: ExecResponse | undefined;
for (let step = 0; ; step += 1) {
  const command = propose(step, before);
  if (command === undefined) break;
  const good = await sandbox.snapshot({ name: `step-${step}` });
  console.log(`> ${command}`);
  before = await sandbox.exec({ command, timeout_seconds: 30 });
  if ((await sandbox.files.list()).length === 0) {
    console.log('  everything is gone: undo');
    await sandbox.undo({ snapshot: good.id, end_processes: true });
  }
  await client.snapshots.remove(good.id);
}
