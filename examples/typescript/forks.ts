// One prepared sandbox, many forks of it: the same files, a different question for each.
import { Client, type Sandbox } from '@caisson/sdk';

const forks = 20;
const atOnce = 5;

const client = new Client();
await using base = await client.sandboxes.create({
  files: { 'words.txt': Array.from({ length: 1000 }, (_, i) => `word${i}\n`).join('') },
});

async function ask(fork: Sandbox, number: number): Promise<number> {
  const { stdout } = await fork.exec(`grep -c ${number} words.txt`);
  return Number(stdout);
}

const counts: number[] = [];
const questions = Array.from({ length: forks }, (_, number) => number).values();
async function worker(): Promise<void> {
  for (const number of questions) {
    await using fork = await base.fork();
    counts[number] = await ask(fork, number);
  }
}
await Promise.all(Array.from({ length: atOnce }, worker));
console.log(counts.join(' '));
