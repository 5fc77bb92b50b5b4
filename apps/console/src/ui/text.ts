/** Characters that would change how the text around them reads: controls, and marks of direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Someone else's text with what can't be seen in it made visible, so that no name looks like another. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
  });
}

const WHOLE = new Intl.NumberFormat('en-US');

export function count(value: number): string {
  return WHOLE.format(value);
}

/** USD, exact to the micro-dollar: at least cents, and no digit that isn't zero left out. */
export function money(microUsd: number): string {
  const [whole = '0', fraction = ''] = (Math.abs(microUsd) / 1_000_000).toFixed(6).split('.');
  const digits = fraction.replace(/0+$/, '').padEnd(2, '0');
  return `${microUsd < 0 ? '−' : ''}$${WHOLE.format(Number(whole))}.${digits}`;
}

/** USD, exact, with six decimals, so that the amounts of a column align. */
export function alignedMoney(microUsd: number): string {
  const [whole, fraction = ''] = money(microUsd).split('.');
  return `${whole}.${fraction.padEnd(6, '0')}`;
}

/** USD, exact to the nano-dollar, of an amount as the API writes it. */
export function nanoMoney(nanoUsd: string): string {
  const micro = money(Number(nanoUsd.slice(0, -3)));
  const rest = nanoUsd.slice(-3).padStart(3, '0').replace(/0+$/, '');
  if (rest === '') return micro;
  const [whole, fraction = ''] = micro.split('.');
  return `${whole}.${fraction.padEnd(6, '0')}${rest}`;
}

/** USD rounded to what an axis or a glance needs. */
export function roughMoney(microUsd: number): string {
  const usd = microUsd / 1_000_000;
  return ROUGH_USD.format(usd);
}

const ROUGH_USD = new Intl.NumberFormat('en-US', {
  style: 'currency',
  currency: 'USD',
  notation: 'compact',
  maximumSignificantDigits: 3,
});
const ROUGH = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });

export function roughCount(value: number): string {
  return ROUGH.format(value);
}

export function percent(part: number, whole: number): string {
  return whole === 0 ? '–' : `${((100 * part) / whole).toFixed(1)}%`;
}

/** A duration as people say it, such as `3 d` or `45 min`. */
export function span(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  if (minutes < 120) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h`;
  return `${Math.round(minutes / 1_440)} d`;
}

/** A duration, exact where it is short, such as `84 ms`, `1.52 s` or `5 h`. */
export function milliseconds(ms: number): string {
  if (ms >= 60_000) return span(ms);
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(2)} s`;
  return `${ms > 0 && ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** A duration that is mostly below a millisecond, such as `0.21 ms`. */
export function fineMilliseconds(ms: number): string {
  return ms < 1 ? `${ms.toFixed(2)} ms` : milliseconds(ms);
}

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB'];

export function bytes(value: number): string {
  const power = Math.min(Math.floor(Math.log10(Math.max(value, 1)) / 3), UNITS.length - 1);
  return `${(value / 1_000 ** power).toFixed(power === 0 ? 0 : 1)} ${UNITS[power]}`;
}
