import { readdir, rm, writeFile } from 'node:fs/promises';
import { CATALOG, generate } from './generate.ts';

// Writes the catalog that ships. Run it by `pnpm generate`.
const files = await generate();
for (const file of await readdir(CATALOG)) if (!files.has(file)) await rm(new URL(file, CATALOG));
for (const [file, text] of files) await writeFile(new URL(file, CATALOG), text);
