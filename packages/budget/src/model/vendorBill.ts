import type { Counter, Holder } from './leaseLedger.ts';

/** By policy, window and customer, whatever the counter's version: a new counter doesn't allow the same window to be spent again. */
export function windowKey({
  policy,
  window,
  customer = '',
}: Pick<Counter, 'policy' | 'window'> & { readonly customer?: string | undefined }): string {
  return `${policy}|${window}|${customer}`;
}

export function leaseKey(of: Counter, holder: Holder): string {
  return `${of.key}/${holder.proxy}/${holder.epoch}`;
}

/** What the vendor charges, against what the limits allow. */
export class VendorBill {
  readonly #mode: 'hard' | 'balanced';
  readonly #fail: (what: string) => never;
  readonly #charged = new Map<string, number>();
  readonly #allowed = new Map<string, number>();
  /** By lease: the most that its requests in flight exceeded their reservations by, at one time. */
  readonly #overage = new Map<string, number>();
  /** The sums of `#overage` by policy and window. */
  readonly #overages = new Map<string, number>();

  constructor(mode: 'hard' | 'balanced', fail: (what: string) => never) {
    this.#mode = mode;
    this.#fail = fail;
  }

  charge(of: Counter, cost: number): void {
    const key = windowKey(of);
    this.#charged.set(key, (this.#charged.get(key) ?? 0) + cost);
  }

  /** What the vendor charges for a counter's window. */
  chargedTo(of: Parameters<typeof windowKey>[0]): number {
    return this.#charged.get(windowKey(of)) ?? 0;
  }

  /** Notes by how much a lease's requests now in flight exceed their reservations. */
  noteOverage(of: Counter, holder: Holder, overage: number): void {
    const lease = leaseKey(of, holder);
    const before = this.#overage.get(lease) ?? 0;
    if (overage <= before) return;
    this.#overage.set(lease, overage);
    const key = windowKey(of);
    this.#overages.set(key, (this.#overages.get(key) ?? 0) + overage - before);
  }

  isOpen(of: Counter): boolean {
    return this.#allowed.has(windowKey(of));
  }

  allow(of: Counter, amount: number): void {
    this.#allowed.set(windowKey(of), amount);
  }

  check(of: Counter): void {
    const key = windowKey(of);
    const charged = this.#charged.get(key) ?? 0;
    const allowed = this.#allowed.get(key) ?? 0;
    const overage = this.#mode === 'hard' ? 0 : (this.#overages.get(key) ?? 0);
    if (charged > allowed + overage) {
      this.#fail(`overspend in ${key}: bill ${charged} > ${allowed} + in-flight overage ${overage}`);
    }
  }
}
