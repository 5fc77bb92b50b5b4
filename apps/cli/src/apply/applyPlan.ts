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
import type { Applied, PlanError, PlannedCall, SendPlan } from './sendPlan.ts';
import { teamOfMember } from './teamChanges.ts';

/** As the operation says. */
const MAX_CALLS = 20_000;

/** Has the service make all changes and undo them. Throws an ApplyFileError with each one that it would refuse. */
export async function checkChanges(
  send: SendPlan,
  changes: readonly Change[],
  file?: ApplyFile,
): Promise<void> {
  if (changes.length > 0) await apply(send, plannedCalls(changes), { isDryRun: true, file });
}

/**
 * Has the service make all changes, or none: then it throws as `checkChanges`. `deliver` gets the secrets of the keys that were
 * issued, which are enabled afterwards: a secret that is lost on the way belongs to a key that no one can use.
 */
export async function makeChanges(
  send: SendPlan,
  changes: readonly Change[],
  deliver: (secret: string, to: NonNullable<Change['secret']>) => Promise<void>,
  file?: ApplyFile,
): Promise<void> {
  if (changes.length === 0) return;
  const all = plannedCalls(changes);
  const results = await apply(
    send,
    all.filter(({ isLast }) => !isLast),
    { isDryRun: false, file },
  );
  const failures: Error[] = [];
  const delivered = new Map<Change, string>();
  for (const { change, result } of results) {
    if (!change.secret || result?.key === undefined) continue;
    try {
      await deliver(result.key, change.secret);
      if (result.id !== undefined) delivered.set(change, result.id);
    } catch (error) {
      failures.push(error as Error);
    }
  }
  const last = all.flatMap((planned) => {
    const id = planned.isLast ? delivered.get(planned.change) : undefined;
    const path = planned.call.path.replace(/\{\d+\}/, id ?? '');
    return id === undefined ? [] : [{ ...planned, call: { ...planned.call, path } }];
  });
  if (last.length > 0) await apply(send, last, { isDryRun: false, file });
  const [first, ...others] = failures;
  if (first) throw others.length === 0 ? first : new Error(failures.map((one) => one.message).join('\n'));
}

interface Planned {
  readonly call: PlannedCall;
  readonly change: Change;
  /** After the secret of the change was delivered. */
  readonly isLast: boolean;
}

/** The calls, with short placeholders: a name may contain anything, a path may not. */
function plannedCalls(changes: readonly Change[]): Planned[] {
  const short = new Map<string, string>();
  for (const change of changes) {
    if (change.action === 'create') short.set(idOf(change.kind, change.name), `{${short.size}}`);
  }
  return changes.flatMap((change) => {
    const placeholder = change.action === 'create' ? short.get(idOf(change.kind, change.name)) : undefined;
    return change.calls.map(({ method, path, body, expects, isLast = false }) => ({
      change,
      isLast,
      call: {
        method,
        path: path.replace(/\{\w+:.*\}(?=\/|$)/, (one) => short.get(one) ?? one),
        ...(body !== undefined && { body: withShort(body, short) }),
        ...(expects !== undefined && { expects }),
        ...(placeholder !== undefined && method === 'POST' && { creates: placeholder }),
      },
    }));
  });
}

function withShort(value: unknown, short: ReadonlyMap<string, string>): unknown {
  if (typeof value === 'string') return short.get(value) ?? value;
  if (Array.isArray(value)) return value.map((item) => withShort(item, short));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withShort(inner, short)]));
}

/** What the calls resulted in. Throws an ApplyFileError with a line for each refused change, with its place in the files. */
async function apply(
  send: SendPlan,
  planned: readonly Planned[],
  { isDryRun, file }: { readonly isDryRun: boolean; readonly file: ApplyFile | undefined },
): Promise<{ readonly change: Change; readonly result: Applied['results'][number] | undefined }[]> {
  if (planned.length > MAX_CALLS) {
    throw new ApplyFileError(
      `Nothing was changed. The files need ${planned.length} calls, and the service takes at most ${MAX_CALLS} at once: apply them in parts, what others refer to first.`,
    );
  }
  const plan = { calls: planned.map(({ call }) => call), dry_run: isDryRun };
  const refuse = (errors: readonly PlanError[]): never => {
    throw new ApplyFileError(
      [
        'Nothing was changed.',
        ...errors.map((error) => reasonOf(error, planned[error.index]?.change, file)),
      ].join('\n'),
    );
  };
  try {
    const { errors, results } = await send(plan);
    if (errors.length > 0) refuse(errors);
    return planned.map(({ change }, index) => ({ change, result: results[index] }));
  } catch (error) {
    const errors = error instanceof ApiError ? error.details.errors : undefined;
    if (Array.isArray(errors)) return refuse(errors as PlanError[]);
    throw error;
  }
}

function reasonOf(
  { index, status, code, message }: PlanError,
  change: Change | undefined,
  file: ApplyFile | undefined,
): string {
  if (!change) return `call ${index}: ${message} (${code})`;
  const desired = file && desiredOf(change, file);
  const place = desired ? `${placeOf(desired)}: ` : '';
  const action = change.action === 'create' ? '' : ` can't be ${change.action}d`;
  const what = `${place}${change.kind} ${change.name}${action}`;
  if (status === 412)
    return `${what}: Someone else ${change.action === 'create' ? 'made' : 'changed'} it since the plan was made. Run apply again. (${message})`;
  const again =
    change.action === 'create' && isTaken(code) ? ' Someone may have made it just now: run apply again.' : '';
  return `${what}: ${message} (${code})${again}`;
}

/** Whether an error says that there is a resource of this name. */
function isTaken(code: string): boolean {
  return /_(name_taken|exists)$/.test(code);
}

/** The resource of the files that a change is for; a price is in its connector. */
function desiredOf({ kind, name }: Change, file: ApplyFile): DesiredResource | undefined {
  if (kind === 'prices')
    return file.connectors.find(({ fields }) => name.startsWith(`${String(fields.name)} `));
  if (kind === 'members') return teamOfMember(file, name);
  const section = kind as Section;
  return file[section]?.find(({ fields }) => identityOf(section, fields) === name);
}
