/** `skipped`: not checked, because a setting or scope is missing; the detail names it. */
export type Level = 'ok' | 'warn' | 'fail' | 'skipped';

/** The result of a check in words, with advice if something is to be done. */
export interface Finding {
  readonly check: string;
  readonly level: Level;
  readonly detail: string;
  readonly advice?: string;
}

export const ok = (check: string, detail: string): Finding => ({ check, level: 'ok', detail });

export const skipped = (check: string, detail: string): Finding => ({ check, level: 'skipped', detail });

export const warn = (check: string, detail: string, advice: string): Finding => ({
  check,
  level: 'warn',
  detail,
  advice,
});

export const fail = (check: string, detail: string, advice: string): Finding => ({
  check,
  level: 'fail',
  detail,
  advice,
});

const WARN_SKEW_MS = 3_000;
/** The service's clocks decide when a key expires and a window ends. */
const MAX_SKEW_MS = 30_000;

/** Compares a remote clock with the local one, which was read before and after it. */
export function clockFinding(check: string, there: Date, before: Date, after: Date): Finding {
  const skewMs =
    there < before ? before.getTime() - there.getTime() : Math.max(0, there.getTime() - after.getTime());
  const seconds = Math.round(skewMs / 1_000);
  if (skewMs <= WARN_SKEW_MS) return ok(check, 'agrees with the local clock');
  const detail = `${seconds} s ${there < before ? 'behind' : 'ahead of'} the local clock`;
  const advice = 'Synchronize the clocks of all machines, also of this one (chrony, systemd-timesyncd).';
  return skewMs <= MAX_SKEW_MS ? warn(check, detail, advice) : fail(check, detail, advice);
}

/** The message of an error and its causes, without the credentials in an address. */
export function why(error: unknown): string {
  const texts: string[] = [];
  for (let at: unknown = error; at instanceof Error && texts.length < 4; at = at.cause) {
    const { message } = at;
    const text = message || (at instanceof AggregateError ? at.errors.map(String).join('; ') : '');
    if (text && !texts.some((earlier) => earlier.includes(text))) texts.push(text);
  }
  return (texts.join(': ') || String(error)).replace(/:\/\/[^/\s@]*@/g, '://');
}
