// Fails if folders of an app or a package import each other in a cycle: `node packages/testing/roomCycles.mjs`, run from the
// repository's root. A room is a folder directly under `src`; files directly in `src` may import any room. dependency-cruiser
// has a scope `folder`, but it covers folders of every depth, so no feature could use another.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*'(\.{1,2}\/[^']+)'/g;

/** The rooms that each room imports, each with an example import. */
function importsOf(source) {
  const rooms = new Map();
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.includes('/') && file.endsWith('.ts') && !file.endsWith('.test.ts'));
  for (const file of files) {
    const room = roomOf(file);
    const imported = rooms.get(room) ?? new Map();
    rooms.set(room, imported);
    for (const [, path] of readFileSync(join(source, file), 'utf8').matchAll(IMPORT)) {
      const target = posix.join(posix.dirname(file), path);
      const other = roomOf(target);
      if (target.startsWith('../') || !target.includes('/') || other === room) continue;
      if (!imported.has(other)) imported.set(other, `${file} → ${target}`);
    }
  }
  return rooms;
}

const roomOf = (file) => file.slice(0, file.indexOf('/'));

/** The imports along a path from a room back to itself; undefined if there is none. */
function cycleFrom(start, rooms) {
  const paths = [[start, []]];
  const seen = new Set();
  for (const [room, shown] of paths) {
    for (const [next, example] of rooms.get(room) ?? []) {
      if (next === start) return [...shown, example];
      if (seen.has(next)) continue;
      seen.add(next);
      paths.push([next, [...shown, example]]);
    }
  }
  return undefined;
}

let rooms = 0;
let cycles = 0;
for (const parent of ['apps', 'packages']) {
  for (const name of existsSync(parent) ? readdirSync(parent).sort() : []) {
    const source = join(parent, name, 'src');
    if (!existsSync(source)) continue;
    const imports = importsOf(source);
    rooms += imports.size;
    for (const room of imports.keys()) {
      const cycle = cycleFrom(room, imports);
      if (!cycle) continue;
      cycles++;
      process.stderr.write(
        `error no-room-cycle: ${source}/${room}\n${cycle.map((one) => `  ${one}\n`).join('')}`,
      );
    }
  }
}
process.stdout.write(`${rooms} rooms, ${cycles} in a cycle\n`);
process.exitCode = cycles > 0 ? 1 : 0;
