import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

// A process that writes a file and waits until it is on disk, again and again, as a backup or another database does.

const BYTES = Buffer.alloc(4 * 1024 * 1024, 1);

const [folder = '.'] = process.argv.slice(2);
process.once('SIGTERM', () => process.exit(0));
const path = join(folder, 'synced');
const file = openSync(path, 'w');
process.stdout.write(`is ready at ${pathToFileURL(path).href}\n`);

function step(): void {
  writeSync(file, BYTES, 0, BYTES.length, 0);
  fdatasyncSync(file);
  // Lets the signal in.
  setImmediate(step);
}

process.once('exit', () => closeSync(file));
step();
