import { type Change, type CurrentState, changeOf, idOf, stateOfKey } from './changes.ts';
import { listAll, type Read } from './currentState.ts';
import { type ApplyFile, ApplyFileError, type DesiredResource, type Json, placeOf } from './desiredState.ts';
import { type Held, heldAt, targetOf } from './secretFiles.ts';

/** How keys are issued. */
export interface KeyOptions {
  /** Whose keys the files have: keys that others made are neither changed nor revoked. */
  readonly owner: string;
  /** What is at the secret files, by path. */
  readonly held: ReadonlyMap<string, Held>;
  /** The hints of revoked keys of the owner, by name: the secret of a key that is issued again replaces theirs. */
  readonly revoked: ReadonlyMap<string, readonly string[]>;
  /** The keys that get a new secret. */
  readonly rotate: readonly string[];
  readonly graceSeconds: number;
}

/** What a key has for ever. */
const FIXED = ['principal_id', 'kind', 'scopes'] as const;

/** Reads what is at the secret files. Throws an ApplyFileError if a secret can't be kept at one of them. */
export async function readSecretFiles({ keys }: ApplyFile): Promise<ReadonlyMap<string, Held>> {
  const errors: string[] = [];
  const held = new Map<string, Held>();
  const users = new Map<string, string>();
  for (const desired of keys) {
    const at = `${placeOf(desired)}: secret_file:`;
    try {
      const target = targetOf(desired.fields);
      if (!target) continue;
      const other = users.get(target.path);
      if (other !== undefined) errors.push(`${at} the key ${other} has the same file`);
      users.set(target.path, nameOf(desired));
      held.set(target.path, await heldAt(target));
    } catch (error) {
      errors.push(`${at} ${(error as Error).message}`);
    }
  }
  if (errors.length > 0) throw new ApplyFileError(errors.join('\n'));
  return held;
}

/** Reads which secrets at the files are of keys that were revoked. */
export async function readRevoked(
  read: Read,
  file: ApplyFile,
  { keys }: CurrentState,
  { owner, held }: Pick<KeyOptions, 'owner' | 'held'>,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const revoked = new Map<string, readonly string[]>();
  for (const desired of file.keys) {
    const name = nameOf(desired);
    if (typeof heldOf(desired, held) === 'string' || keys.some((key) => key.name === name)) continue;
    const query = new URLSearchParams({ revoked: 'true', managed_by: owner, name_contains: name });
    const listed = await listAll(read, `/api/v1/keys?${query}`);
    revoked.set(
      name,
      listed.filter((key) => key.name === name).map(({ key_hint }) => String(key_hint)),
    );
  }
  return revoked;
}

/**
 * Issues a missing key, changes one that is there, or gives it a new secret. A key is issued disabled, and enabled when its secret
 * is in its file: an interrupted run leaves a key that no one can use, and the next run replaces it.
 */
export function keyChange(
  desired: DesiredResource,
  found: Json | undefined,
  policyId: string | undefined,
  options: KeyOptions,
  addError: (desired: DesiredResource, message: string) => void,
): Change[] {
  const { secret_file, kubernetes_secret: _, policy: __, ...fields } = desired.fields;
  const name = nameOf(desired);
  const target = targetOf(desired.fields);
  const held = heldOf(desired, options.held);
  const hints = [...(found ? [String(found.key_hint)] : []), ...(options.revoked.get(name) ?? [])];
  const isWritable = held === 'nothing' || (typeof held === 'object' && hints.includes(held.hint));
  const replaces = typeof held === 'object' ? held.hint : undefined;
  const wanted: Json = { ...fields, name, ...(policyId !== undefined && { policy_id: policyId }) };
  const isIssued = found && !(isUndelivered(found) && !isHint(held, found));
  const isRotated = isIssued && options.rotate.includes(name);
  if (!target && (!isIssued || isRotated))
    addError(desired, `secret_file: give the file for the secret of the key ${name}`);
  else if ((!isIssued || isRotated) && !isWritable)
    addError(desired, `secret_file: ${String(secret_file)} has no secret of this key: move it away`);
  if (!isIssued) {
    const before = `/api/v1/keys/${String(found?.id)}`;
    const body = { ...wanted, disabled: true, managed_by: options.owner };
    const [change] = changeOf('keys', name, { ...wanted, secret_file }, undefined, [
      ...(found ? [{ method: 'DELETE', path: before, expects: found } as const] : []),
      { method: 'POST', path: '/api/v1/keys', body },
      {
        method: 'PATCH',
        path: `/api/v1/keys/${idOf('keys', name)}`,
        body: { disabled: false },
        isLast: true,
      },
    ]);
    return change && target ? [{ ...change, secret: { target, replaces } }] : [];
  }
  const differing = FIXED.find(
    (field) => wanted[field] !== undefined && !isSame(wanted[field], found[field]),
  );
  if (differing)
    addError(
      desired,
      `${name}: ${differing} of a key can't be changed: revoke the key, or choose another name`,
    );
  const changeable = Object.fromEntries(
    Object.entries({ ...wanted, ...(isUndelivered(found) && { disabled: false }) }).filter(
      ([field]) => !FIXED.some((fixed) => fixed === field),
    ),
  );
  const path = `/api/v1/keys/${String(found.id)}`;
  const [update] = changeOf('keys', name, changeable, found, []);
  const body = Object.fromEntries((update?.fields ?? []).map(({ field, after }) => [field, after]));
  return [
    ...(update
      ? [{ ...update, calls: [{ method: 'PATCH', path, body, expects: stateOfKey(found) } as const] }]
      : []),
    ...(isRotated && target
      ? [
          {
            action: 'update',
            kind: 'keys',
            name,
            fields: [{ field: 'secret', before: found.key_hint, after: `new, in ${String(secret_file)}` }],
            calls: [
              {
                method: 'POST',
                path: `${path}/rotate`,
                body: { grace_seconds: options.graceSeconds },
                ...(!update && { expects: stateOfKey(found) }),
              },
            ],
            secret: { target, replaces },
          } as const,
        ]
      : []),
  ];
}

/** What the files say of secrets that are elsewhere: those are not issued again by themselves. */
export function keyNotes(file: ApplyFile, { keys }: CurrentState, options: KeyOptions): string[] {
  return file.keys.flatMap((desired) => {
    const found = keys.find(({ name }) => name === nameOf(desired));
    const held = heldOf(desired, options.held);
    if (!found || !targetOf(desired.fields) || isUndelivered(found) || isHint(held, found)) return [];
    if (options.rotate.includes(nameOf(desired))) return [];
    const path = String(desired.fields.secret_file);
    const what = held === 'nothing' ? `${path} is not here` : `${path} has no valid secret of this key`;
    return [
      `keys ${nameOf(desired)}: ${what}. A secret is issued once: --rotate ${nameOf(desired)} issues another.`,
    ];
  });
}

/** It was never enabled: its secret was not written, so no one has it. */
export function isUndelivered({ disabled, created_at, updated_at, last_used_at }: Json): boolean {
  return disabled === true && created_at === updated_at && last_used_at == null;
}

function heldOf({ fields }: DesiredResource, held: ReadonlyMap<string, Held>): Held {
  const target = targetOf(fields);
  return (target && held.get(target.path)) ?? 'nothing';
}

function isHint(held: Held, { key_hint }: Json): boolean {
  return typeof held === 'object' && held.hint === key_hint;
}

function isSame(wanted: unknown, actual: unknown): boolean {
  if (!Array.isArray(wanted) || !Array.isArray(actual)) return wanted === actual;
  return [...new Set(wanted)].sort().join() === [...new Set(actual)].sort().join();
}

function nameOf({ fields }: DesiredResource): string {
  return String(fields.name).trim();
}
