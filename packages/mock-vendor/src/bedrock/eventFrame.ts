const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

function crc32(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (CRC_TABLE[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/**
 * One message of AWS's event stream (`application/vnd.amazon.eventstream`): lengths, their checksum, headers, payload, and the
 * checksum of all.
 */
export function eventFrame(headers: Readonly<Record<string, string>>, payload: string): Buffer {
  const names = Object.entries(headers).map(([name, value]) => {
    const bytes = Buffer.from(value, 'utf8');
    // 7: a string, whose length has two bytes.
    return Buffer.concat([
      Buffer.from([Buffer.byteLength(name)]),
      Buffer.from(name),
      Buffer.from([7, bytes.length >> 8, bytes.length & 0xff]),
      bytes,
    ]);
  });
  const head = Buffer.concat(names);
  const body = Buffer.from(payload, 'utf8');
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + head.length + body.length, 0);
  prelude.writeUInt32BE(head.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, head, body]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(message), 0);
  return Buffer.concat([message, checksum]);
}

/** An event of a model. */
export function chunkFrame(json: string): Buffer {
  const headers = { ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' };
  // The padding hides the length of a token from who sees the wire.
  return eventFrame(headers, JSON.stringify({ bytes: Buffer.from(json).toString('base64'), p: 'abcdefgh' }));
}

export function exceptionFrame(type: string, message: string): Buffer {
  const headers = {
    ':exception-type': type,
    ':content-type': 'application/json',
    ':message-type': 'exception',
  };
  return eventFrame(headers, JSON.stringify({ message }));
}
