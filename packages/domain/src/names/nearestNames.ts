/** Longer names are compared by their beginning: a client may send any. */
const MAX_COMPARED = 80;
/** The most characters in which a name may differ. */
const MAX_EDITS = 3;
/** Shorter beginnings say nothing. */
const MIN_SHARED = 4;
const MAX_NAMES = 3;

/** The names that were most likely meant by `wanted`, the nearest first; at most three, and none that `isReachable` rejects. */
export function nearestNames(
  wanted: string,
  names: Iterable<string>,
  isReachable: (name: string) => boolean,
): string[] {
  const asked = partsOf(wanted.slice(0, MAX_COMPARED));
  const near: { readonly name: string; readonly distance: number }[] = [];
  for (const name of names) {
    const distance = distanceOf(asked, partsOf(name.slice(0, MAX_COMPARED)));
    if (distance !== undefined) near.push({ name, distance });
  }
  near.sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1));
  const found: string[] = [];
  for (const { name } of near) {
    if (isReachable(name)) found.push(name);
    if (found.length === MAX_NAMES) break;
  }
  return found;
}

/** A name as messages show it: a client may send any. */
export function shortened(name: string): string {
  return name.length <= 100 ? name : `${name.slice(0, 100)}…`;
}

/** As a sentence that begins with a space; empty without names. */
export function didYouMean(names: readonly string[]): string {
  return names.length === 0 ? '' : ` Did you mean ${names.join(' or ')}?`;
}

interface Parts {
  readonly whole: string;
  /** After the provider. */
  readonly model: string;
}

function partsOf(name: string): Parts {
  const whole = name.trim().toLowerCase();
  return { whole, model: whole.slice(whole.indexOf('/') + 1) };
}

/** Small for names that are alike; undefined for others. */
function distanceOf(wanted: Parts, name: Parts): number | undefined {
  if (wanted.whole === name.whole) return 0;
  // A bare name is compared with what follows the provider.
  const isBare = wanted.whole === wanted.model;
  const edits = editsBetween(wanted, isBare ? { whole: name.model, model: name.model } : name);
  // Only the provider differs: first those that differ by a slip.
  if (wanted.model === name.model && wanted.model !== '') return edits === undefined ? 1.9 : 1 + edits / 10;
  if (edits !== undefined) return 1 + edits;
  const [short, long] = [wanted.model, name.model].sort((a, b) => a.length - b.length) as [string, string];
  if (short.length < MIN_SHARED || !long.startsWith(short)) return undefined;
  // A dated release, or a family.
  return 10 + long.length - short.length;
}

/** Levenshtein's distance, up to `MAX_EDITS`: of most names, the lengths alone say that it is more. */
function editsBetween({ whole: a, model }: Parts, { whole: b, model: other }: Parts): number | undefined {
  // Two short names are alike whatever they are.
  const most = Math.min(MAX_EDITS, 1 + Math.floor(Math.min(model.length, other.length) / 4));
  if (Math.abs(a.length - b.length) > most) return undefined;
  let previous = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const edits = Math.min(replaced, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
      row.push(edits);
      if (edits < least) least = edits;
    }
    if (least > most) return undefined;
    previous = row;
  }
  const edits = previous[b.length] ?? 0;
  return edits <= most ? edits : undefined;
}
