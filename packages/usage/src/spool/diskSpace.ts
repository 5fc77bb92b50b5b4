/** The bytes that a producer's epochs take on disk, and may still take. */
export class DiskSpace {
  readonly maxBytes: number;
  usedBytes = 0;
  /** For the SETTLEs of open attempts. */
  reservedBytes = 0;
  damagedRecords = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** `bytes` is negative if a file was deleted. */
  readonly addToDiskUse = (bytes: number): void => {
    this.usedBytes += bytes;
  };

  hasRoom(bytes: number): boolean {
    return this.usedBytes + this.reservedBytes + bytes <= this.maxBytes;
  }
}
