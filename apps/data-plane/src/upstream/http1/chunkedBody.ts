import { COLON, CR, IS_TOKEN, IS_VALUE, LF } from './characters.ts';
import { badResponse } from './httpClientError.ts';

/** Of extensions and trailers together, which are read and forgotten. */
const MAX_IGNORED_BYTES = 16 * 1024;
/** A chunk's size is at most 2^48 - 1. */
const MAX_DIGITS = 12;

const SEMICOLON = 0x3b;
/** `;name`, `;name=value` or `;name="text"`, any number of them. */
const EXTENSIONS =
  /^(?:;[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]*"))?)*$/;

type State =
  | 'size'
  | 'extension'
  | 'end of size'
  | 'data'
  | 'end of data'
  | 'line end of data'
  | 'trailer'
  | 'trailer value'
  | 'line end of trailer'
  | 'line end of body'
  | 'over';

/** The body of a message with `transfer-encoding: chunked` (RFC 9112, section 7.1), as it arrives. */
export class ChunkedBody {
  #state: State = 'size';
  #size = 0;
  #digits = 0;
  #ignored = 0;
  #extensions = '';
  /** Characters of the name of a trailer so far. */
  #name = 0;

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /**
   * Reads `bytes` from `at` to `end`, and passes where data begins and ends to `onData`. Returns where it stopped: before `end` only
   * if the body is over there. Throws for what is not strictly a chunked body.
   */
  read(bytes: Uint8Array, from: number, end: number, onData: (from: number, to: number) => void): number {
    let at = from;
    while (at < end && this.#state !== 'over') {
      if (this.#state === 'data') {
        const to = Math.min(end, at + this.#size);
        onData(at, to);
        this.#size -= to - at;
        if (this.#size === 0) this.#state = 'end of data';
        at = to;
      } else this.#readByte(bytes[at++] as number);
    }
    return at;
  }

  #readByte(byte: number): void {
    const state = this.#state;
    if (state === 'size') this.#readSize(byte);
    else if (state === 'extension') this.#readExtension(byte);
    else if (state === 'end of size') this.#expect(byte, LF, this.#size === 0 ? 'trailer' : 'data');
    else if (state === 'end of data') this.#expect(byte, CR, 'line end of data');
    else if (state === 'line end of data') this.#expect(byte, LF, 'size');
    else if (state === 'trailer') this.#readTrailerName(byte);
    else if (state === 'trailer value') this.#readTrailerValue(byte);
    else if (state === 'line end of trailer') this.#expect(byte, LF, 'trailer');
    else this.#expect(byte, LF, 'over');
  }

  #readSize(byte: number): void {
    const digit = digitOf(byte);
    if (digit >= 0) {
      if (++this.#digits > MAX_DIGITS) throw badResponse('a chunk is too long');
      this.#size = this.#size * 16 + digit;
      return;
    }
    if (this.#digits === 0) throw badResponse('a chunk has no size');
    this.#digits = 0;
    if (byte === CR) this.#state = 'end of size';
    else if (byte === SEMICOLON) {
      this.#state = 'extension';
      this.#extensions = '';
      this.#readExtension(byte);
    } else throw badResponse('the size of a chunk is not valid');
  }

  #readExtension(byte: number): void {
    if (byte === CR) {
      if (!EXTENSIONS.test(this.#extensions)) throw badResponse('an extension of a chunk is not valid');
      this.#state = 'end of size';
      return;
    }
    this.#ignore();
    if (IS_VALUE[byte] !== 1) throw badResponse('an extension of a chunk is not valid');
    this.#extensions += String.fromCharCode(byte);
  }

  /** At the beginning of a trailer, or of the empty line that ends them. */
  #readTrailerName(byte: number): void {
    if (byte === CR && this.#name === 0) {
      this.#state = 'line end of body';
      return;
    }
    this.#ignore();
    if (IS_TOKEN[byte] === 1) this.#name++;
    else if (byte === COLON && this.#name > 0) {
      this.#name = 0;
      this.#state = 'trailer value';
    } else throw badResponse('the name of a trailer is not valid');
  }

  #readTrailerValue(byte: number): void {
    if (byte === CR) {
      this.#state = 'line end of trailer';
      return;
    }
    this.#ignore();
    if (IS_VALUE[byte] !== 1) throw badResponse('a trailer is not valid');
  }

  #expect(byte: number, expected: number, next: State): void {
    if (byte !== expected) throw badResponse('the end of a line is missing in its chunks');
    this.#state = next;
  }

  #ignore(): void {
    if (++this.#ignored > MAX_IGNORED_BYTES) throw badResponse('its chunks have too much beside their data');
  }
}

function digitOf(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  // Letters in either case.
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
