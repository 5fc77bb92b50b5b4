/*
 * Frames of zstd (RFC 8878), made by hand: Node encodes them only since 22.15.
 */
const MAGIC = [0x28, 0xb5, 0x2f, 0xfd];
const MAX_BLOCK_BYTES = 128 * 1024;

/** The bytes as they are, in a frame that may refer back 2 ^ `windowLog` bytes. */
export function zstdFrame(bytes: Buffer, windowLog = 17): Buffer {
  const blocks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += MAX_BLOCK_BYTES) {
    const block = bytes.subarray(at, at + MAX_BLOCK_BYTES);
    blocks.push(blockHeader(block.length, 0, at + MAX_BLOCK_BYTES >= bytes.length), block);
  }
  return Buffer.concat([head(windowLog), ...blocks]);
}

/** One character, `count` times, in a few bytes for each 128 KiB. */
export function zstdRun(character: string, count: number): Buffer {
  const blocks: Buffer[] = [];
  for (let left = count; left > 0; left -= MAX_BLOCK_BYTES) {
    const size = Math.min(left, MAX_BLOCK_BYTES);
    blocks.push(blockHeader(size, 1, left <= MAX_BLOCK_BYTES), Buffer.from(character));
  }
  return Buffer.concat([head(17), ...blocks]);
}

function head(windowLog: number): Buffer {
  return Buffer.from([...MAGIC, 0, (windowLog - 10) << 3]);
}

function blockHeader(size: number, type: number, isLast: boolean): Buffer {
  const header = Buffer.alloc(3);
  header.writeUIntLE((size << 3) | (type << 1) | (isLast ? 1 : 0), 0, 3);
  return header;
}
