import { type Change, idOf } from './changes.ts';
import type { Json } from './desiredState.ts';

/** Calls the service; rejects if it refuses. */
export type Send = (method: string, path: string, body?: unknown) => Promise<Json>;

/** A name may contain anything, also a slash; it is followed by the end of the path or by another segment. */
const PLACEHOLDER = /\{\w+:.*\}(?=\/|$)/;

/**
 * Makes the changes, one call after the other, and fills in the ids of new resources. `deliver` gets the secret of a key as soon as
 * it is issued; `onDone` follows each change.
 */
export async function runPlan(
  changes: readonly Change[],
  send: Send,
  onDone: (change: Change) => void,
  deliver: (secret: string, to: NonNullable<Change['secret']>) => Promise<void> = async () => {},
): Promise<void> {
  const ids = new Map<string, string>();
  for (const change of changes) {
    for (const { method, path, body } of change.calls) {
      const filled = path.replace(PLACEHOLDER, (placeholder) => ids.get(placeholder) ?? placeholder);
      const created = await send(method, filled, withIds(body, ids));
      if (typeof created.id === 'string') ids.set(idOf(change.kind, change.name), created.id);
      if (change.secret && typeof created.key === 'string') await deliver(created.key, change.secret);
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
