import type { VendorLeft } from '@weighbridge/budget';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/**
 * What a vendor says is left of its own limits, in either form (https://platform.openai.com/docs/guides/rate-limits,
 * https://docs.anthropic.com/en/api/rate-limits); undefined if it says nothing.
 */
export function vendorLeftOf(headers: Headers, wallMs: number): VendorLeft | undefined {
  const requests = leftOf('requests', headers, wallMs);
  const tokens = leftOf('tokens', headers, wallMs);
  return requests || tokens ? { requests, tokens } : undefined;
}

function leftOf(unit: 'requests' | 'tokens', headers: Headers, wallMs: number): VendorLeft['requests'] {
  const left =
    headers[`x-ratelimit-remaining-${unit}`] ?? headers[`anthropic-ratelimit-${unit}-remaining`] ?? '';
  if (typeof left !== 'string' || !WHOLE.test(left)) return undefined;
  const reset = headers[`x-ratelimit-reset-${unit}`] ?? headers[`anthropic-ratelimit-${unit}-reset`];
  return { left: Number(left), resetMs: resetMsOf(String(reset ?? ''), wallMs) };
}

const WHOLE = /^\d{1,12}$/;
const SECONDS = /^\d+(\.\d+)?$/;
const DURATION = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?$/;
const UNITS_MS = [86_400_000, 3_600_000, 60_000, 1_000, 1];
/** Of a vendor that does not say: the next response may. */
const UNKNOWN_MS = 1_000;
const MAX_MS = 3_600_000;

/** A duration such as `6m0s` or `12ms`, a number of seconds, or a time in RFC 3339. */
function resetMsOf(reset: string, wallMs: number): number {
  if (reset.length === 0 || reset.length > 40) return UNKNOWN_MS;
  const parts = DURATION.exec(reset)?.slice(1);
  const ms = parts
    ? parts.reduce((sum, part = '0', at) => sum + Number(part) * (UNITS_MS[at] ?? 0), 0)
    : SECONDS.test(reset)
      ? Number(reset) * 1_000
      : Date.parse(reset) - wallMs;
  return Number.isNaN(ms) ? UNKNOWN_MS : Math.round(Math.min(MAX_MS, Math.max(0, ms)));
}
