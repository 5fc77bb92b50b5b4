import {
  type BucketRef,
  definedBy,
  furtherLimitId,
  OTHERS_SUBJECT,
  UNKNOWN_SUBJECT,
} from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { everyMs } from '@weighbridge/domain';
import { type RawBuilder, sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';
import { limitPause } from '../buckets/limitPause.ts';
import { limitAt } from '../buckets/overrides.ts';

/** A proxy's question for the window of a counter that opens on first use. */
export interface WindowCall {
  readonly bucket: Pick<BucketRef, 'policyId' | 'counterVersion' | 'subject'>;
  /** The key that names the counter, if it is of a value: it may open so many of a limit. */
  readonly keyId: string;
  /** An attempt reserved from all else: the window opens now if none is open. */
  readonly opens: boolean;
}

export interface WindowAnswer {
  /** `others`: the key may open no more counters. `replaced`: the limit has no such counter. */
  readonly outcome: 'open' | 'unopened' | 'others' | 'replaced';
  /** Of an open window. */
  readonly start: Date | undefined;
  /** What a counter may count in a window: nano-USD, or what else it counts. Null: unknown. */
  readonly limit: bigint | null;
}

interface Counter {
  readonly limitId: string;
  readonly version: number;
  readonly subject: string;
}

interface Row {
  readonly counter_version: number | null;
  readonly window_every: string | null;
  readonly limit_nano_usd: bigint | null;
  readonly max_counters: number | null;
  readonly started_at: Date | null;
}

/** An SQL subquery, for LATERAL: when the newest window of a counter opened. */
export function newestStart(of: {
  readonly policyId: RawBuilder<unknown>;
  readonly version: RawBuilder<unknown>;
  readonly subject: RawBuilder<unknown>;
}): RawBuilder<unknown> {
  const limitId = sql`split_part(${of.policyId}, '.', 1) || '.' || split_part(${of.policyId}, '.', 2)`;
  return sql`
    SELECT started_at FROM window_starts AS opened
    WHERE opened.limit_id = ${limitId} AND opened.counter_version = ${of.version} AND opened.subject = ${of.subject}
    ORDER BY opened.started_at DESC LIMIT 1`;
}

/** Answers in the order of the calls. Safe to repeat: a window that is open is not opened again. */
export async function answerWindowCalls(
  db: Database,
  calls: readonly WindowCall[],
  now: Date,
): Promise<WindowAnswer[]> {
  if (calls.length === 0) return [];
  const { rows } = await sql<Row>`
    SELECT policies.counter_version, policies.window_every, policies.max_counters, newest.started_at,
      ${limitAt(sql.ref('wanted.subject'), now)} AS limit_nano_usd
    FROM unnest(${arrayLiteral(calls.map(({ bucket }) => bucket.policyId))}::text[],
                ${arrayLiteral(calls.map(({ bucket }) => bucket.counterVersion))}::int[],
                ${arrayLiteral(calls.map(({ bucket }) => bucket.subject))}::text[])
      WITH ORDINALITY AS wanted (policy_id, counter_version, subject, position)
    LEFT JOIN LATERAL (${definitionOf(sql.ref('wanted.policy_id'), sql.ref('wanted.subject'))}) AS policies ON true
    LEFT JOIN LATERAL (${newestStart({
      policyId: sql.ref('wanted.policy_id'),
      version: sql.ref('wanted.counter_version'),
      subject: sql.ref('wanted.subject'),
    })}) AS newest ON true
    ORDER BY wanted.position`.execute(db);
  const found = calls.map((call, at) => answer(call, rows[at], now));
  const opening = calls.flatMap((call, at) => {
    const { window_every: every = null, max_counters: maxCounters = null } = rows[at] ?? {};
    const isOpened = found[at]?.outcome === 'unopened' && call.opens && every !== null;
    return isOpened ? [{ at, keyId: call.keyId, counter: counterOf(call.bucket), every, maxCounters }] : [];
  });
  if (opening.length === 0) return found;
  const starts = await db.transaction().execute((tx) => openWindows(tx, opening, now));
  return found.map((one, at) => {
    if (!starts.has(at)) return one;
    const start = starts.get(at);
    return { ...one, outcome: start ? 'open' : 'others', start };
  });
}

function answer({ bucket }: WindowCall, row: Row | undefined, now: Date): WindowAnswer {
  const every = row?.window_every ?? null;
  if (!row || row.counter_version !== bucket.counterVersion || every === null) {
    return { outcome: 'replaced', start: undefined, limit: null };
  }
  const { started_at: newest, limit_nano_usd: limit } = row;
  if (newest && isOpenAt(newest, every, now)) return { outcome: 'open', start: newest, limit };
  return { outcome: 'unopened', start: undefined, limit };
}

function isOpenAt(start: Date, every: string, now: Date): boolean {
  return start.getTime() + everyMs(every) > now.getTime();
}

interface Opening {
  /** Of its call. */
  readonly at: number;
  readonly keyId: string;
  readonly counter: Counter;
  readonly every: string;
  /** How many counters of values a key may open. */
  readonly maxCounters: number | null;
}

/** Any number that no other advisory lock uses. */
const WINDOW_LOCK = 5_120_448_907;

/** By call: when the window opened that is open now; undefined if the key may open no more counters. */
async function openWindows(
  tx: Tx,
  openings: readonly Opening[],
  now: Date,
): Promise<ReadonlyMap<number, Date | undefined>> {
  // In one order everywhere: whoever opens the same windows waits, and finds them open.
  const sorted = openings
    .map((opening) => ({ opening, name: nameOf(opening) }))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .map(({ opening }) => opening);
  await limitPause(tx);
  const names = sorted.map(
    ({ counter: { limitId, version, subject } }) => `${limitId}/${version}/${subject}`,
  );
  await sql`
    SELECT pg_advisory_xact_lock(hash) FROM (
      SELECT DISTINCT hashtextextended(name, ${WINDOW_LOCK}) AS hash FROM unnest(${arrayLiteral(names)}::text[]) AS name
      ORDER BY hash
    ) AS sorted`.execute(tx);
  const newest = await readNewest(tx, sorted);
  const starts = new Map<number, Date | undefined>();
  const opened = new Map<string, Date>();
  for (const [index, opening] of sorted.entries()) {
    const name = names[index] ?? '';
    // Another amount of the same limit may have opened it just now.
    const known = opened.get(name) ?? newest[index] ?? undefined;
    if (known && isOpenAt(known, opening.every, now)) starts.set(opening.at, known);
    else if (await mayOpen(tx, opening, now)) {
      opened.set(name, now);
      starts.set(opening.at, now);
    } else starts.set(opening.at, undefined);
  }
  const added = sorted.filter((_one, index) => opened.has(names[index] ?? ''));
  await insertStarts(
    tx,
    added.map(({ counter }) => counter),
    now,
  );
  return starts;
}

/** Keys first: what they have opened is counted in that order, too. */
function nameOf({ keyId, counter: { limitId, version, subject } }: Opening): string {
  return JSON.stringify([limitId, version, keyId, subject]);
}

const columnsOf = (counters: readonly Counter[]) => sql`
  ${arrayLiteral(counters.map(({ limitId }) => limitId))}::text[],
  ${arrayLiteral(counters.map(({ version }) => version))}::int[],
  ${arrayLiteral(counters.map(({ subject }) => subject))}::text[]`;

async function readNewest(tx: Tx, openings: readonly Opening[]): Promise<(Date | null)[]> {
  const { rows } = await sql<{ started_at: Date | null }>`
    SELECT newest.started_at
    FROM unnest(${columnsOf(openings.map(({ counter }) => counter))})
      WITH ORDINALITY AS wanted (limit_id, version, subject, position)
    LEFT JOIN LATERAL (${newestStart({
      policyId: sql.ref('wanted.limit_id'),
      version: sql.ref('wanted.version'),
      subject: sql.ref('wanted.subject'),
    })}) AS newest ON true
    ORDER BY wanted.position`.execute(tx);
  return rows.map(({ started_at }) => started_at);
}

async function insertStarts(tx: Tx, counters: readonly Counter[], now: Date): Promise<void> {
  if (counters.length === 0) return;
  await sql`
    INSERT INTO window_starts (limit_id, counter_version, subject, started_at)
    SELECT DISTINCT opened.*, ${now}::timestamptz FROM unnest(${columnsOf(counters)}) AS opened
    ON CONFLICT DO NOTHING`.execute(tx);
}

/** Windows of different counters begin at different times: what a key opens is counted in periods of their length. */
async function mayOpen(tx: Tx, { keyId, counter, every, maxCounters }: Opening, now: Date): Promise<boolean> {
  const { limitId, version, subject } = counter;
  const isOfValue = keyId !== '' && subject !== OTHERS_SUBJECT && subject !== UNKNOWN_SUBJECT;
  if (!isOfValue || maxCounters === null) return true;
  const periodMs = everyMs(every);
  const period = new Date(Math.floor(now.getTime() / periodMs) * periodMs);
  const { rows } = await sql`
    INSERT INTO opened_counters AS counted (limit_id, counter_version, window_start, key_id, opened)
    SELECT ${limitId}, ${version}::int, ${period}::timestamptz, ${keyId}, 1 WHERE ${maxCounters}::int > 0
    ON CONFLICT (limit_id, counter_version, window_start, key_id) DO UPDATE SET opened = counted.opened + 1
      WHERE counted.opened < ${maxCounters}
    RETURNING opened`.execute(tx);
  return rows.length > 0;
}

function counterOf({ policyId, counterVersion, subject }: WindowCall['bucket']): Counter {
  const { policyId: id, limitId = '' } = definedBy({ policyId });
  return { limitId: furtherLimitId(id, limitId), version: counterVersion, subject };
}
