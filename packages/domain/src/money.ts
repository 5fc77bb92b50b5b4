/** Money inside the system: an integer of nano-USD. No float ever holds money. */
export type NanoUsd = bigint;

/** The largest limit that a policy may have, in micro-USD (10^15: a thousand million dollars). */
export const MAX_LIMIT_MICRO_USD = 1_000_000_000_000_000;

const NANO_PER_MICRO = 1_000n;
const NANO_PER_USD = 1_000_000_000n;

/** Rounded half up, once, at the edge of the API. Spend fits a JSON number: 2^53 micro-USD is nine thousand million dollars. */
export function microFromNano(nano: NanoUsd): number {
  return Number(divideHalfUp(nano, NANO_PER_MICRO));
}

export function nanoFromMicro(micro: number): NanoUsd {
  return BigInt(micro) * NANO_PER_MICRO;
}

/** A decimal number of USD as people write prices (`"2.5"`), exact to the nano. */
export function nanoFromDecimalUsd(text: string): NanoUsd {
  const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match)
    throw new Error(
      `"${text}" is not a price: write USD as digits with at most nine decimals, such as "2.50"`,
    );
  const [, units = '0', decimals = ''] = match;
  return BigInt(units) * NANO_PER_USD + BigInt(decimals.padEnd(9, '0'));
}

/** The inverse: exact, without zeros at the end (`"2.5"`). Not negative. */
export function decimalUsd(nano: NanoUsd): string {
  const decimals = String(nano % NANO_PER_USD)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return `${nano / NANO_PER_USD}${decimals && `.${decimals}`}`;
}

/** An amount as the API shows it: whole units and the rest in nanos, both JSON numbers (the shape of google.type.Money). */
export interface Money {
  readonly currency_code: 'USD';
  readonly units: number;
  readonly nanos: number;
}

export function moneyFromNano(nano: NanoUsd): Money {
  return { currency_code: 'USD', units: Number(nano / NANO_PER_USD), nanos: Number(nano % NANO_PER_USD) };
}

export function nanoFromMoney({ units, nanos }: Pick<Money, 'units' | 'nanos'>): NanoUsd {
  return BigInt(units) * NANO_PER_USD + BigInt(nanos);
}

/** Division of integers that rounds half up (towards +∞), for signed numerators: corrections may be negative. */
export function divideHalfUp(numerator: bigint, denominator: bigint): bigint {
  const doubled = 2n * numerator + denominator;
  const quotient = doubled / (2n * denominator);
  const exact = doubled % (2n * denominator) === 0n;
  return doubled < 0n && !exact ? quotient - 1n : quotient;
}
