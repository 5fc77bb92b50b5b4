/** What the string after a key may begin with, and the keys. */
export interface MarkedValues {
  /** In lower case. */
  readonly keys: readonly string[];
  readonly prefix: Buffer;
}

const MAX_LENGTH = 32;
const NAME = 1;
const MARKED = 2;
const COLON = 0x3a;
const QUOTE = 0x22;

/**
 * Notices whether one of some names is among the keys that a cursor passes, in any case, or may be: a key with escapes is. And
 * whether a string that begins with a mark may follow a key of certain names.
 */
export class KeyWatch {
  /** Both are to be cleared before a scan. Scans do not overlap, so they share it. */
  isSeen = false;
  mayBeMarked = false;
  readonly #names: ReadonlySet<string>;
  readonly #prefix: Buffer | undefined;
  /** By the length of a key and its first byte, what it may be: most keys are told apart by it, without being read. */
  readonly #kinds = new Uint8Array(MAX_LENGTH * 256);

  constructor(names: readonly string[], marked?: MarkedValues) {
    this.#names = new Set(names);
    this.#prefix = marked?.prefix;
    for (const name of names) this.#add(name, NAME);
    for (const key of marked?.keys ?? []) this.#add(key, MARKED);
  }

  /** The key is between the quotes at `start` and before `end`. */
  see(bytes: Buffer, start: number, end: number, isEscaped: boolean): void {
    if (isEscaped) {
      this.isSeen = true;
      this.mayBeMarked = true;
      return;
    }
    const length = end - start - 2;
    if (length >= MAX_LENGTH) return;
    const kind = this.#kinds[(length << 8) | (bytes[start + 1] ?? 0) | 0x20] ?? 0;
    if (kind === 0) return;
    if ((kind & MARKED) !== 0 && this.#hasMark(bytes, end)) this.mayBeMarked = true;
    if ((kind & NAME) === 0 || this.isSeen) return;
    if (this.#names.has(bytes.toString('latin1', start + 1, end - 1).toLowerCase())) this.isSeen = true;
  }

  clear(): void {
    this.isSeen = false;
    this.mayBeMarked = false;
  }

  #add(name: string, kind: number): void {
    if (name.length >= MAX_LENGTH || name !== name.toLowerCase())
      throw new Error(`${name} can't be watched for`);
    const at = (name.length << 8) | name.charCodeAt(0) | 0x20;
    this.#kinds[at] = (this.#kinds[at] ?? 0) | kind;
  }

  /** Whether a string that begins with the prefix follows the key that ends at `from`. */
  #hasMark(bytes: Buffer, from: number): boolean {
    let at = afterSpace(bytes, from);
    if (bytes[at++] !== COLON) return false;
    at = afterSpace(bytes, at);
    if (bytes[at++] !== QUOTE) return false;
    for (const byte of this.#prefix ?? []) if (bytes[at++] !== byte) return false;
    return true;
  }
}

function afterSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return at;
}
