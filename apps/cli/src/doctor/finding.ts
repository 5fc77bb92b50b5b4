/** `skipped` is what could not be looked at with what the command was given; it says what that takes. */
export type Level = 'ok' | 'warn' | 'fail' | 'skipped';

/** What a check found, in words, and what to do where something is to be done. */
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

const WARN_APART_MS = 3_000;
/** A key's expiry and a window's edges are judged by the service's clocks. */
const MAX_APART_MS = 30_000;

/** Compares a clock elsewhere, read between two looks at the one here. */
export function clockFinding(check: string, there: Date, before: Date, after: Date): Finding {
  const apartMs =
    there < before ? before.getTime() - there.getTime() : Math.max(0, there.getTime() - after.getTime());
  const seconds = Math.round(apartMs / 1_000);
  if (apartMs <= WARN_APART_MS) return ok(check, 'the same as here');
  const detail = `${seconds} s ${there < before ? 'behind' : 'ahead of'} the one here`;
  const advice = 'Let all machines follow one time server (chrony, systemd-timesyncd), this one too.';
  return apartMs <= MAX_APART_MS ? warn(check, detail, advice) : fail(check, detail, advice);
}

/** What a failure says, without a secret that an address may hold. */
export function why(error: unknown): string {
  const texts: string[] = [];
  for (let at: unknown = error; at instanceof Error && texts.length < 4; at = at.cause) {
    const { message } = at;
    const text = message || (at instanceof AggregateError ? at.errors.map(String).join('; ') : '');
    if (text && !texts.some((said) => said.includes(text))) texts.push(text);
  }
  return (texts.join(': ') || String(error)).replace(/:\/\/[^/\s@]*@/g, '://');
}
