import { chmod, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { isWellFormedToken, mintToken } from '@weighbridge/domain';
import { ensureFolder, type Logger } from '@weighbridge/runtime';
import { sql } from 'kysely';
import { SCOPES } from '../../shared/scopes.ts';
import type { CatalogFileModel } from '../catalog/catalogFile.ts';
import { importShipped } from '../catalog/catalogImport.service.ts';
import { shippedCatalog } from '../catalog/shippedCatalog.ts';
import { recordChange } from '../changes/changes.service.ts';
import { issueFirstKey } from '../keys/keyIssuing.service.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import { createStarterPolicy } from '../policies/policies.service.ts';

export interface BootstrapOptions {
  /** The operator key that the deployment sets; undefined: one is generated. */
  readonly token: string | undefined;
  /** The file that the operator key is written to; undefined: none. */
  readonly file: string | undefined;
}

/** An arbitrary number that every control plane uses for this lock. */
const BOOTSTRAP_LOCK = 5_213_844_107;

/**
 * Imports the catalog of this release, and creates a default policy and the operator key if the database is empty. Safe
 * when several control planes start at once.
 */
export async function bootstrap(
  deps: KeyDeps & { logger: Logger },
  catalog: readonly CatalogFileModel[],
  options: BootstrapOptions,
): Promise<void> {
  await deps.db.transaction().execute(async (tx) => {
    await sql`SELECT pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`.execute(tx);
    const now = deps.now();
    const actor = { principalId: 'bootstrap', identity: null };
    await importShipped(tx, shippedCatalog(catalog, now), now);
    // Written before the commit: after a crash in between, the next start uses the token of the file. The other way
    // around, the key would be lost.
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
    deps.logger.info({ file: options.file }, 'created the operator key in an empty database');
  });
}

async function firstToken({ token, file }: BootstrapOptions): Promise<string> {
  if (token) return token;
  const written = file && (await readFile(file, 'utf8').catch(() => '')).trim();
  return written && isWellFormedToken(written) ? written : mintToken();
}

async function writeTokenFile(file: string, token: string): Promise<void> {
  try {
    await ensureFolder(dirname(resolve(file)));
    const temporary = `${file}.new`;
    await writeFile(temporary, `${token}\n`, { mode: 0o600 });
    await chmod(temporary, 0o600);
    await rename(temporary, file);
  } catch (error) {
    throw new Error(
      `Can't write the operator key to ${file}. Choose another file, or set WEIGHBRIDGE_BOOTSTRAP_KEY`,
      {
        cause: error,
      },
    );
  }
}
