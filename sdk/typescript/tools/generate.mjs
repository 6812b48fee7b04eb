// Writes src/contract from api/openapi.yaml, so that no route, field or error is typed by hand:
//
//     node tools/generate.mjs [--check] [CONTRACT]
//
// With --check nothing is written: the files are compared, and a difference is an error.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { modelsText } from './models.mjs';
import { operationsText } from './operations.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const words = process.argv.slice(2);
const check = words.includes('--check');
const contract =
  words.find((word) => !word.startsWith('--')) ??
  process.env.CAISSON_CONTRACT ??
  join(root, '../../api/openapi.yaml');

const document = parse(readFileSync(contract, 'utf8'));
const files = {
  'src/contract/models.ts': modelsText(document),
  'src/contract/operations.ts': operationsText(document),
};

let stale = 0;
for (const [name, text] of Object.entries(files)) {
  const path = join(root, name);
  if (!check) {
    writeFileSync(path, text);
  } else if (readFileSync(path, 'utf8') !== text) {
    console.error(`${name} does not fit ${contract}: run \`npm run generate\``);
    stale += 1;
  }
}
process.exitCode = stale > 0 ? 1 : 0;
