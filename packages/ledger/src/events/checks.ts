/** Of what stands in an index, in UTF-8: an entry takes 2,700. */
const MAX_ID_BYTES = 1_000;
export const MAX_INTEGER = 2_147_483_647;
/** The last millisecond that is written with four digits for the year. */
const MAX_TIME_MS = 253_402_300_799_999;

/** Postgres keeps no NUL in a text. Halves of surrogate pairs, the other thing that it refuses, no decoder lets in. */
export function checkText(name: string, text: string | undefined): void {
  if (text?.includes('\0')) throw new Error(`${name} holds what no database keeps as text`);
}

export function id(name: string, text: string): string {
  if (text === '') throw new Error(`${name} is empty`);
  // No character takes more than three bytes for each of its units.
  if (text.length * 3 > MAX_ID_BYTES && Buffer.byteLength(text) > MAX_ID_BYTES) {
    throw new Error(`${name} is longer than ${MAX_ID_BYTES} bytes`);
  }
  return text;
}

export function atMost(most: number, name: string, value: number): number {
  if (value > most) throw new Error(`${name} is above ${most}`);
  return value;
}

export function time(name: string, ms: bigint | number): Date {
  if (ms < 0 || ms > MAX_TIME_MS) throw new Error(`${name} is out of range`);
  return new Date(Number(ms));
}
