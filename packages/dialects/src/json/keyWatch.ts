/** Notices whether one of some names is among the keys that a cursor passes, in any case, or may be: a key with escapes is. */
export class KeyWatch {
  /** To be cleared before a scan. Scans do not overlap, so they share it. */
  isSeen = false;
  readonly #names: ReadonlySet<string>;
  /** One bit for each length of a name: most keys are told apart by it, without being read. */
  readonly #lengths: number;
  /** 1 for each byte that a name begins with, in lower case. */
  readonly #firsts = new Uint8Array(256);

  constructor(names: readonly string[]) {
    this.#names = new Set(names);
    this.#lengths = names.reduce((lengths, { length }) => lengths | (1 << length), 0);
    for (const name of names) {
      if (name.length >= 32 || name !== name.toLowerCase()) throw new Error(`${name} can't be watched for`);
      this.#firsts[name.charCodeAt(0)] = 1;
    }
  }

  /** The key is between the quotes at `start` and before `end`. */
  see(bytes: Buffer, start: number, end: number, isEscaped: boolean): void {
    const length = end - start - 2;
    if (isEscaped) this.isSeen = true;
    else if (length < 32 && ((this.#lengths >>> length) & 1) === 1 && !this.isSeen) {
      if (this.#firsts[(bytes[start + 1] ?? 0) | 0x20] === 0) return;
      if (this.#names.has(bytes.toString('latin1', start + 1, end - 1).toLowerCase())) this.isSeen = true;
    }
  }
}
