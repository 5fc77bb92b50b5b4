import { type DuckSql, duck } from './duck.ts';

/**
 * The columns of an archived attempt. The writer, the readers, and the table in docs/archive.md follow from this one. Others' engines
 * read these files: a column is added at the end, and none is renamed or changed.
 */

/** How a kind of value is stored in the files, and comes back. */
interface Kind {
  /** The type in DuckDB, from which that in Parquet follows. */
  readonly type: string;
  /** For readers of the documentation. */
  readonly parquet: string;
  /** An SQL expression on a row of `usage_events` whose JSON has the value. */
  readonly stored: (column: string) => string;
  /** A DuckDB expression on a row of the files, which `parse` reads. */
  readonly read: (column: string) => DuckSql;
  readonly parse: (value: unknown) => unknown;
}

const quoted = (name: string) => `"${name}"`;
const asItIs = (value: unknown) => value;
const PLAIN = { stored: quoted, read: duck.column, parse: asItIs };

const KINDS = {
  text: { ...PLAIN, type: 'VARCHAR', parquet: 'string' },
  texts: { ...PLAIN, type: 'VARCHAR[]', parquet: 'list of strings' },
  boolean: { ...PLAIN, type: 'BOOLEAN', parquet: 'boolean' },
  integer: { ...PLAIN, type: 'INTEGER', parquet: 'int32' },
  bigint: { ...PLAIN, type: 'BIGINT', parquet: 'int64' },
  time: {
    ...PLAIN,
    type: 'TIMESTAMPTZ',
    parquet: 'timestamp, UTC, in microseconds',
    read: (column) => duck`epoch_ms(${duck.column(column)})`,
    parse: (ms) => new Date(Number(ms)),
  },
  json: {
    ...PLAIN,
    type: 'VARCHAR',
    parquet: 'string, JSON',
    stored: (column) => `${quoted(column)}::text`,
    parse: (text) => JSON.parse(String(text)),
  },
  /** Stored in dollars, since engines and people add these up. Exact: a nano-dollar is the ninth digit. */
  money: {
    type: 'DECIMAL(38,9)',
    parquet: 'decimal(38, 9)',
    stored: () => `(cost_nano_usd * 0.000000001)::text`,
    read: (column) => duck`${duck.column(column)}::VARCHAR`,
    parse: (text) => nanoFromDecimal(String(text)),
  },
} as const satisfies Record<string, Kind>;

interface ArchiveColumn {
  readonly name: string;
  readonly kind: keyof typeof KINDS;
  readonly isNullable: boolean;
  readonly meaning: string;
}

function column(name: string, kind: ArchiveColumn['kind'], meaning: string): ArchiveColumn {
  return { name, kind, isNullable: false, meaning };
}

function nullable(name: string, kind: ArchiveColumn['kind'], meaning: string): ArchiveColumn {
  return { name, kind, isNullable: true, meaning };
}

/** The column of money, and the one of the ledger that has it in nano-dollars. */
export const COST = 'cost_usd';
const LEDGER_COST = 'cost_nano_usd';

export const ARCHIVE_COLUMNS: readonly ArchiveColumn[] = [
  column('event_id', 'text', 'UUIDv7 of the attempt or correction; unique in the archive'),
  column('kind', 'text', '`attempt` or `correction`'),
  column('request_id', 'text', 'the request, which may have several attempts'),
  column('attempt', 'integer', 'its number among the attempts of the request, from 1; 0 in a correction'),
  column('model_attempt', 'integer', 'the same among those on the same model'),
  column('key_id', 'text', "the caller's key"),
  column('principal_id', 'text', 'who the key belongs to'),
  nullable('team_id', 'text', 'the team of the principal at admission'),
  column('policy_id', 'text', 'the governing policy'),
  column('bucket_keys', 'texts', 'each counter and window in which it counts'),
  column('model_requested', 'text', 'the model that the caller named'),
  column('model', 'text', 'the model that served it'),
  column('provider', 'text', 'the vendor, the first part of `model`'),
  column('connector_id', 'text', 'the account at the vendor; empty if there was none'),
  column('input_tokens', 'integer', 'input tokens that no cache had'),
  column('cache_read_tokens', 'integer', "input tokens read from the vendor's cache"),
  column('cache_write_tokens', 'integer', 'input tokens written to it for minutes'),
  column('cache_write_1h_tokens', 'integer', 'input tokens written to it for an hour'),
  column('output_tokens', 'integer', 'output tokens'),
  column(COST, 'money', 'what it cost, in US dollars, exact; signed in a correction'),
  column('price_version', 'integer', 'the version of the price that it was charged at'),
  column('price_source', 'text', '`catalog` or `connector`'),
  column('estimated', 'boolean', 'whether its usage was estimated'),
  column('outcome', 'text', 'such as `success` or `upstream_error`'),
  column('http_status', 'integer', "the vendor's status; 0 if there was none"),
  column('streamed', 'boolean', 'whether the response was a stream'),
  column('cache_hit', 'boolean', 'whether the response came from our response cache'),
  column('admitted_at', 'time', 'when the request was admitted; of a correction, that of its attempt'),
  column('settled_at', 'time', 'when its cost was known'),
  nullable('first_byte_us', 'integer', 'microseconds until the first byte'),
  column('duration_us', 'integer', 'microseconds in all'),
  column('attribution', 'json', "the caller's values: `user`, `team`, `project`, `env`, `labels` and so on"),
  nullable('details', 'json', 'further facts of billing, such as `service_tier`'),
  column('response_id', 'text', "the vendor's id of the response"),
  nullable('producer_id', 'text', 'the spool that sent it'),
  nullable('epoch', 'text', 'the run of its process'),
  nullable('shard', 'integer', 'the shard that it came through'),
  nullable('n', 'bigint', 'its number in the epoch and shard'),
  nullable('corrects', 'text', 'of a correction: the `event_id` of the attempt'),
  nullable('reason', 'text', 'of a correction: why'),
];

/** The columns in the names of the ledger. */
export const LEDGER_COLUMNS = ARCHIVE_COLUMNS.map(({ name }) => (name === COST ? LEDGER_COST : name));

/** For DuckDB's `read_json`. */
export const COLUMN_TYPES = duck`{${duck.join(ARCHIVE_COLUMNS.map(({ name, kind }) => duck`${duck.column(name)}: ${KINDS[kind].type}`))}}`;

export const COLUMN_NAMES = duck.join(ARCHIVE_COLUMNS.map(({ name }) => duck.column(name)));

/** An SQL list for Postgres: the values of a row of `usage_events` as they are archived. */
export const STORED_VALUES = ARCHIVE_COLUMNS.map(
  ({ name, kind }) => `${KINDS[kind].stored(name)} AS ${name}`,
).join(', ');

/** A list for DuckDB: the values of a row, for `parseRow`. */
export const READ_VALUES = duck.join(
  ARCHIVE_COLUMNS.map(({ name, kind }) => duck`${KINDS[kind].read(name)} AS ${duck.column(name)}`),
);

/** A row of the ledger, from one that was read with `READ_VALUES`. */
export function parseRow(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    ARCHIVE_COLUMNS.map(({ name, kind }, index) => {
      const value = row[name] ?? null;
      return [LEDGER_COLUMNS[index] ?? name, value === null ? null : KINDS[kind].parse(value)];
    }),
  );
}

/** Nano-dollars of a decimal in dollars with nine digits after its point. */
export function nanoFromDecimal(text: string): bigint {
  if (!/^-?\d+\.\d{9}$/.test(text)) throw new Error(`${text} has not nine digits after its point`);
  return BigInt(text.replace('.', ''));
}

/** The rows of the table in docs/archive.md. */
export function documentedColumns(): string[][] {
  return ARCHIVE_COLUMNS.map(({ name, kind, isNullable, meaning }) => [
    `\`${name}\``,
    KINDS[kind].parquet,
    isNullable ? 'yes' : 'no',
    meaning,
  ]);
}
