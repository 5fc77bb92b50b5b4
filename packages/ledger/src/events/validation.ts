/** In UTF-8. An index entry of Postgres holds at most 2,700. */
const MAX_ID_BYTES = 1_000;
export const MAX_INTEGER = 2_147_483_647;
/** The last millisecond of the year 9999. */
const MAX_TIME_MS = 253_402_300_799_999;

/** Throws on a NUL, which Postgres can't store in a text. It also refuses lone surrogates, which the decoder doesn't produce. */
export function checkText(name: string, text: string | undefined): void {
  if (text?.includes('\0')) throw new Error(`${name} contains a NUL character`);
}

export function checkedId(name: string, text: string): string {
  if (text === '') throw new Error(`${name} is empty`);
  // UTF-8 takes at most three bytes per UTF-16 code unit.
  if (text.length * 3 > MAX_ID_BYTES && Buffer.byteLength(text) > MAX_ID_BYTES) {
    throw new Error(`${name} is longer than ${MAX_ID_BYTES} bytes`);
  }
  return text;
}

export function atMost(most: number, name: string, value: number): number {
  if (value > most) throw new Error(`${name} is above ${most}`);
  return value;
}

export function checkedTime(name: string, ms: bigint | number): Date {
  if (ms < 0 || ms > MAX_TIME_MS) throw new Error(`${name} is out of range`);
  return new Date(Number(ms));
}
