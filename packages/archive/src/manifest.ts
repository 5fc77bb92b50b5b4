import { createHash } from 'node:crypto';
import type { StoredFile } from './store.ts';

/** A file of attempts. */
export interface ArchivedFile extends StoredFile {
  readonly rows: number;
  /** The earliest and latest admission of its rows. */
  readonly firstAdmittedAt: Date;
  readonly lastAdmittedAt: Date;
}

/** What the rows of a day count in each counter and window, as a digest: the sums themselves are beside the files. */
export interface CounterSums {
  readonly counters: number;
  /** Of `bucket key, tab, nano-dollars, line feed` of each, in the order of the keys' bytes; in hex. */
  readonly sha256: string;
}

/** What the archive has of a day (UTC) of the ledger. */
export interface DayManifest {
  readonly day: Date;
  readonly rows: number;
  readonly nanoUsd: bigint;
  readonly sums: CounterSums;
  readonly files: readonly ArchivedFile[];
}

const DAY_MS = 86_400_000;
export const SCHEMA_VERSION = 1;

/** The folder of a day, which others' engines read as a partition. */
export function dayFolder(day: Date): string {
  if (day.getTime() % DAY_MS !== 0) throw new Error(`${day.toISOString()} is not the start of a day`);
  return `day=${day.toISOString().slice(0, 10)}`;
}

export function manifestName(day: Date): string {
  return `${dayFolder(day)}/_manifest.json`;
}

export function countersName(day: Date): string {
  return `${dayFolder(day)}/_counters.tsv`;
}

/** The manifest as it is stored beside the files. Nano-dollars are a string, since a JSON number is not exact. */
export function manifestJson({ day, rows, nanoUsd, sums, files }: DayManifest): string {
  return `${JSON.stringify(
    {
      schema_version: SCHEMA_VERSION,
      day: day.toISOString().slice(0, 10),
      rows,
      cost_nano_usd: String(nanoUsd),
      counters: sums.counters,
      counters_sha256: sums.sha256,
      files: files.map((file) => ({
        name: file.name,
        rows: file.rows,
        bytes: file.bytes,
        sha256: file.sha256,
        first_admitted_at: file.firstAdmittedAt.toISOString(),
        last_admitted_at: file.lastAdmittedAt.toISOString(),
      })),
    },
    null,
    2,
  )}\n`;
}

export interface CounterSum {
  readonly bucket_key: string;
  /** Nano-dollars. */
  readonly nano_usd: string;
}

/** The digest of sums, in the order of their keys' bytes. `onLines` gets the text that it is of, in portions. */
export async function digestSums(
  sums: AsyncIterable<readonly CounterSum[]>,
  onLines: (lines: string) => Promise<void> | void = () => {},
): Promise<CounterSums> {
  const hash = createHash('sha256');
  let counters = 0;
  for await (const some of sums) {
    const lines = some.map(({ bucket_key, nano_usd }) => `${bucket_key}\t${nano_usd}\n`).join('');
    hash.update(lines);
    await onLines(lines);
    counters += some.length;
  }
  return { counters, sha256: hash.digest('hex') };
}
