import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { newProducerKey, type ProducerKey, readProducerKey } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import { isAdopted, PRODUCER_FILE, readProducer } from './spoolFolder.ts';

// Each spool has a key, which signs its usage; its producer's id is a hash of it (docs/adr/0029). An epoch that a sibling
// adopts takes a copy of the key with it, in its folder.

const KEY_FILE = 'producer.key';

/** The key of a spool's folder, made at the first start. The folder is held. */
export async function readOrMakeProducer(dir: string, logger: Logger): Promise<ProducerKey> {
  const known = await readProducer(dir);
  const existing = await readKey(dir);
  // The id is written after the key, so that a start in between only repeats it.
  const key = existing ?? (await makeKey(dir));
  const { producerId } = key;
  if (producerId === known) return key;
  await writeWhole(join(dir, PRODUCER_FILE), `${producerId}\n`);
  if (known === undefined) logger.info({ dir, producerId }, 'created a spool');
  else
    logger.warn(
      { dir, producerId, previousId: known },
      'the spool had no key of its producer; made a new one',
    );
  return key;
}

/**
 * The key of the producer that wrote an epoch: beside its records if it was adopted, else in the spool's folder, else in that of a
 * sibling. Undefined if an older release wrote it, or its key is lost.
 */
export async function findKey(epochFolder: string, producerId: string): Promise<ProducerKey | undefined> {
  const dir = dirname(epochFolder);
  for (const folder of [epochFolder, dir]) {
    const key = await readKey(folder);
    if (key?.producerId === producerId) return key;
  }
  // An older release adopts epochs without their key.
  const beside = isAdopted(basename(epochFolder)) ? await readdir(dirname(dir)).catch(() => []) : [];
  for (const sibling of beside) {
    const key = await readKey(join(dirname(dir), sibling));
    if (key?.producerId === producerId) return key;
  }
  return undefined;
}

/** Copies a spool's key, if it has one, into the folder of one of its epochs, before that moves to another spool. */
export async function copyKey(dir: string, epochFolder: string): Promise<void> {
  const text = await readFile(join(dir, KEY_FILE), 'utf8').catch(ifMissing);
  if (text !== undefined) await writeWhole(join(epochFolder, KEY_FILE), text);
}

async function makeKey(dir: string): Promise<ProducerKey> {
  const { key, text } = newProducerKey();
  await writeWhole(join(dir, KEY_FILE), text);
  return key;
}

async function readKey(folder: string): Promise<ProducerKey | undefined> {
  const text = await readFile(join(folder, KEY_FILE), 'utf8').catch(ifMissing);
  return text === undefined ? undefined : readProducerKey(text);
}

/** Renamed into place, so that the file is never partial. */
async function writeWhole(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o600, flush: true });
  await rename(`${file}.new`, file);
}

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
  throw error;
}
