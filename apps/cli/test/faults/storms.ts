import { Outages } from './outages.ts';
import type { Random } from './random.ts';

/** How a vendor fails for a while: headers that the mock vendor obeys, for a share of the requests. */
interface Storm {
  readonly what: string;
  readonly headers: (random: Random) => Readonly<Record<string, string>>;
}

const STORMS: readonly Storm[] = [
  {
    what: 'answers 5xx',
    headers: (random) => ({ 'x-mock-status': random.pick(['500', '502', '503', '529']) }),
  },
  { what: 'answers 429', headers: () => ({ 'x-mock-status': '429' }) },
  { what: 'times out', headers: () => ({ 'x-mock-stall': 'mid' }) },
  {
    what: 'cuts answers',
    headers: (random) => ({ 'x-mock-reset': random.pick(['before', 'headers', 'mid']) }),
  },
  { what: 'is slow', headers: (random) => ({ 'x-mock-delay-ms': String(500 + random.integer(4_000)) }) },
];

/** Requests with these were failed by the vendor. */
const FAILURES = ['x-mock-status', 'x-mock-stall', 'x-mock-reset'];

export function isFailedByVendor(headers: Readonly<Record<string, string>>): boolean {
  return FAILURES.some((name) => headers[name] !== undefined);
}

/** The vendor's weather: calm, but for what `rage` brings. */
export class Weather {
  readonly outages = new Outages();
  #storm: Storm | undefined;
  #share = 0;

  /** Of the next request. */
  headers(random: Random): Readonly<Record<string, string>> {
    return this.#storm && random.chance(this.#share) ? this.#storm.headers(random) : {};
  }

  /** A storm of this long. */
  async rage(random: Random, pause: (atMostMs: number) => Promise<void>): Promise<string> {
    this.#storm = random.pick(STORMS);
    this.#share = random.pick([0.1, 0.5, 1]);
    const { what } = this.#storm;
    this.outages.note(true);
    await pause(MOST_STORM_MS);
    this.#storm = undefined;
    this.outages.note(false);
    return `the vendor ${what}, ${this.#share * 100}% of requests`;
  }
}

const MOST_STORM_MS = 10_000;
