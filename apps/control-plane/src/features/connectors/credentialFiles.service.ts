import { createHash } from 'node:crypto';
import type { Logger, ServiceContext } from '@weighbridge/runtime';
import { recordChange } from '../changes/changes.service.ts';
import { findEnabledConnectors } from './connectors.repository.ts';
import type { ConnectorDeps } from './connectors.service.ts';

const LOOK_EVERY_MS = 30_000;

/** A hash of what each file held, by the connector's id; undefined where it held none. */
type Seen = ReadonlyMap<string, string | undefined>;

/** Looks at the files that hold credentials, again and again: a mounted secret is replaced without a word. */
export function watchCredentialFiles(
  deps: ConnectorDeps & { readonly now: () => Date; readonly logger: Logger },
  { onShutdown }: Pick<ServiceContext, 'onShutdown'>,
): void {
  let seen: Seen | undefined;
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    try {
      seen = await noticeChangedFiles(deps, seen);
    } catch (error) {
      deps.logger.warn({ err: error }, 'files of credentials could not be looked at; trying again');
    } finally {
      looking = undefined;
    }
  };
  const timer = setInterval(() => {
    looking ??= look();
  }, LOOK_EVERY_MS);
  looking = look();
  onShutdown('credential files', async () => {
    clearInterval(timer);
    await looking;
  });
}

/** Tells the proxies, by a change of its connector, of each file that holds something else than it was seen to hold. */
export async function noticeChangedFiles(
  { db, credentials, now }: ConnectorDeps & { readonly now: () => Date },
  before: Seen | undefined,
): Promise<Seen> {
  const rows = (await findEnabledConnectors(db)).filter((row) => row.credential_ref?.startsWith('file:'));
  const seen = new Map<string, string | undefined>();
  for (const { id, credential_ref: ref } of rows) {
    if (ref === null) continue;
    const credential = await credentials.read(ref);
    const hash = 'value' in credential ? sha256(`${ref}\0${credential.value}`) : undefined;
    seen.set(id, hash);
    if (!before?.has(id) || before.get(id) === hash) continue;
    const actor = { principalId: 'environment', identity: null };
    await db.transaction().execute(async (tx) => {
      const action = 'connector.credential_changed';
      await recordChange(tx, { actor, action, resourceId: id, detail: { credential_ref: ref }, at: now() });
    });
  }
  return seen;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
