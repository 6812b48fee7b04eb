// Bundles each test (esbuild comes with Vite) and hands it to node's own test runner.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = fileURLToPath(new URL('.', import.meta.url));
const out = mkdtempSync(join(tmpdir(), 'console-test-'));
const tests = readdirSync(here).filter((name) => name.endsWith('_test.ts'));
try {
  await build({
    entryPoints: tests.map((name) => join(here, name)),
    bundle: true,
    platform: 'node',
    format: 'esm',
    outdir: out,
    outExtension: { '.js': '.mjs' },
    logLevel: 'warning',
  });
  const files = tests.map((name) => join(out, name.replace(/\.ts$/, '.mjs')));
  process.exitCode =
    spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' }).status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
