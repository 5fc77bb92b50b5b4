import type { SpendRow } from '@weighbridge/ledger';
import { parquetMetadata } from 'hyparquet';
import { expect, it } from 'vitest';
import { parquetRows } from '../../../test/parquet.ts';
import { FOCUS_DIMENSIONS, focusCharge } from './focusColumns.ts';
import { focusParquet } from './focusParquet.ts';

const DAY = { from: new Date('2026-11-19T00:00:00Z'), to: new Date('2026-11-20T00:00:00Z') };

function row(user: string): SpendRow {
  const counts = { inputTokens: 1, cacheReadTokens: 2, cacheWriteTokens: 3, cacheWrite1hTokens: 4 };
  return {
    ...counts,
    bucketStart: null,
    group: FOCUS_DIMENSIONS.map((dimension) => (dimension === 'user' ? user : null)),
    requests: 1,
    attempts: 1,
    estimatedRequests: 0,
    errors: 0,
    outputTokens: 5,
    // Negative too, as after a refund.
    cost: user === 'u0-1' ? -9_007_199_254_740_993n : 1n,
    isOthers: false,
    position: [],
  };
}

/** The parts of a file, and how many rows were read when each was written. */
async function write(batches: number, ofRows = 500) {
  let read = 0;
  async function* charges() {
    for (let batch = 0; batch < batches; batch++) {
      read += ofRows;
      yield Array.from({ length: ofRows }, (_, n) => focusCharge(DAY, row(`u${batch}-${n}`), new Map()));
    }
  }
  const parts: { readonly bytes: Uint8Array; readonly afterRows: number }[] = [];
  for await (const bytes of focusParquet(charges())) parts.push({ bytes, afterRows: read });
  const file = new Uint8Array(Buffer.concat(parts.map(({ bytes }) => bytes)));
  return { parts, file };
}

it('writes a group of rows as soon as it is full, and keeps none', async () => {
  const { parts, file } = await write(41);
  expect(parts.map(({ afterRows }) => afterRows)).toEqual([
    ...Array.from({ length: 10 }, (_, group) => (group + 1) * 2_000),
    20_500,
  ]);
  const groups = parquetMetadata(file.buffer).row_groups.map(({ num_rows }) => Number(num_rows));
  expect(groups).toEqual([...Array.from({ length: 10 }, () => 2_000), 500]);
  const rows = await parquetRows(file);
  expect(rows.map((row) => JSON.parse(row.Tags ?? '').user)).toEqual(
    Array.from({ length: 20_500 }, (_, n) => `u${Math.floor(n / 500)}-${n % 500}`),
  );
  expect(rows.at(-1)).toMatchObject({
    BilledCost: '0.000000001',
    ConsumedQuantity: '15',
    x_OutputTokens: '5',
  });
});

it('has all columns without any row', async () => {
  const { file } = await write(0);
  expect(await parquetRows(file)).toEqual([]);
  expect(parquetMetadata(file.buffer).schema.map(({ name }) => name)).toContain('BilledCost');
});

it('can not be read when it was broken off', async () => {
  const { parts } = await write(5);
  const [first] = parts;
  expect(() => parquetMetadata(new Uint8Array(first?.bytes ?? []).buffer)).toThrow();
});
