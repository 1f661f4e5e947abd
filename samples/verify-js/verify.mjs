// The verifier for Node, on a folder. Exit code 0 or 1:
//   node verify.mjs ARTIFACT --trust trust.json --policy policy.json [--exact exact.mjs]
import { lstatSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { examine } from './certificate.mjs';
process.exitCode = 1; // until everything holds
const OPTIONS = ['trust', 'policy', 'now', 'exact'].map((name) => [name, { type: 'string' }]);

/** Returns a folder as the verifier reads it: it follows no link. */
function placeOf(folder) {
  return {
    read(name, mostBytes) {
      const path = join(folder, name), found = lstatSync(path);
      if (found.isFile() && found.size <= mostBytes) return readFileSync(path);
      throw Object.assign(Error(path), { code: 'SIZE_MISMATCH' });
    },
    entries: () => readdirSync(folder, { recursive: true, withFileTypes: true }).map((found) => ({
      name: relative(folder, join(found.parentPath, found.name)),
      isFolder: found.isDirectory(),
      isFile: found.isFile(),
    })),
  };
}

async function verdict() {
  const { values, positionals: [folder] } = parseArgs(
    { allowPositionals: true, options: Object.fromEntries(OPTIONS) });
  const exact = values.exact && await import(resolve(values.exact));
  const { predicate: { model } } = await examine(placeOf(folder), {
    trust: readFileSync(values.trust), policy: readFileSync(values.policy), exact,
    now: Date.parse(values.now ?? new Date().toJSON()),
  });
  process.exitCode = 0;
  return `ACCEPTED: ${model.name}, version ${model.version}`;
}

const refused = ({ code, name, message }) => `REFUSED: ${code ?? name}: ${message}`;
console.log((await verdict().catch(refused)).replace(/[^ -~]/g, '?')); // nothing steers a terminal
