const ASCII = /^[\0-\x7f]*$/;

/** Converts between offsets in a text: of code points, of bytes of UTF-8, and of the units of a JavaScript string. */
export class TextOffsets {
  readonly text: string;
  /** How many code points it has. */
  readonly characters: number;
  readonly bytes: number;
  /** By code point; undefined if all three offsets are the same. */
  readonly #units: Uint32Array | undefined;
  readonly #bytes: Uint32Array | undefined;

  constructor(text: string) {
    this.text = text;
    if (ASCII.test(text)) {
      this.characters = text.length;
      this.bytes = text.length;
      return;
    }
    const units = new Uint32Array(text.length + 1);
    const bytes = new Uint32Array(text.length + 1);
    let characters = 0;
    let byte = 0;
    for (let unit = 0; unit < text.length; characters++) {
      const point = text.codePointAt(unit) ?? 0;
      unit += point > 0xffff ? 2 : 1;
      byte += bytesOf(point);
      units[characters + 1] = unit;
      bytes[characters + 1] = byte;
    }
    this.characters = characters;
    this.bytes = byte;
    this.#units = units.subarray(0, characters + 1);
    this.#bytes = bytes.subarray(0, characters + 1);
  }

  byteAt(character: number): number {
    return this.#bytes?.[character] ?? character;
  }

  /** The code point that has the byte. */
  characterAtByte(byte: number): number {
    return this.#bytes ? lastUpTo(this.#bytes, byte) : byte;
  }

  /** The code point that has the unit of a JavaScript string. */
  characterAtUnit(unit: number): number {
    return this.#units ? lastUpTo(this.#units, unit) : unit;
  }

  slice(start: number, end: number): string {
    const unit = (character: number) => this.#units?.[character] ?? character;
    return this.text.slice(unit(start), unit(end));
  }
}

/** Half a surrogate pair becomes a replacement character, of three bytes. */
function bytesOf(point: number): number {
  if (point < 0x80) return 1;
  if (point < 0x800) return 2;
  return point < 0x10000 ? 3 : 4;
}

/** The index of the last of some rising numbers that is not above one. */
function lastUpTo(rising: Uint32Array, most: number): number {
  let low = 0;
  let high = rising.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((rising[middle] ?? 0) <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}
