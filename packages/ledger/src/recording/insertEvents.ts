import type { BucketRef } from '@weighbridge/budget';
import type { Tx } from '@weighbridge/database';
import {
  arrayLiteral,
  BIGINT,
  BOOLEAN,
  binaryArray,
  type ElementType,
  FLOAT8,
  INTEGER,
  SMALLINT,
  TEXT,
  UUID,
} from '@weighbridge/database';
import { CompiledQuery } from 'kysely';
import { withLateIds } from '../archive/lateUsage.ts';
import type { LedgerEvent } from '../events/usage.ts';

/** An event with every bucket that it counts in, by key. */
export interface CountedEvent extends LedgerEvent {
  readonly counters: ReadonlyMap<string, BucketRef>;
}

interface Column {
  readonly name: string;
  /** The element type of its array. */
  readonly type: string;
  readonly arrayOf: (events: readonly CountedEvent[]) => Buffer;
}

function column<V extends string | number | bigint | boolean>(
  name: string,
  type: ElementType<V>,
  read: (row: LedgerEvent['row']) => V | null | undefined,
): Column {
  return { name, type: type.name, arrayOf: (events) => binaryArray(type, events, ({ row }) => read(row)) };
}

/** The columns that are inserted as they are. */
const COLUMNS: readonly Column[] = [
  column('event_id', UUID, (row) => row.event_id),
  column('request_id', TEXT, (row) => row.request_id),
  column('attempt', SMALLINT, (row) => row.attempt ?? 1),
  column('model_attempt', SMALLINT, (row) => row.model_attempt ?? 1),
  column('key_id', TEXT, (row) => row.key_id),
  column('principal_id', TEXT, (row) => row.principal_id),
  column('policy_id', TEXT, (row) => row.policy_id),
  column('model_requested', TEXT, (row) => row.model_requested),
  column('model', TEXT, (row) => row.model),
  column('connector_id', TEXT, (row) => row.connector_id),
  column('team_id', TEXT, (row) => row.team_id),
  column('input_tokens', INTEGER, (row) => row.input_tokens),
  column('cache_read_tokens', INTEGER, (row) => row.cache_read_tokens),
  column('cache_write_tokens', INTEGER, (row) => row.cache_write_tokens),
  column('cache_write_1h_tokens', INTEGER, (row) => row.cache_write_1h_tokens),
  column('output_tokens', INTEGER, (row) => row.output_tokens),
  column('cost_nano_usd', BIGINT, (row) => row.cost_nano_usd),
  column('price_version', INTEGER, (row) => row.price_version),
  column('price_source', TEXT, (row) => row.price_source ?? 'catalog'),
  column('estimated', BOOLEAN, (row) => row.estimated),
  column('outcome', TEXT, (row) => row.outcome),
  column('http_status', INTEGER, (row) => row.http_status),
  column('streamed', BOOLEAN, (row) => row.streamed),
  column('cache_hit', BOOLEAN, (row) => row.cache_hit ?? false),
  column('first_byte_us', INTEGER, (row) => row.first_byte_us),
  column('duration_us', INTEGER, (row) => row.duration_us),
  column('response_id', TEXT, (row) => row.response_id),
  column('producer_id', UUID, (row) => row.producer_id),
  column('epoch', UUID, (row) => row.epoch),
  column('shard', SMALLINT, (row) => row.shard),
  column('n', BIGINT, (row) => row.n),
];

const NAMES = COLUMNS.map(({ name }) => name).join(', ');
/** The columns whose parameters have another type. */
const CONVERTED = 'bucket_keys, admitted_at, settled_at, details, attribution';
/** No row gets an id before it: those days are in the archive, or are being written to it. */
const NO_FLOOR = '00000000-0000-0000-0000-000000000000';
const FLOOR = `coalesce(uuid_from(archived_before), '${NO_FLOOR}'::uuid)`;
const INSERT = `
  WITH added AS (
    INSERT INTO usage_events (${NAMES}, ${CONVERTED})
    SELECT ${NAMES}, bucket_keys::text[], to_timestamp(admitted_at / 1000), to_timestamp(settled_at / 1000),
      details::jsonb, attribution
    FROM ROWS FROM (
      unnest(
        ${COLUMNS.map(({ type }, at) => `$${at + 1}::${type}[]`).join(', ')},
        $${COLUMNS.length + 1}::text[], $${COLUMNS.length + 2}::float8[], $${COLUMNS.length + 3}::float8[],
        $${COLUMNS.length + 4}::text[]
      ),
      jsonb_array_elements($${COLUMNS.length + 5}::jsonb)
    ) AS event (${NAMES}, ${CONVERTED})
    WHERE event_id >= (SELECT ${FLOOR} FROM ledger_floor)
    ON CONFLICT (event_id) DO NOTHING
    RETURNING event_id
  )
  SELECT string_agg(event_id::text, ',') AS ids, (SELECT ${FLOOR} FROM ledger_floor) AS floor FROM added`;

/**
 * Inserts events, given in the order of their ids, and returns those that are new. Those of archived days are recorded under other ids.
 * `isReleased` as for `withLateIds`. The transaction holds `lockCounters`, so that no day is archived meanwhile.
 */
export async function insertEvents(
  tx: Tx,
  events: readonly CountedEvent[],
  { isReleased = false } = {},
): Promise<CountedEvent[]> {
  const { added, floor } = await insertNew(tx, events);
  const late = floor === NO_FLOOR ? [] : events.filter(({ row }) => row.event_id < floor);
  if (late.length === 0) return added;
  const renamed = await withLateIds(tx, late, { isReleased });
  return [...added, ...(await insertNew(tx, renamed)).added];
}

async function insertNew(
  tx: Tx,
  events: readonly CountedEvent[],
): Promise<{ readonly added: CountedEvent[]; readonly floor: string }> {
  if (events.length === 0) return { added: [], floor: NO_FLOOR };
  const { rows } = await tx.executeQuery(
    CompiledQuery.raw(INSERT, [
      ...COLUMNS.map(({ arrayOf }) => arrayOf(events)),
      // Postgres arrays of arrays are rectangular, so each event's keys are sent as one text.
      bucketKeys(events),
      // A number takes a tenth of the time to parse that a date does.
      binaryArray(FLOAT8, events, ({ row }) => row.admitted_at.getTime()),
      binaryArray(FLOAT8, events, ({ row }) => row.settled_at.getTime()),
      detailsOfEach(events),
      // One JSON array: in an array of texts, each quote would have to be escaped.
      `[${events.map(({ row }) => row.attribution).join(',')}]`,
    ]),
  );
  const { ids, floor } = rows[0] as { ids: string | null; floor: string };
  const added = new Set(ids?.split(','));
  return { added: events.filter((event) => added.has(event.row.event_id)), floor };
}

/** Most events have none: `unnest` fills a shorter array up with nulls. */
function detailsOfEach(events: readonly CountedEvent[]): Buffer {
  const last = events.findLastIndex(({ row }) => row.details != null);
  return binaryArray(TEXT, events.slice(0, last + 1), ({ row }) => row.details);
}

/** The bucket keys of each event. Events that share their counters share the text. */
function bucketKeys(events: readonly CountedEvent[]): Buffer {
  const texts = new Map<CountedEvent['counters'], string>();
  const textOf = ({ counters }: CountedEvent) => {
    const text = texts.get(counters) ?? arrayLiteral([...counters.keys()]);
    texts.set(counters, text);
    return text;
  };
  return binaryArray(TEXT, events, textOf);
}
