import { chmod, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { isWellFormedToken, mintToken } from '@weighbridge/domain';
import { ensureFolder, type Logger } from '@weighbridge/runtime';
import { sql } from 'kysely';
import { SCOPES } from '../../shared/scopes.ts';
import { readShippedCatalog } from '../catalog/catalogFile.ts';
import { importCatalog } from '../catalog/catalogImport.service.ts';
import { recordChange } from '../changes/changes.service.ts';
import { issueFirstKey } from '../keys/keyIssuing.service.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import { createStarterPolicy } from '../policies/policies.service.ts';

export interface BootstrapOptions {
  /** The operator's key, where the deployment gives one. */
  readonly token: string | undefined;
  /** Where the operator's key is handed out; undefined where the deployment gave it and needs no file. */
  readonly file: string | undefined;
}

/** Any number: what counts is that every control plane uses the same for this. */
const BOOTSTRAP_LOCK = 5_213_844_107;

/**
 * Brings a database to where it can be worked with: the catalog of this release, and, where it is empty, a policy for
 * all and the operator's key. Safe when several control planes start at once.
 */
export async function bootstrap(
  deps: KeyDeps & { logger: Logger },
  options: BootstrapOptions,
): Promise<void> {
  const catalog = await readShippedCatalog();
  await deps.db.transaction().execute(async (tx) => {
    await sql`SELECT pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`.execute(tx);
    const now = deps.now();
    const actor = { principalId: 'bootstrap', identity: null };
    const imported = await importCatalog(tx, catalog, now);
    if (imported.changedModels + imported.newPrices > 0) {
      await recordChange(tx, {
        actor,
        action: 'catalog.imported',
        resourceId: 'catalog',
        detail: imported,
        at: now,
      });
    }
    // The file comes before the commit: a crash in between leaves a token that the next start takes up, not a key
    // that nobody was ever told.
    const token = await firstToken(options);
    if (!(await issueFirstKey(tx, deps, token, SCOPES))) return;
    if (options.file) await writeTokenFile(options.file, token);
    const policy = await createStarterPolicy(tx, now);
    await recordChange(tx, {
      actor,
      action: 'policy.created',
      resourceId: policy.id,
      detail: { name: policy.name },
      at: now,
    });
    deps.logger.info({ file: options.file }, 'the database was empty: issued the operator key');
  });
}

async function firstToken({ token, file }: BootstrapOptions): Promise<string> {
  if (token) return token;
  const left = file && (await readFile(file, 'utf8').catch(() => '')).trim();
  return left && isWellFormedToken(left) ? left : mintToken();
}

async function writeTokenFile(file: string, token: string): Promise<void> {
  try {
    await ensureFolder(dirname(resolve(file)));
    const unfinished = `${file}.new`;
    await writeFile(unfinished, `${token}\n`, { mode: 0o600 });
    await chmod(unfinished, 0o600);
    await rename(unfinished, file);
  } catch (error) {
    throw new Error(
      `Can't write the operator key to ${file}; choose another place, or set WEIGHBRIDGE_BOOTSTRAP_KEY`,
      {
        cause: error,
      },
    );
  }
}
