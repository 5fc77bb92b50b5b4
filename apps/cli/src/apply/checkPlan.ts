import { setTimeout } from 'node:timers/promises';
import { ApiError } from '@weighbridge/client';
import { type Change, idOf } from './changes.ts';
import {
  type ApplyFile,
  ApplyFileError,
  type DesiredResource,
  identityOf,
  placeOf,
  type Section,
} from './desiredState.ts';
import { isTaken } from './lostUpdates.ts';
import type { Send } from './runPlan.ts';
import { teamOfMember } from './teamChanges.ts';

/** As the operation says. */
const MAX_CALLS = 20_000;
const RETRY_MS = 500;
const MAX_TRIES = 120;

interface PlannedCall {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly creates?: string;
}

/**
 * Asks the service whether all changes would succeed, in their order, before the first is made. Returns why not: one line for
 * each change that the service would refuse, with its place in the files.
 */
export async function checkPlan(changes: readonly Change[], file: ApplyFile, send: Send): Promise<string[]> {
  if (changes.length === 0) return [];
  const { calls, changeOf } = plannedCalls(changes);
  if (calls.length > MAX_CALLS) {
    throw new ApplyFileError(
      `Nothing was changed. The files need ${calls.length} calls, and the service checks at most ${MAX_CALLS} at once: apply them in parts, what others refer to first.`,
    );
  }
  const { errors } = (await inTurn(() => send('POST', '/api/v1/plans/check', { calls })).catch(
    (error: unknown) => {
      // A service of an earlier release checks each change only when it is made.
      if (error instanceof ApiError && error.status === 404) return { errors: [] };
      throw error;
    },
  )) as { errors: readonly { index: number; code: string; message: string }[] };
  return errors.map(({ index, code, message }) => {
    const change = changeOf[index];
    const what = change ? `${change.kind} ${change.name}` : `call ${index}`;
    const desired = change && desiredOf(change, file);
    const place = desired ? `${placeOf(desired)}: ` : '';
    const action = change && change.action !== 'create' ? ` can't be ${change.action}d` : '';
    const again =
      change?.action === 'create' && isTaken(code)
        ? ' Someone may have made it just now: run apply again.'
        : '';
    return `${place}${what}${action}: ${message} (${code})${again}`;
  });
}

/** The service checks one plan at a time: another run of apply may be before this one. */
async function inTurn<T>(check: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await check();
    } catch (error) {
      const isRunning = error instanceof ApiError && error.code === 'check_running';
      if (!isRunning || tries === MAX_TRIES) throw error;
      await setTimeout(RETRY_MS);
    }
  }
}

/** The calls, with short placeholders: a name may contain anything, a path may not. */
function plannedCalls(changes: readonly Change[]): { calls: PlannedCall[]; changeOf: Change[] } {
  const short = new Map<string, string>();
  for (const change of changes) {
    if (change.action === 'create') short.set(idOf(change.kind, change.name), `{${short.size}}`);
  }
  const calls: PlannedCall[] = [];
  const changeOf: Change[] = [];
  for (const change of changes) {
    const placeholder = change.action === 'create' ? short.get(idOf(change.kind, change.name)) : undefined;
    for (const { method, path, body } of change.calls) {
      calls.push({
        method,
        path: path.replace(/\{\w+:.*\}(?=\/|$)/, (one) => short.get(one) ?? one),
        ...(body !== undefined && { body: withShort(body, short) }),
        ...(placeholder !== undefined && method === 'POST' && { creates: placeholder }),
      });
      changeOf.push(change);
    }
  }
  return { calls, changeOf };
}

function withShort(value: unknown, short: ReadonlyMap<string, string>): unknown {
  if (typeof value === 'string') return short.get(value) ?? value;
  if (Array.isArray(value)) return value.map((item) => withShort(item, short));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withShort(inner, short)]));
}

/** The resource of the files that a change is for; a price is in its connector. */
function desiredOf({ kind, name }: Change, file: ApplyFile): DesiredResource | undefined {
  if (kind === 'prices')
    return file.connectors.find(({ fields }) => name.startsWith(`${String(fields.name)} `));
  if (kind === 'members') return teamOfMember(file, name);
  const section = kind as Section;
  return file[section]?.find(({ fields }) => identityOf(section, fields) === name);
}
