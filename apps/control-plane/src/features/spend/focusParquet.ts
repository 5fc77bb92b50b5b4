import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { type Charge, FOCUS_COLUMNS, type FocusColumn } from './focusColumns.ts';

type SchemaElement = ConstructorParameters<typeof ParquetWriter>[0]['schema'][number];

/** Rows that are in memory at a time. Encoding them takes a few milliseconds, in which nothing else runs. */
const ROW_GROUP = 2_000;

/**
 * The dataset in Parquet, one row group after the other. The bytes that a reader needs come last, so a file that was broken off
 * can't be read as a whole one.
 */
export async function* focusParquet(
  batches: AsyncIterable<readonly Charge[]>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const bytes = new ByteWriter();
  const file = new ParquetWriter({ writer: bytes, schema: SCHEMA, createdBy: 'weighbridge' });
  const written = () => {
    const part = new Uint8Array(bytes.getBuffer());
    bytes.index = 0;
    return part;
  };
  let rows: Charge[] = [];
  for await (const charges of batches) {
    rows.push(...charges);
    if (rows.length < ROW_GROUP) continue;
    writeRows(file, rows);
    rows = [];
    yield written();
  }
  if (rows.length > 0) writeRows(file, rows);
  file.finish();
  yield written();
}

function writeRows(file: ParquetWriter, rows: readonly Charge[]): void {
  const columnData = FOCUS_COLUMNS.map((column) => ({ name: column[0], data: values(column, rows) }));
  file.write({ columnData, rowGroupSize: rows.length });
}

function values([, type, value]: FocusColumn, rows: readonly Charge[]): unknown[] {
  return rows.map((row) => (type === 'count' ? BigInt(value(row)) : value(row)));
}

function element([name, type]: FocusColumn): SchemaElement {
  switch (type) {
    case 'text':
      return { name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' };
    case 'time':
      return { name, type: 'INT64', converted_type: 'TIMESTAMP_MILLIS', repetition_type: 'REQUIRED' };
    case 'decimal':
      return { name, ...DECIMAL, repetition_type: 'REQUIRED' };
    case 'count':
      return { name, type: 'INT64', repetition_type: 'REQUIRED' };
  }
}

/** Exact, as large as anything that Postgres adds up here. */
const DECIMAL = {
  type: 'FIXED_LEN_BYTE_ARRAY',
  type_length: 16,
  converted_type: 'DECIMAL',
  precision: 38,
  scale: 9,
} as const;

const SCHEMA: SchemaElement[] = [
  { name: 'focus', num_children: FOCUS_COLUMNS.length },
  ...FOCUS_COLUMNS.map(element),
];
