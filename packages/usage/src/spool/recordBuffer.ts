import type { FileSystem } from './fileSystem.ts';

const BUFFER_BYTES = 64 * 1024;

/** Joins records for one write, in a buffer that is reused as long as they fit. */
export class RecordBuffer {
  #buffer: Buffer | undefined;

  /** `bytes` is the records' total length. The result is valid until the next call. */
  join(records: readonly Buffer[], bytes: number): Buffer {
    const [first, ...others] = records;
    if (first && others.length === 0) return first;
    if (bytes > BUFFER_BYTES) return Buffer.concat(records);
    this.#buffer ??= Buffer.allocUnsafeSlow(BUFFER_BYTES);
    let at = 0;
    for (const record of records) at += record.copy(this.#buffer, at);
    return this.#buffer.subarray(0, at);
  }
}

export function totalBytes(records: readonly Buffer[]): number {
  let bytes = 0;
  for (const { length } of records) bytes += length;
  return bytes;
}

export function writeFully(files: FileSystem, file: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    const written = files.write(file, bytes, done, position + done);
    if (written <= 0) throw new Error('the disk accepted no bytes of a write');
    done += written;
  }
}
