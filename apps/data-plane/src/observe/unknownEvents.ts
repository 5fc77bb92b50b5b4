import type { Metrics } from '@weighbridge/runtime';

/** A vendor names its events as it likes: more names are counted as `other`. */
const MAX_NAMES = 64;
const NAME = /^[\w.:/ -]{1,64}$/;
const OTHER = 'other';

/** Counts what vendors send that the caller's dialect has no words for: a release of theirs may have brought it. */
export function createUnknownEvents(
  metrics: Metrics,
): (provider: string, events: ReadonlyMap<string, number>) => void {
  const family = metrics.counterFamily(
    'weighbridge_unknown_vendor_events_total',
    "Parts of translated answers that were dropped, since the caller's dialect has no words for them.",
    ['provider', 'event'],
  );
  const names = new Set<string>();
  const labelOf = (name: string): string => {
    if (names.has(name)) return name;
    if (names.size >= MAX_NAMES || !NAME.test(name)) return OTHER;
    names.add(name);
    return name;
  };
  return (provider, events) => {
    for (const [name, count] of events) family.of(provider, labelOf(name)).add(count);
  };
}
