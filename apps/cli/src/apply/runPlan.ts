import type { Json } from './desiredState.ts';
import { type Change, idOf } from './plan.ts';

/** Calls the service; rejects where it refuses. */
export type Send = (method: string, path: string, body?: unknown) => Promise<Json>;

/** Makes the changes, one call after the other, and tells each that is done. Ids that are new are filled in on the way. */
export async function runPlan(
  changes: readonly Change[],
  send: Send,
  onDone: (change: Change) => void,
): Promise<void> {
  const ids = new Map<string, string>();
  for (const change of changes) {
    for (const { method, path, body } of change.calls) {
      const filled = [...ids].reduce((text, [place, id]) => text.replace(place, id), path);
      const answer = await send(method, filled, withIds(body, ids));
      if (typeof answer.id === 'string') ids.set(idOf(change.kind, change.name), answer.id);
    }
    onDone(change);
  }
}

function withIds(value: unknown, ids: ReadonlyMap<string, string>): unknown {
  if (typeof value === 'string') return ids.get(value) ?? value;
  if (Array.isArray(value)) return value.map((item) => withIds(item, ids));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withIds(inner, ids)]));
}
