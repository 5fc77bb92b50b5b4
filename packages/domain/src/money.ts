/** Money, as an integer of nano-USD. Never in a float, but for single steps on integers that one holds exactly. */
export type NanoUsd = bigint;

/** The highest limit of a policy, in micro-USD: a billion dollars. */
export const MAX_LIMIT_MICRO_USD = 1_000_000_000_000_000;

const NANO_PER_MICRO = 1_000n;
const NANO_PER_USD = 1_000_000_000n;

/** Rounds half up, once, for the API. Spend fits a JSON number: 2^53 micro-USD is nine billion dollars. */
export function microFromNano(nano: NanoUsd): number {
  return Number(divideHalfUp(nano, NANO_PER_MICRO));
}

export function nanoFromMicro(micro: number): NanoUsd {
  return BigInt(micro) * NANO_PER_MICRO;
}

/** Parses a decimal number of USD (`"2.5"`) exactly. Throws beyond nine decimal places, and for anything else. */
export function nanoFromDecimalUsd(text: string): NanoUsd {
  const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match)
    throw new Error(
      `"${text}" is not a price: write USD as digits with at most nine decimals, such as "2.50"`,
    );
  const [, units = '0', decimals = ''] = match;
  return BigInt(units) * NANO_PER_USD + BigInt(decimals.padEnd(9, '0'));
}

/** The inverse of `nanoFromDecimalUsd`, of negative amounts too: exact, without trailing zeros (`"2.5"`). */
export function decimalUsd(nano: NanoUsd): string {
  if (nano < 0n) return `-${decimalUsd(-nano)}`;
  const decimals = String(nano % NANO_PER_USD)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return `${nano / NANO_PER_USD}${decimals && `.${decimals}`}`;
}

/** An amount in the API: whole units and nanos, both JSON numbers (the shape of google.type.Money). */
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

/** The larger of two amounts. */
export function dearer(a: NanoUsd, b: NanoUsd): NanoUsd {
  return a > b ? a : b;
}

/** Divides and rounds half up, towards +∞. The numerator may be negative, for corrections. */
export function divideHalfUp(numerator: bigint, denominator: bigint): bigint {
  if (numerator >= 0n && numerator <= MAX_EXACT && denominator <= MAX_EXACT) {
    return divideExact(Number(numerator), Number(denominator));
  }
  const doubled = 2n * numerator + denominator;
  const quotient = doubled / (2n * denominator);
  const exact = doubled % (2n * denominator) === 0n;
  return doubled < 0n && !exact ? quotient - 1n : quotient;
}

const MAX_EXACT = BigInt(Number.MAX_SAFE_INTEGER);

/** Of integers that a number holds exactly, every step is exact: a fifth of the time, since each step with a bigint allocates. */
function divideExact(numerator: number, denominator: number): bigint {
  const rest = numerator % denominator;
  return BigInt((numerator - rest) / denominator + (2 * rest >= denominator ? 1 : 0));
}
