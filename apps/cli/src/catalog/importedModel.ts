import { moneyFromDecimal } from '../apply/values.ts';

/** A model of another project's list, in the fields of our catalog. */
export interface ImportedModel {
  /** `<provider>/<model>` */
  readonly model: string;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: readonly string[];
  readonly deprecated_at?: string;
  readonly price: ImportedPrice;
}

type ImportedTier = ImportedRates & { readonly above_input_tokens: number };

export type ImportedPrice = ImportedRates & {
  readonly tiers: readonly ImportedTier[];
  /** An absent condition is the one that the list price covers. */
  readonly variants?: readonly (ImportedRates & {
    readonly service_tier?: string;
    readonly speed?: string;
    readonly geography?: string;
    readonly tiers?: readonly ImportedTier[];
  })[];
  /** Per use, by tool. */
  readonly tool_prices?: Readonly<Record<string, Money>>;
};

type Money = ReturnType<typeof moneyFromDecimal>;

export interface ImportedRates {
  readonly input_price: Money;
  readonly output_price: Money;
  readonly cache_read_price?: Money;
  readonly cache_write_price?: Money;
  readonly cache_write_1h_price?: Money;
  readonly input_audio_price?: Money;
  readonly input_image_price?: Money;
  readonly cache_read_audio_price?: Money;
  readonly output_audio_price?: Money;
  readonly output_image_price?: Money;
}

const NANOS = 1_000_000_000n;

/** The models that can be imported, and the names of the others by reason. */
export interface ImportResult {
  readonly models: readonly ImportedModel[];
  readonly skipped: Readonly<Record<string, readonly string[]>>;
}

/** A model that can't be imported; the message is the reason. */
export class UnsupportedModelError extends Error {
  override readonly name = 'UnsupportedModelError';
}

/** Reads each entry; one that can't be imported is reported and skipped. */
export function importEntries<T>(
  entries: readonly (readonly [name: string, entry: T])[],
  read: (name: string, entry: T) => ImportedModel | undefined,
): ImportResult {
  const models = new Map<string, ImportedModel>();
  const skipped: Record<string, string[]> = {};
  const skip = (reason: string, name: string) => {
    skipped[reason] = [...(skipped[reason] ?? []), name];
  };
  for (const [name, entry] of entries) {
    try {
      const model = read(name, entry);
      if (!model) continue;
      if (models.has(model.model)) skip('listed more than once', name);
      else models.set(model.model, model);
    } catch (error) {
      if (!(error instanceof UnsupportedModelError)) throw error;
      skip(error.message, name);
    }
  }
  const byId = [...models.values()].sort((one, other) => (one.model < other.model ? -1 : 1));
  return { models: byId, skipped };
}

/**
 * A JSON number of dollars, times ten to the power of `shift`. It moves the decimal point in the written digits, since a
 * multiplication of floats is not exact. Throws if the amount is finer than a nano-dollar.
 */
export function money(dollars: unknown, shift: number): Money | undefined {
  if (dollars === undefined || dollars === null) return undefined;
  if (typeof dollars !== 'number' || !Number.isFinite(dollars))
    throw new UnsupportedModelError('a price is not a number');
  if (dollars < 0) throw new UnsupportedModelError('a price is negative');
  const [, units = '', fraction = '', exponent = '0'] =
    /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(dollars)) ?? [];
  const point = units.length + Number(exponent) + shift;
  const digits = `${units}${fraction}`;
  const padded = point > 0 ? digits.padEnd(point, '0') : digits.padStart(digits.length - point + 1, '0');
  const at = Math.max(point, 1);
  const whole = padded.slice(0, at).replace(/^0+(?=\d)/, '');
  const rest = padded.slice(at).replace(/0+$/, '');
  try {
    return moneyFromDecimal(rest === '' ? whole : `${whole}.${rest}`);
  } catch {
    throw new UnsupportedModelError('a price is too fine or too large to be stored');
  }
}

/** An amount times some factors, rounded up to a nano-dollar: a price never becomes lower than the vendor's. */
export function multiply({ units, nanos }: Money, factors: readonly number[]): Money {
  let [numerator, denominator] = [BigInt(units) * NANOS + BigInt(nanos), 1n];
  for (const factor of factors) {
    const { units: whole, nanos: fraction } = money(factor, 0) ?? { units: 1, nanos: 0 };
    numerator *= BigInt(whole) * NANOS + BigInt(fraction);
    denominator *= NANOS;
  }
  const product = (numerator + denominator - 1n) / denominator;
  return { currency_code: 'USD', units: Number(product / NANOS), nanos: Number(product % NANOS) };
}

/** Drops undefined fields: to the service, an absent field is not null. */
export function withoutUndefined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}

export function count(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined;
}

/** A price of zero may mean free, or that it is unknown: it is never imported. */
export function assertPriced(input: Money | undefined, output: Money | undefined): asserts input is Money {
  if (!input || !output) throw new UnsupportedModelError('no price');
  if (isZero(input) && isZero(output))
    throw new UnsupportedModelError('a price of zero, which may mean unknown');
}

function isZero({ units, nanos }: Money): boolean {
  return units === 0 && nanos === 0;
}
