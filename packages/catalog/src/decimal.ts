/** Decimals of a price: a nano-USD is the smallest amount that the service counts. */
const DECIMALS = 9;
const SCALE = 10n ** BigInt(DECIMALS);

/** An exact fraction. */
interface Fraction {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** `2.5`, `1e-7` or `5/3`. Throws if the text is none of these, or negative. */
function parseFraction(text: string): Fraction {
  const [, above, below] = /^(\d+(?:\.\d+)?(?:e-?\d+)?)(?:\/(\d+(?:\.\d+)?))?$/i.exec(text) ?? [];
  if (above === undefined) throw new Error(`${text} is not a decimal or a fraction of decimals`);
  const [one, other] = [parseDecimal(above), parseDecimal(below ?? '1')];
  if (other.numerator === 0n) throw new Error(`${text} divides by zero`);
  return {
    numerator: one.numerator * other.denominator,
    denominator: one.denominator * other.numerator,
  };
}

function parseDecimal(text: string): Fraction {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const power = Number(exponent) - fraction.length;
  const digits = BigInt(whole + fraction);
  return power >= 0
    ? { numerator: digits * 10n ** BigInt(power), denominator: 1n }
    : { numerator: digits, denominator: 10n ** BigInt(-power) };
}

/**
 * A price times a factor, as a decimal. Where nano-USD can't hold the product it is rounded up, so that a price never
 * becomes lower than the vendor's.
 */
export function times(price: string, factor: string): string {
  const [a, b] = [parseFraction(price), parseFraction(factor)];
  const denominator = a.denominator * b.denominator;
  const nanos = (a.numerator * b.numerator * SCALE + denominator - 1n) / denominator;
  const fraction = String(nanos % SCALE)
    .padStart(DECIMALS, '0')
    .replace(/0+$/, '');
  return fraction === '' ? String(nanos / SCALE) : `${nanos / SCALE}.${fraction}`;
}

/** A price of the package, which has JavaScript's numbers, as a decimal. */
export function decimalOf(price: number): string {
  return times(String(price), '1');
}

export function compare(a: string, b: string): number {
  const [one, other] = [parseFraction(a), parseFraction(b)];
  const difference = one.numerator * other.denominator - other.numerator * one.denominator;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

export function dearest(a: string | undefined, b: string): string {
  return a === undefined || compare(a, b) < 0 ? b : a;
}
