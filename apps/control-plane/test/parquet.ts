import { parquetMetadata, parquetReadObjects } from 'hyparquet';

/** The rows of a Parquet file as a CSV has them: exact decimals, times without milliseconds, nothing for null. */
export async function parquetRows(file: Uint8Array<ArrayBuffer>): Promise<Record<string, string>[]> {
  const metadata = parquetMetadata(file.buffer);
  const decimals = metadata.schema.filter((element) => element.converted_type === 'DECIMAL');
  // The reader would round decimals to floating point. Without their type it gives their bytes.
  for (const element of decimals) delete element.converted_type;
  const scales = new Map(decimals.map(({ name, scale = 0 }) => [name, scale]));
  const rows = await parquetReadObjects({ file: file.buffer, metadata, utf8: false });
  return rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, text(value, scales.get(name))])),
  );
}

function text(value: unknown, scale: number | undefined): string {
  if (scale !== undefined) return decimal(value as Uint8Array, scale);
  if (value instanceof Date) return value.toISOString().replace('.000Z', 'Z');
  return String(value ?? '');
}

/** Two's complement, the first byte being the highest. */
function decimal(bytes: Uint8Array, scale: number): string {
  const units = BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString('hex')}`));
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, '0');
  const number = `${digits.slice(0, -scale)}.${digits.slice(-scale)}`.replace(/\.?0+$/, '');
  return `${units < 0n ? '-' : ''}${number}`;
}
