import type { Tx } from '@weighbridge/database';
import { CompiledQuery } from 'kysely';
import { arrayElement, arrayLiteral } from './arrayLiteral.ts';
import type { BucketRef } from './buckets.ts';
import type { LedgerEvent } from './usage.ts';

/** An event with every counter that it counts in, by key. */
export interface CountedEvent extends LedgerEvent {
  readonly counters: ReadonlyMap<string, BucketRef>;
}

type Value = Parameters<typeof arrayLiteral>[0][number];

/** What is written of an event: column, type of the array that carries it, value. */
const COLUMNS: readonly (readonly [name: string, type: string, value: (event: CountedEvent) => Value])[] = [
  ['event_id', 'uuid', ({ row }) => row.event_id],
  ['request_id', 'text', ({ row }) => row.request_id],
  ['attempt', 'smallint', ({ row }) => row.attempt ?? 1],
  ['model_attempt', 'smallint', ({ row }) => row.model_attempt ?? 1],
  ['key_id', 'text', ({ row }) => row.key_id],
  ['principal_id', 'text', ({ row }) => row.principal_id],
  ['policy_id', 'text', ({ row }) => row.policy_id],
  ['model_requested', 'text', ({ row }) => row.model_requested],
  ['model', 'text', ({ row }) => row.model],
  ['connector_id', 'text', ({ row }) => row.connector_id],
  ['input_tokens', 'integer', ({ row }) => row.input_tokens],
  ['cache_read_tokens', 'integer', ({ row }) => row.cache_read_tokens],
  ['cache_write_tokens', 'integer', ({ row }) => row.cache_write_tokens],
  ['cache_write_1h_tokens', 'integer', ({ row }) => row.cache_write_1h_tokens],
  ['output_tokens', 'integer', ({ row }) => row.output_tokens],
  ['cost_nano_usd', 'bigint', ({ row }) => row.cost_nano_usd],
  ['price_version', 'integer', ({ row }) => row.price_version],
  ['price_source', 'text', ({ row }) => row.price_source ?? 'catalog'],
  ['estimated', 'boolean', ({ row }) => row.estimated],
  ['outcome', 'text', ({ row }) => row.outcome],
  ['http_status', 'integer', ({ row }) => row.http_status],
  ['streamed', 'boolean', ({ row }) => row.streamed],
  ['cache_hit', 'boolean', ({ row }) => row.cache_hit ?? false],
  ['first_byte_us', 'integer', ({ row }) => row.first_byte_us],
  ['duration_us', 'integer', ({ row }) => row.duration_us],
  ['response_id', 'text', ({ row }) => row.response_id],
  ['producer_id', 'uuid', ({ row }) => row.producer_id],
  ['epoch', 'uuid', ({ row }) => row.epoch],
  ['shard', 'smallint', ({ row }) => row.shard],
  ['n', 'bigint', ({ row }) => row.n],
];

const NAMES = COLUMNS.map(([name]) => name).join(', ');
/** What goes in another shape than it is kept in. */
const SHAPED = 'bucket_keys, admitted_at, settled_at, attribution';
const INSERT = `
  WITH added AS (
    INSERT INTO usage_events (${NAMES}, ${SHAPED})
    SELECT ${NAMES}, bucket_keys::text[], to_timestamp(admitted_at / 1000), to_timestamp(settled_at / 1000), attribution
    FROM ROWS FROM (
      unnest(
        ${COLUMNS.map(([, type], at) => `$${at + 1}::${type}[]`).join(', ')},
        $${COLUMNS.length + 1}::text[], $${COLUMNS.length + 2}::float8[], $${COLUMNS.length + 3}::float8[]
      ),
      jsonb_array_elements($${COLUMNS.length + 4}::jsonb)
    ) AS event (${NAMES}, ${SHAPED})
    ON CONFLICT (event_id) DO NOTHING
    RETURNING event_id
  )
  SELECT string_agg(event_id::text, ',') AS ids FROM added`;

/** Inserts events, which are in the order of their ids, and returns those that were not there yet. */
export async function insertEvents(tx: Tx, events: readonly CountedEvent[]): Promise<CountedEvent[]> {
  if (events.length === 0) return [];
  const { rows } = await tx.executeQuery(
    CompiledQuery.raw(INSERT, [
      ...COLUMNS.map(([, , value]) => arrayLiteral(events.map(value))),
      // An array of arrays would have to be a rectangle: each goes as a text of its own.
      bucketKeys(events),
      // As numbers, which take a tenth of the time of a text for the date.
      arrayLiteral(events.map(({ row }) => row.admitted_at.getTime())),
      arrayLiteral(events.map(({ row }) => row.settled_at.getTime())),
      // JSON as it is: in an array of texts, each of its quotes would have to be escaped.
      `[${events.map(({ row }) => row.attribution).join(',')}]`,
    ]),
  );
  const added = new Set((rows[0] as { ids: string | null }).ids?.split(','));
  return events.filter((event) => added.has(event.row.event_id));
}

/** The keys of each event's counters; events that share their counters share the text. */
function bucketKeys(events: readonly CountedEvent[]): string {
  const texts = new Map<CountedEvent['counters'], string>();
  const textOf = ({ counters }: CountedEvent) => {
    const text = texts.get(counters) ?? arrayElement(arrayLiteral([...counters.keys()]));
    texts.set(counters, text);
    return text;
  };
  return `{${events.map(textOf).join(',')}}`;
}
