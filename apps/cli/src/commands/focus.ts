import { join } from 'node:path';
import type { Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

const DAY_MS = 86_400_000;
const MAX_DAYS = 400;

export const FOCUS_FORMATS = ['csv', 'parquet'] as const;
type FocusFormat = (typeof FOCUS_FORMATS)[number];

interface FocusOptions {
  readonly from?: string;
  readonly to?: string;
  /** Filters; of the others none. */
  readonly others: Readonly<Record<string, unknown>>;
  /** Undefined: standard output. */
  readonly folder?: string;
  readonly format: FocusFormat;
}

const FILTERS = new Set([
  'principal_id',
  'key_id',
  'policy_id',
  'model',
  'provider',
  'user',
  'team',
  'team_id',
  'project',
  'env',
  'label',
]);

/** Prints or writes the FOCUS datasets of whole days, one call for each, so that an interrupted export goes on where it stopped. */
export async function exportFocus(session: Session, options: FocusOptions): Promise<void> {
  const { others, folder, format } = options;
  const foreign = Object.keys(others).find((name) => !FILTERS.has(name));
  if (foreign !== undefined || session.json) {
    throw new UsageError('--focus takes filters, --from, --to and --output: its columns are fixed.');
  }
  if (format === 'parquet' && folder === undefined) {
    throw new UsageError('Parquet is written to files: name a folder for them with --output.');
  }
  const to = midnight('--to', options.to) ?? Math.floor(session.now().getTime() / DAY_MS) * DAY_MS;
  const from = midnight('--from', options.from) ?? to - DAY_MS;
  if (from >= to || to - from > MAX_DAYS * DAY_MS) {
    throw new UsageError(`--from must be before --to, by at most ${MAX_DAYS} days.`);
  }
  const there = new Set(folder === undefined ? [] : await filesIn(session, folder));
  let isFirst = true;
  for (let day = from; day < to; day += DAY_MS) {
    const name = `focus-${new Date(day).toISOString().slice(0, 10)}.${format}`;
    if (there.has(name)) continue;
    const { content, isComplete } = await readDay(session, day, format, others);
    if (folder === undefined) {
      const text = Buffer.from(content).toString();
      session.out((isFirst ? text : text.replace(/^[^\r\n]*\r\n/, '')).replace(/\r\n$/, ''));
      if (!isComplete) session.err(`${name}: usage of this day may still be missing.`);
    } else if (isComplete) {
      await session.writeFile(join(folder, name), content, { isWhole: true });
      session.err(`Wrote ${join(folder, name)}`);
    } else {
      throw new Error(
        `${name} was not written: usage of this day may still be missing. \`weighbridge usage\` and \`doctor\` say why; repeat the command later.`,
      );
    }
    isFirst = false;
  }
}

async function readDay(
  session: Session,
  day: number,
  format: FocusFormat,
  others: Readonly<Record<string, unknown>>,
) {
  const range = { from: new Date(day).toISOString(), to: new Date(day + DAY_MS).toISOString() };
  const { data, response } = await session.client.GET('/api/v1/spend/focus', {
    params: { query: { ...others, ...range, ...(format === 'parquet' && { format }) } },
    parseAs: 'arrayBuffer',
  });
  return {
    content: new Uint8Array(data ?? new ArrayBuffer()),
    isComplete: response.headers.get('x-svc-complete') === 'true',
  };
}

async function filesIn(session: Session, folder: string): Promise<readonly string[]> {
  const names = await session.listFolder?.(folder);
  if (names) return names;
  throw new UsageError(`There is no folder ${folder}. Create it first.`);
}

function midnight(option: string, time: string | undefined): number | undefined {
  if (time === undefined) return undefined;
  const at = Date.parse(time);
  if (at % DAY_MS === 0) return at;
  throw new UsageError(`${option} must be a day such as 2026-11-20: a FOCUS dataset has whole days in UTC.`);
}
