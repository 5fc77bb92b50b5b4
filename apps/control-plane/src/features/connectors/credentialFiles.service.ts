import { createHash } from 'node:crypto';
import type { Logger, ServiceContext } from '@weighbridge/runtime';
import { repeat } from '../../shared/repeat.ts';
import { recordChange } from '../changes/changes.service.ts';
import { findEnabledConnectors } from './connectors.repository.ts';
import type { ConnectorDeps } from './connectors.service.ts';

const CHECK_INTERVAL_MS = 30_000;

/** The hash of each credential file, by connector id; undefined for a file without a credential. */
type FileHashes = ReadonlyMap<string, string | undefined>;

/** Checks the files of credentials periodically: a mounted secret can be replaced at any time. */
export function watchCredentialFiles(
  deps: ConnectorDeps & { readonly now: () => Date; readonly logger: Logger },
  context: Pick<ServiceContext, 'onShutdown'>,
): void {
  let hashes: FileHashes | undefined;
  const run = async (): Promise<void> => {
    hashes = await recordChangedFiles(deps, hashes);
  };
  const task = {
    name: 'credential files',
    everyMs: CHECK_INTERVAL_MS,
    run,
    onFailure: 'failed to check credential files; trying again',
  };
  repeat(task, deps.logger, context);
}

/** Records a change of each connector whose credential file differs from `before`, so that proxies get the new one. */
export async function recordChangedFiles(
  { db, credentials, now }: ConnectorDeps & { readonly now: () => Date },
  before: FileHashes | undefined,
): Promise<FileHashes> {
  const rows = (await findEnabledConnectors(db)).filter((row) => row.credential_ref?.startsWith('file:'));
  const hashes = new Map<string, string | undefined>();
  for (const { id, credential_ref: ref } of rows) {
    if (ref === null) continue;
    const credential = await credentials.read(ref);
    const hash = 'value' in credential ? sha256(`${ref}\0${credential.value}`) : undefined;
    hashes.set(id, hash);
    if (!before?.has(id) || before.get(id) === hash) continue;
    const actor = { principalId: 'environment', identity: null };
    await db.transaction().execute(async (tx) => {
      const action = 'connector.credential_changed';
      await recordChange(tx, { actor, action, resourceId: id, detail: { credential_ref: ref }, at: now() });
    });
  }
  return hashes;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
